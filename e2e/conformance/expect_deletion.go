package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// deletions: a Pod goes, and its module with it.
func deletions() []expectation {
	return slices.Concat(
		onBoth(expectation{Name: "delete/order", Text: "a Pod leaves the API only when its module is uninstalled", Source: takeDown, Level: must}, deleteOrder),
		onBoth(expectation{Name: "delete/foreign", Text: "modules that no Pod asked for are never touched", Source: "behaviour C17", Level: must}, deleteForeign),
		[]expectation{
			{Name: "delete/drained", Text: "the module stays until no Service has an endpoint of the Pod", Source: lossless, Level: must, Check: deleteDrained},
			{Name: "delete/refused", Text: "an uninstall that fails once is tried again within the Pod's grace period", Source: "behaviour C16", Level: should, Check: deleteRefused},
			{Name: "delete/during-install", Text: "a Pod that is deleted while its module is installed leaves nothing", Source: takeDown, Level: must, Check: deleteDuringInstall},
			{Name: "delete/forced", Text: "a Pod that is deleted by force leaves nothing", Source: takeDown, Level: must, Check: deleteForced},
			{Name: "delete/finalizer", Text: "a deleted Pod with a finalizer is not Ready when its module is gone, and has ended", Source: "Kubernetes: Pod lifecycle", Level: must, Check: deleteFinalizer},
			{Name: "delete/no-label", Text: "a deleted Pod without the component label that is bound to a base ends", Source: "Kubernetes: Pod lifecycle", Level: should, Check: deleteNoLabel},
			{Name: "delete/not-scheduled", Text: "a Pod that never had a base goes at once", Source: takeDown, Level: must, Check: deleteUnscheduled},
			{Name: "delete/foreign-uninstalled", Text: "the original controller uninstalls modules that no Pod asked for", Source: "behaviour C17", Level: original, Check: deleteForeignOriginal},
		},
	)
}

func deleteOrder(w *world, tunnel string) {
	b := w.ready(tunnel)
	w.served("m")
	pass, open := w.gate()
	b.obey(func(c command) reply {
		pass()
		return b.do(c)
	})
	w.remove("m")
	w.within(2*w.patience, "the uninstall is under way", func() error {
		if len(b.gotName(uninstallBiz)) == 0 {
			return errNone
		}
		return nil
	})
	w.throughout(2*time.Second, "the Pod is there, and not Ready or deleting", w.isPod("m", func(p *corev1.Pod) bool { return p.DeletionTimestamp != nil }))
	open()
	w.goneWithin("m", "", w.patience)
	w.hasModules(b)
}

func deleteForeign(w *world, tunnel string) {
	b := w.base(tunnel)
	b.put("merged", "1.0.0", activated, "STARTED", "") // static merged deployment
	b.put("broken", "1.0.0", broken, "INSTALL_FAILED", "")
	w.nodeReady(b)
	w.served("m")
	w.remove("m")
	w.goneWithin("m", "", 2*w.patience)
	w.throughout(w.listEvery+time.Second, "what nobody asked for is there", modulesAre(b, "broken:1.0.0 BROKEN", "merged:1.0.0 ACTIVATED"))
	for _, c := range b.got(nil) {
		if c.BizName != "m" {
			w.fail("the base was sent %s", c)
		}
	}
}

func deleteForeignOriginal(w *world) {
	b := w.base(overMQTT)
	b.put("merged", "1.0.0", activated, "STARTED", "")
	w.within(2*w.listEvery+time.Second, "it is uninstalled", modulesAre(b))
}

func deleteDrained(w *world) {
	b := w.ready(overMQTT)
	w.service("m")
	w.served("m")
	w.soon("the Service has the endpoint", func() error {
		if e := w.endpoints("m"); len(e) != 1 || e[0] != b.ip {
			return fmt.Errorf("the endpoints are %v", e)
		}
		return nil
	})
	var ready []string
	var asking error
	b.obey(func(c command) reply {
		ready, asking = w.endpointsNow("m")
		return b.do(c)
	})
	start := time.Now()
	w.remove("m")
	w.goneWithin("m", "", 2*w.patience)
	w.must(asking)
	if len(ready) > 0 {
		w.fail("when uninstallBiz came the Service had the endpoints %v", ready)
	}
	if list := b.gotName(uninstallBiz); len(list) > 0 {
		w.saw("uninstallBiz %s after the deletion", list[0].at.Sub(start).Round(time.Millisecond))
	}
}

func deleteRefused(w *world) {
	b := w.ready(overMQTT)
	w.served("m")
	b.obey(func(c command) reply {
		if len(b.gotName(uninstallBiz)) == 1 {
			return thrown("java.lang.IllegalStateException: busy")
		}
		return b.do(c)
	})
	w.remove("m")
	w.goneWithin("m", "", 30*time.Second+w.patience) // the grace period of a Pod
	w.hasModules(b)
	w.saw("%d times uninstallBiz", len(b.gotName(uninstallBiz)))
}

func deleteDuringInstall(w *world) {
	b := w.ready(overMQTT)
	pass, open := w.gate()
	b.obey(func(c command) reply {
		if c.name == installBiz {
			b.resolve(c)
			pass()
			return b.start(c)
		}
		return b.do(c)
	})
	w.create(w.barePod("m", module("m", "1.0.0")))
	w.soon("it is being installed", modulesAre(b, "m:1.0.0 RESOLVED"))
	w.remove("m")
	w.soon("it is being deleted", func() error {
		if p := w.get("m"); p != nil && p.DeletionTimestamp == nil {
			return errNone
		}
		return nil
	})
	open()
	w.goneWithin("m", "", 30*time.Second+w.patience)
	w.hasModules(b)
}

func deleteForced(w *world) {
	b := w.ready(overMQTT)
	w.served("m")
	w.remove("m", 0)
	w.goneWithin("m", "", w.patience)
	took := w.hasModules(b)
	w.saw("uninstalled %s after the Pod was gone", took.Round(100*time.Millisecond))
}

func deleteFinalizer(w *world) {
	b := w.ready(overMQTT)
	p := w.barePod("m", module("m", "1.0.0"))
	p.Finalizers = []string{"example.com/keep"}
	w.create(p)
	w.readyPod("m")
	w.remove("m")
	w.within(2*w.patience, "the module is gone", modulesAre(b))
	w.soon("the Pod is not Ready, and has ended", w.isPod("m", func(p *corev1.Pod) bool {
		return !isReady(p) && (p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed)
	}))
	w.saw("%s", describe(w.get("m")))
	w.patch("m", `{"metadata":{"finalizers":null}}`)
	w.goneWithin("m", "", w.patience)
}

func deleteNoLabel(w *world) {
	w.ready(overMQTT)
	p := w.barePod("m", module("m", "1.0.0"))
	grace := int64(1)
	p.Labels, p.Spec.TerminationGracePeriodSeconds = nil, &grace
	w.create(p)
	w.soon("it is on the base", w.isPod("m", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }))
	w.remove("m")
	took := w.soon("the Pod is gone", func() error {
		if p := w.get("m"); p != nil {
			return errors.New(describe(p))
		}
		return nil
	})
	w.saw("gone after %s", took.Round(100*time.Millisecond))
}

func deleteUnscheduled(w *world) {
	w.ready(overMQTT)
	t := w.templateFor("9.9.9", module("m", "1.0.0"))
	t.Name = "m"
	w.create(&corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec})
	w.unscheduled("m")
	w.remove("m")
	w.goneWithin("m", "", w.patience)
}

// join makes one line of several.
func join(list []string) string { return strings.Join(list, ", ") }
