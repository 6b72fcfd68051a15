package main

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// refusals: what goes wrong is said, with the codes of guide 5.6.
func refusals() []expectation {
	list := []expectation{
		{Name: "error/no-version", Text: "a module Pod without BIZ_VERSION says so, and nothing is sent", Source: errorCodes + " InvalidParameter", Level: should,
			Check: func(w *world) { invalid(w, corev1.Container{Name: "m", Image: jar("m", "1.0.0")}, "BIZ_VERSION") }},
		{Name: "error/no-url", Text: "a module Pod whose image is no URL says so, and nothing is sent", Source: errorCodes + " DecodeURLFailed", Level: should,
			Check: func(w *world) {
				c := module("m", "1.0.0")
				c.Image = "nginx:1.27"
				invalid(w, c, "nginx:1.27")
			}},
		{Name: "error/event", Text: "a failed install is a Warning Event of the Pod", Source: errorCodes, Level: should, Check: errorEvent},
		{Name: "error/logged", Text: "a refused install is in the controller's log, with the module", Source: errorCodes, Level: should, Check: errorLogged},
		{Name: "error/unsupported", Text: "a Pod with a probe, a lifecycle hook or an init container says what a module can't do", Source: "Kubernetes: Pod lifecycle", Level: should, Check: errorUnsupported},
	}
	for _, c := range []struct{ name, exception, code string }{
		{"metaspace", "java.lang.OutOfMemoryError: Metaspace", "MetaspaceFull"},
		{"disk", "java.io.IOException: No space left on device", "DiskFull"},
		{"user", "java.lang.reflect.InvocationTargetException", "InstallModuleFailed|InstallBizUserError"},
		{"code-kept", "User.MachineMalfunction: the disk is broken", "MachineMalfunction"},
		{"pull", "java.net.UnknownHostException: modules.example", "InstallModuleFailed|PullBizError"},
	} {
		list = append(list, onBoth(expectation{
			Name: "error/" + c.name, Text: c.exception + " shows as " + strings.ReplaceAll(c.code, "|", " or "), Source: errorCodes, Level: should,
		}, func(w *world, tunnel string) {
			b := w.ready(tunnel)
			b.obey(func(command) reply { return thrown(c.exception) })
			w.create(w.barePod("m", module("m", "1.0.0")))
			w.soon("the Pod or an Event names the code", func() error {
				all := w.text("m")
				if !slices.ContainsFunc(strings.Split(c.code, "|"), func(code string) bool { return strings.Contains(all, code) }) {
					return fmt.Errorf("they say %q", all)
				}
				return nil
			})
			w.saw("%s", describe(w.get("m")))
		})...)
	}
	return list
}

func invalid(w *world, c corev1.Container, says string) {
	b := w.ready(overMQTT)
	p := w.barePod("m", c)
	w.create(p)
	w.says("m", says)
	w.throughout(time.Second, "nothing is sent", func() error { return sameCommands(b) })
	if isReady(w.get("m")) {
		w.fail("%s", describe(w.get("m")))
	}
	w.saw("%s", describe(w.get("m")))
}

func errorEvent(w *world) {
	b := w.ready(overMQTT)
	b.obey(func(command) reply { return thrown("java.net.ConnectException: Connection refused") })
	w.create(w.barePod("m", module("m", "1.0.0")))
	w.soon("there is a Warning", func() error {
		if all := w.eventsOf("m"); !strings.Contains(all, corev1.EventTypeWarning) {
			return fmt.Errorf("the Events are %q", all)
		}
		return nil
	})
	first, _, _ := strings.Cut(w.eventsOf("m"), "\n")
	w.saw("%s", first)
}

// errorLogged looks into the log again whenever something has changed: the controller tries again
// and again, so it does.
func errorLogged(w *world) {
	b := w.ready(overMQTT)
	b.obey(func(command) reply { return thrown("java.net.ConnectException: no jar for " + w.name) })
	w.create(w.barePod("m", module("m", "1.0.0")))
	w.soon("the log says it", func() error {
		for i := range w.replicas {
			text, err := os.ReadFile(w.box.Log(w.controller(i + 1)))
			if err != nil {
				return err
			}
			for line := range strings.Lines(string(text)) {
				if strings.Contains(line, "no jar for "+w.name) {
					return nil
				}
			}
		}
		return errNone
	})
}

func errorUnsupported(w *world) {
	w.ready(overMQTT)
	p := w.barePod("m", module("m", "1.0.0"))
	p.Spec.Containers[0].StartupProbe = &corev1.Probe{ProbeHandler: corev1.ProbeHandler{TCPSocket: &corev1.TCPSocketAction{Port: portOf(1)}}}
	p.Spec.Containers[0].Lifecycle = &corev1.Lifecycle{PostStart: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{Command: []string{"true"}}}}
	p.Spec.InitContainers = []corev1.Container{{Name: "before", Image: "busybox"}}
	w.create(p)
	w.soon("an Event says it", func() error {
		all := strings.ToLower(w.eventsOf("m"))
		for _, what := range []string{"startupprobe", "poststart", "initcontainer"} {
			if !strings.Contains(all, what) {
				return fmt.Errorf("%s is not in the Events %q", what, all)
			}
		}
		return nil
	})
}
