package main

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
)

// releases: one version of a module follows another.
func releases() []expectation {
	return slices.Concat(
		onBoth(expectation{Name: "release/order", Text: "on each base the old Pod is not Ready before the new Pod is Ready", Source: lossless + " 4", Level: must}, releaseOrder),
		onBoth(expectation{Name: "release/never-without", Text: "no base is without an active version at any moment of a rolling update", Source: lossless, Level: must}, releaseNeverWithout),
		onBoth(expectation{Name: "release/multi-activation", Text: "on a base that keeps several versions active only the new one stays", Source: "protocol 5.3", Level: must}, releaseMulti),
		onBoth(expectation{Name: "release/fails", Text: "while a new version can't be installed the old one stays active and its Pod Ready", Source: lossless, Level: must}, releaseFails),
		[]expectation{
			{Name: "release/switch", Text: "a base over HTTP that keeps the old version active is switched, without a moment without one", Source: "protocol 4.6, 5.3", Level: must, Check: releaseSwitch},
			{Name: "release/default-activation", Text: "on a base over MQTT that keeps the old version active the new Pod waits, and serves when the old one is gone", Source: "protocol 5.3", Level: should, Check: releaseDefault},
			{Name: "release/one-base", Text: "with one base the Service has an endpoint at every moment", Source: lossless, Level: should, Check: releaseOneBase},
			{Name: "release/undo", Text: "a rollback brings the earlier version back, with its URL", Source: rollback, Level: must, Check: releaseUndo},
			{Name: "release/chain", Text: "three releases in a row leave the last version alone", Source: lossless, Level: must, Check: releaseChain},
			{Name: "release/biz-deactivate", Text: "the earlier of two versions on a base has the reason BizDeactivate, and its Pod is Failed", Source: batches, Level: should, Check: releaseDeactivated},
			{Name: "release/scale", Text: "scaling up installs, scaling down uninstalls", Source: scaling, Level: must, Check: releaseScale},
			{Name: "release/restart", Text: "rollout restart with the same version and URL sends the base no command", Source: replacing, Level: should, Check: releaseRestart},
		},
	)
}

// rollout makes two bases with a Deployment of two, and releases version 2.0.0.
func (w *world) rollout(tunnel string, options ...func(*base)) []*base {
	bases := []*base{w.base(tunnel, options...), w.base(tunnel, options...)}
	for _, b := range bases {
		w.nodeReady(b)
	}
	t := w.template(module("m", "1.0.0"))
	spread(&t)
	w.deployment("m", 2, t)
	w.rolledOut("m")
	w.release("m", "2.0.0")
	return bases
}

func releaseOrder(w *world, tunnel string) {
	bases := w.rollout(tunnel)
	w.rolledOut("m")
	for _, b := range bases {
		w.hasModules(b, "m:2.0.0 ACTIVATED")
	}
	w.inOrder()
}

// inOrder checks the order of the last release: on each Node the Pods of older versions are not
// Ready, deleting or gone at the moment at which one of a newer version turns Ready.
func (w *world) inOrder() {
	ready := map[string]map[string]string{} // versions of Ready Pods by Node, then Pod
	turns := 0
	for _, m := range w.history() {
		node := m.pod.Spec.NodeName
		if ready[node] == nil {
			ready[node] = map[string]string{}
		}
		if m.gone || m.pod.DeletionTimestamp != nil || !isReady(m.pod) {
			delete(ready[node], m.pod.Name)
			continue
		}
		version := m.pod.Spec.Containers[0].Env[0].Value
		if _, already := ready[node][m.pod.Name]; !already {
			for other, older := range ready[node] {
				if older != version {
					w.fail("on Node %s Pod %s with %s turned Ready while Pod %s with %s was Ready", node, m.pod.Name, version, other, older)
				}
			}
			turns++
		}
		ready[node][m.pod.Name] = version
	}
	w.saw("%d Pods turned Ready, each on a Node without another Ready one", turns)
}

