package main

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// statuses: what a Pod says of its module.
func statuses() []expectation {
	list := []expectation{
		{Name: "status/running", Text: "an activated module is a running, ready container of a Running Pod", Source: "behaviour D18, D20", Level: must, Check: statusRunning},
		{Name: "status/pod-ip", Text: "podIP is the base's address, and Pods can be selected by it and by their Node", Source: view, Level: must, Check: statusIP},
		{Name: "status/conditions", Text: "PodScheduled stays, and conditions have times", Source: "behaviour D20", Level: should, Check: statusConditions},
		{Name: "status/older-label", Text: "a Pod with the label module-controller.koupleless.io/component is served", Source: release, Level: must, Check: statusOlderLabel},
		{Name: "status/sample-tolerations", Text: "the sample, which tolerates no environment, is scheduled and served", Source: release, Level: must, Check: statusSample},
		{Name: "status/no-label", Text: "a Pod on a base without the component label is not installed", Source: principle + " vPod", Level: must, Check: statusNoLabel},
		{Name: "status/second-pod", Text: "two Pods of one module and version on a base are both Ready", Source: "behaviour U17", Level: should, Check: statusTwoPods},
		{Name: "status/restart-during-install", Text: "an install that a crash of the base ended is made again", Source: "behaviour B9", Level: must, Check: statusCrashInInstall},
	}
	return slices.Concat(list, stateExpectations(),
		onBoth(expectation{Name: "ready/lost", Text: "a module that somebody else uninstalled is not Ready any more, or installed again", Source: lossless + " 4", Level: must}, readyLost),
		onBoth(expectation{Name: "ready/lost-install-hangs", Text: "Ready goes with the module though the install that is to bring it back hangs", Source: lossless + " 4", Level: must}, readyLostHangs),
		onBoth(expectation{Name: "ready/deactivated-install-hangs", Text: "Ready goes when the only version is deactivated though the commands that are to repair it hang", Source: lossless + " 4", Level: must}, readyDeactivatedHangs),
		onBoth(expectation{Name: "ready/crash-slow-install", Text: "Pods on a base that crashed and is back at once are not Ready while the module is installed again", Source: lossless + " 4", Level: must}, readyCrash),
		onBoth(expectation{Name: "ready/restart", Text: "a base that restarts gets its modules again", Source: "behaviour B9", Level: must}, readyRestart),
		onBoth(expectation{Name: "ready/silence", Text: "Pods on a silent base are not Ready, and are Ready again when it speaks, with nothing installed again", Source: "behaviour B6", Level: must}, readySilence),
	)
}

// stateExpectations are those of protocol 5.1 against behaviour D18. The base refuses all commands
// by which a controller might repair the state.
func stateExpectations() []expectation {
	var list []expectation
	for _, c := range []struct{ state, reason, container string }{
		{resolved, "CREATED", "waiting"},
		{deactivated, "SWITCHED", "waiting"},
		{broken, "UN_INSTALL_FAILED", "waiting"},
		{stopped, "STOPPED", "terminated"},
	} {
		list = append(list, onBoth(expectation{
			Name: "state/" + map[string]string{resolved: "resolved", deactivated: "deactivated", broken: "broken", stopped: "stopped"}[c.state],
			Text: "a module that the list calls " + c.state + " is not Ready, and its container is " + c.container, Source: "behaviour D18", Level: must,
		}, func(w *world, tunnel string) {
			b := w.ready(tunnel)
			w.served("m")
			b.obey(func(c command) reply { return refused(c.name, "ILLEGAL_STATE_BIZ", "not now") })
			b.put("m", "1.0.0", c.state, c.reason, "the reason")
			took := w.notReadyPod("m", w.listEvery+w.patience)
			w.soon("the container is "+c.container, w.isPod("m", func(p *corev1.Pod) bool {
				return len(p.Status.ContainerStatuses) == 1 && containerState(p.Status.ContainerStatuses[0]) == c.container
			}))
			w.saw("not Ready after %s; %s", took.Round(100*time.Millisecond), describe(w.get("m")))
		})...)
	}
	return list
}

func containerState(c corev1.ContainerStatus) string {
	switch {
	case c.State.Running != nil:
		return "running"
	case c.State.Terminated != nil:
		return "terminated"
	case c.State.Waiting != nil:
		return "waiting"
	default:
		return "without a state"
	}
}

func statusRunning(w *world) {
	w.ready(overMQTT)
	p := w.served("m")
	if len(p.Status.ContainerStatuses) != 1 {
		w.fail("it has %d container statuses", len(p.Status.ContainerStatuses))
	}
	c := p.Status.ContainerStatuses[0]
	if p.Status.Phase != corev1.PodRunning || !c.Ready || c.Name != "m" || c.State.Running == nil || c.State.Running.StartedAt.IsZero() {
		w.fail("%s; %+v", describe(p), c)
	}
	w.saw("%s, container %s since %s", describe(p), c.ContainerID, c.State.Running.StartedAt.UTC().Format(time.TimeOnly))
}

func statusIP(w *world) {
	b := w.ready(overMQTT)
	p := w.served("m")
	if p.Status.PodIP != b.ip {
		w.fail("podIP is %q, the base's is %s", p.Status.PodIP, b.ip)
	}
	for _, selector := range []string{"status.podIP=" + b.ip, "spec.nodeName=" + w.node(b).Name} {
		pods, err := w.client.CoreV1().Pods(w.name).List(w.ctx, metav1.ListOptions{FieldSelector: selector})
		w.must(err)
		if len(pods.Items) != 1 {
			w.fail("--field-selector %s finds %d Pods", selector, len(pods.Items))
		}
		w.saw("%s finds %s", selector, pods.Items[0].Name)
	}
}