func releaseNeverWithout(w *world, tunnel string) {
	bases := w.rollout(tunnel)
	w.rolledOut("m")
	w.neverWithout(bases)
}

// neverWithout checks that bases end with version 2.0.0 alone, and had an active version always.
func (w *world) neverWithout(bases []*base) {
	for _, b := range bases {
		w.within(2*w.patience, "the base has the new version alone", modulesAre(b, "m:2.0.0 ACTIVATED"))
		if lost := b.lost(); len(lost) > 0 {
			w.fail("a base had no active version of %s; it was sent %v", join(lost), b.got(nil))
		}
		w.saw("%v", b.got(nil))
	}
}

func releaseMulti(w *world, tunnel string) {
	bases := w.rollout(tunnel, func(b *base) { b.activation = every })
	w.rolledOut("m")
	w.neverWithout(bases)
}

func releaseSwitch(w *world) {
	bases := w.rollout(overHTTP, func(b *base) { b.activation = first })
	w.rolledOut("m")
	w.neverWithout(bases)
	for _, b := range bases {
		if len(b.gotName(switchBiz)) == 0 {
			w.fail("no switchBiz was sent")
		}
	}
}

func releaseDefault(w *world) {
	b := w.ready(overMQTT, func(b *base) { b.activation = first })
	w.create(w.barePod("old", module("m", "1.0.0")))
	w.readyPod("old")
	w.create(w.barePod("new", module("m", "2.0.0")))
	w.soon("the new version is there, deactivated", modulesAre(b, "m:1.0.0 ACTIVATED", "m:2.0.0 DEACTIVATED"))
	w.throughout(w.listEvery+time.Second, "the old version serves, and its Pod alone is Ready", func() error {
		if isReady(w.get("new")) || !isReady(w.get("old")) {
			return fmt.Errorf("%s; %s", describe(w.get("old")), describe(w.get("new")))
		}
		return modulesAre(b, "m:1.0.0 ACTIVATED", "m:2.0.0 DEACTIVATED")()
	})
	w.saw("%s", describe(w.get("new")))
	w.remove("old")
	w.readyPod("new")
	w.hasModules(b, "m:2.0.0 ACTIVATED")
	w.saw("%v", b.got(nil))
}

func releaseFails(w *world, tunnel string) {
	b := w.ready(tunnel)
	w.deployment("m", 1, w.template(module("m", "1.0.0")))
	w.rolledOut("m")
	b.obey(func(c command) reply {
		if c.BizVersion == "2.0.0" && c.name == installBiz {
			return thrown("java.lang.reflect.InvocationTargetException")
		}
		return b.do(c)
	})
	w.release("m", "2.0.0")
	w.soon("the new version was tried", func() error {
		if len(b.gotName(installBiz)) < 2 {
			return errNone
		}
		return nil
	})
	w.throughout(w.listEvery+2*time.Second, "the old version serves", func() error {
		if err := modulesAre(b, "m:1.0.0 ACTIVATED")(); err != nil {
			return err
		}
		for _, p := range w.list() {
			if isReady(p) && p.Spec.Containers[0].Env[0].Value == "1.0.0" {
				return nil
			}
		}
		return fmt.Errorf("no Pod of it is Ready")
	})
	for _, p := range w.list() {
		w.saw("%s", describe(p))
	}
}

func releaseOneBase(w *world) {
	b := w.ready(overMQTT)
	w.service("m")
	w.deployment("m", 1, w.template(module("m", "1.0.0")))
	w.rolledOut("m")
	serves := func() error {
		if e := w.endpoints("m"); len(e) == 0 {
			return fmt.Errorf("the Service has no ready endpoint")
		}
		return nil
	}
	w.soon("the Service has an endpoint", serves)
	w.release("m", "2.0.0")
	start := time.Now()
	for done := false; !done; {
		rung := w.bell.next()
		w.must(serves())
		done = modulesAre(b, "m:2.0.0 ACTIVATED")() == nil
		if !done {
			select {
			case <-rung:
			case <-time.After(w.patience):
				w.fail("nothing has changed for %s; the base has %v", w.patience, b.has())
			}
		}
	}
	w.saw("an endpoint at every moment of %s", time.Since(start).Round(100*time.Millisecond))
}

func releaseUndo(w *world) {
	b := w.ready(overMQTT)
	w.deployment("m", 1, w.template(module("m", "1.0.0")))
	w.rolledOut("m")
	w.release("m", "2.0.0")
	w.rolledOut("m")
	w.hasModules(b, "m:2.0.0 ACTIVATED")
	w.release("m", "1.0.0") // what kubectl rollout undo writes
	w.rolledOut("m")
	w.hasModules(b, "m:1.0.0 ACTIVATED")
	if url := b.url("m", "1.0.0"); url != jar("m", "1.0.0") {
		w.fail("its URL is %s", url)
	}
	if lost := b.lost(); len(lost) > 0 {
		w.fail("the base had no active version of %s", join(lost))
	}
}

func releaseChain(w *world) {
	b := w.ready(overMQTT)
	b.obey(func(c command) reply {
		if c.name == installBiz {
			b.resolve(c)
			w.pass(300 * time.Millisecond)
			return b.start(c)
		}
		return b.do(c)
	})
	w.deployment("m", 1, w.template(module("m", "1.0.0")))
	w.rolledOut("m")
	for _, version := range []string{"2.0.0", "3.0.0", "4.0.0"} {
		w.release("m", version)
	}
	w.rolledOut("m")
	w.within(2*w.patience, "only the last version is there", modulesAre(b, "m:4.0.0 ACTIVATED"))
	if lost := b.lost(); len(lost) > 0 {
		w.fail("the base had no active version of %s; it was sent %v", join(lost), b.got(nil))
	}
	w.saw("%v", b.got(nil))
}

func releaseDeactivated(w *world) {
	b := w.ready(overMQTT)
	w.create(w.barePod("old", module("m", "1.0.0")))
	w.readyPod("old")
	w.create(w.barePod("new", module("m", "2.0.0")))
	w.readyPod("new")
	w.hasModules(b, "m:1.0.0 DEACTIVATED", "m:2.0.0 ACTIVATED")
	w.notReadyPod("old", w.patience)
	w.says("old", "BizDeactivate")
	if p := w.get("old"); p.Status.Phase != corev1.PodFailed {
		w.fail("%s", describe(p))
	}
	w.saw("%s", describe(w.get("old")))
}

func releaseScale(w *world) {
	bases := []*base{w.base(overMQTT), w.base(overMQTT), w.base(overHTTP)}
	for _, b := range bases {
		w.nodeReady(b)
	}
	t := w.template(module("m", "1.0.0"))
	spread(&t)
	w.deployment("m", 1, t)
	for _, n := range []int32{1, 3, 1} {
		w.update("m", func(d *appsv1.Deployment) { d.Spec.Replicas = &n })
		w.rolledOut("m")
		w.within(2*w.patience, fmt.Sprintf("%d bases have the module", n), func() error {
			have := 0
			for _, b := range bases {
				have += len(b.has())
			}
			if have != int(n) {
				return fmt.Errorf("%d have", have)
			}
			return nil
		})
	}
	w.saw("1, 3, 1 bases with the module")
}

func releaseRestart(w *world) {
	b := w.ready(overMQTT)
	w.deployment("m", 1, w.template(module("m", "1.0.0")))
	w.rolledOut("m")
	w.update("m", func(d *appsv1.Deployment) {
		d.Spec.Template.Annotations = map[string]string{"kubectl.kubernetes.io/restartedAt": time.Now().Format(time.RFC3339)}
	})
	w.rolledOut("m")
	w.soon("one Pod is left", func() error {
		if n := len(w.list()); n != 1 {
			return fmt.Errorf("there are %d", n)
		}
		return nil
	})
	if err := cmp.Or(sameCommands(b, "installBiz m:1.0.0"), modulesAre(b, "m:1.0.0 ACTIVATED")()); err != nil {
		w.fail("%v", err)
	}
}