func statusConditions(w *world) {
	w.ready(overMQTT)
	p := w.served("m")
	for _, kind := range []corev1.PodConditionType{corev1.PodScheduled, corev1.PodInitialized, corev1.ContainersReady, corev1.PodReady} {
		if s := conditionOf(p, kind); s != corev1.ConditionTrue {
			w.fail("%s is %q", kind, s)
		}
	}
	for _, c := range p.Status.Conditions {
		if c.LastTransitionTime.IsZero() && c.Type == corev1.PodReady {
			w.fail("condition %s has no time", c.Type)
		}
	}
	if p.Status.StartTime.IsZero() {
		w.fail("startTime is not set")
	}
}

func statusOlderLabel(w *world) {
	b := w.ready(overMQTT)
	p := w.barePod("m", module("m", "1.0.0"))
	p.Labels = map[string]string{olderComponent: "module"}
	w.create(p)
	w.readyPod("m")
	w.hasModules(b, "m:1.0.0 ACTIVATED")
}

func statusSample(w *world) {
	b := w.ready(overMQTT)
	p := w.barePod("m", module("m", "1.0.0"))
	p.Labels = map[string]string{olderComponent: "module"}
	p.Spec.Tolerations = []corev1.Toleration{tolerate(virtualNode, "True")}
	w.create(p)
	w.readyPod("m")
	w.hasModules(b, "m:1.0.0 ACTIVATED")
}

func statusNoLabel(w *world) {
	b := w.ready(overMQTT)
	p := w.barePod("m", module("m", "1.0.0"))
	p.Labels = nil
	w.create(p)
	w.soon("it is on the base", w.isPod("m", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }))
	w.throughout(w.listEvery, "nothing is installed", func() error { return sameCommands(b) })
}

func statusTwoPods(w *world) {
	b := w.ready(overMQTT)
	for _, name := range []string{"one", "two"} {
		w.create(w.barePod(name, module("m", "1.0.0")))
	}
	w.readyPod("one")
	w.readyPod("two")
	w.remove("one")
	w.goneWithin("one", "", 2*w.patience)
	w.throughout(w.listEvery, "the other's module stays", modulesAre(b, "m:1.0.0 ACTIVATED"))
	w.readyPod("two")
}

func statusCrashInInstall(w *world) {
	b := w.ready(overMQTT)
	pass, open := w.gate()
	b.obey(func(c command) reply {
		if len(b.gotName(installBiz)) == 1 {
			b.resolve(c)
			pass()
			return silence
		}
		return b.do(c)
	})
	w.create(w.barePod("m", module("m", "1.0.0")))
	w.soon("it is being installed", modulesAre(b, "m:1.0.0 RESOLVED"))
	b.disconnect()
	b.connect()
	open()
	w.readyPod("m")
}

func readyLost(w *world, tunnel string) {
	b := w.ready(tunnel)
	w.served("m")
	b.drop("m", "1.0.0")
	w.within(w.listEvery+w.patience, "the module is back, or the Pod is not Ready", func() error {
		if p := w.get("m"); isReady(p) && len(b.has()) == 0 {
			return fmt.Errorf("%s, and the base has no module", describe(p))
		}
		return nil
	})
	w.hasModules(b, "m:1.0.0 ACTIVATED")
	w.readyPod("m")
}

// hang makes a base never answer commands that change modules.
func hang(b *base) { b.obey(func(command) reply { return silence }) }

// readyBound is how long a Pod may stay Ready after a base has lost its module, with commands that hang
// for ever: until the next list, and what the machine needs.
func (w *world) readyBound() time.Duration { return w.listEvery + w.bound() }

func readyLostHangs(w *world, tunnel string) {
	b := w.ready(tunnel)
	w.served("m")
	hang(b)
	b.drop("m", "1.0.0")
	w.saw("not Ready after %s", w.notReadyPod("m", w.readyBound()).Round(100*time.Millisecond))
}

func readyDeactivatedHangs(w *world, tunnel string) {
	b := w.ready(tunnel)
	w.served("m")
	hang(b)
	b.put("m", "1.0.0", deactivated, "SWITCHED", "switch to new version")
	w.saw("not Ready after %s", w.notReadyPod("m", w.readyBound()).Round(100*time.Millisecond))
}

func readyCrash(w *world, tunnel string) {
	b := w.ready(tunnel)
	w.served("m")
	b.disconnect()
	hang(b)
	w.pass(500 * time.Millisecond)
	b.connect()
	w.saw("not Ready after %s", w.notReadyPod("m", w.healthEvery+w.readyBound()).Round(100*time.Millisecond))
}

func readyRestart(w *world, tunnel string) {
	b := w.ready(tunnel)
	w.served("m")
	b.disconnect()
	b.connect()
	took := w.hasModules(b, "m:1.0.0 ACTIVATED")
	w.readyPod("m")
	w.saw("installed again after %s", took.Round(100*time.Millisecond))
}

func readySilence(w *world, tunnel string) {
	b := w.ready(tunnel)
	p := w.served("m")
	b.disconnect()
	took := w.notReadyPod("m", w.unreachable+w.patience)
	w.saw("not Ready after %s", took.Round(100*time.Millisecond))
	b.reconnect()
	if again := w.readyPod("m"); again.UID != p.UID {
		w.fail("it is another Pod")
	}
	if err := sameCommands(b, "installBiz m:1.0.0"); err != nil {
		w.fail("%v", err)
	}
}
