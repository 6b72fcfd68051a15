package main

import (
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// disturbances: the controller, the broker or one of two controllers goes and comes back.
func disturbances() []expectation {
	return slices.Concat(
		onBoth(expectation{Name: "suspended/releases", Text: "two releases while the controller stands still end with the last version alone, and no moment without one", Source: lossless, Level: must, Phase: controllerStops}, suspendedReleases),
		onBoth(expectation{Name: "restart/keeps", Text: "a restarted controller sends no command for modules that are there, and their Pods stay Ready", Source: "behaviour B8", Level: must, Phase: controllerDies}, restartKeeps),
		onBoth(expectation{Name: "restart/created", Text: "a Pod that was made while no controller ran is served afterwards", Source: "behaviour B8", Level: must, Phase: controllerDies}, restartCreated),
		onBoth(expectation{Name: "restart/deleted", Text: "a Pod that was deleted while no controller ran is uninstalled afterwards", Source: "behaviour B8", Level: must, Phase: controllerDies}, restartDeleted),
		[]expectation{
			{Name: "restart/forced", Text: "the module of a Pod that was deleted by force while no controller ran goes afterwards", Source: takeDown, Level: should, Phase: controllerDies, Check: restartForced},
			{Name: "restart/installing", Text: "an install that was under way when the controller died ends in a Ready Pod, with one module", Source: "behaviour B8", Level: must, Phase: controllerDies, Check: restartInstalling},
			{Name: "restart/dead-base", Text: "the Node of a base that died while no controller ran goes", Source: "behaviour B6, B8", Level: must, Phase: controllerDies, Check: restartDeadBase},
			{Name: "restart/releasing", Text: "a release that began while no controller ran ends with the new version alone, and was never without one", Source: lossless, Level: must, Phase: controllerDies, Check: restartReleasing},
			{Name: "broker/keeps", Text: "after the broker restarted modules and Pods are as before, with no command sent", Source: "protocol 3.2", Level: must, Phase: brokerDies, Check: brokerKeeps},
			{Name: "broker/created", Text: "a Pod that was made while there was no broker is served afterwards", Source: "protocol 3.2", Level: must, Phase: brokerDies, Check: brokerCreated},
			{Name: "broker/http", Text: "without the broker bases over HTTP are served", Source: "guide 5.4", Level: should, Phase: brokerDies, Check: brokerHTTP},
			{Name: "blind/suspended", Text: "a controller that stood still longer than bases may be silent deletes nothing when it goes on", Source: "Kubernetes: zone disruption", Level: should, Long: true, Phase: controllerAway, Check: blind},
			{Name: "blind/broker", Text: "while the broker is away no Pod and no Node of a base that serves is deleted, and no Pod is Not Ready", Source: "Kubernetes: zone disruption", Level: should, Long: true, Phase: brokerAway, Check: blind},
			{Name: "sharing/once", Text: "of two controllers one sends a command, once", Source: cluster, Level: must, Replicas: 2, Check: sharingOnce},
			{Name: "sharing/takeover", Text: "when a controller dies another serves its bases, and sends nothing for what is there", Source: cluster, Level: must, Replicas: 2, Phase: oneOfTwoDies, Check: sharingTakeover},
		},
	)
}

// quiet checks that a Pod stays Ready and that its base is sent nothing more.
func (w *world) quiet(b *base, name string, d time.Duration) {
	w.throughout(d, "the Pod is Ready and the base is sent nothing", func() error {
		if err := w.isPod(name, isReady)(); err != nil {
			return err
		}
		return sameCommands(b, "installBiz "+name+":1.0.0")
	})
}

// notReadyMoments are the moments at which a Pod was not Ready after it was.
func (w *world) notReadyMoments(name string) []string {
	var list []string
	ready := false
	for _, m := range w.history() {
		if m.pod.Name != name || m.gone {
			continue
		}
		if ready && !isReady(m.pod) && m.pod.DeletionTimestamp == nil {
			list = append(list, m.at.Format("15:04:05.000")+" "+describe(m.pod))
		}
		ready = isReady(m.pod)
	}
	return list
}

func restartKeeps(w *world, tunnel string) {
	b := w.ready(tunnel)
	w.served("m")
	w.step()
	w.step()
	w.quiet(b, "m", w.listEvery+2*time.Second)
	if list := w.notReadyMoments("m"); len(list) > 0 {
		w.fail("the Pod was not Ready at %s", join(list))
	}
}

func restartCreated(w *world, tunnel string) {
	b := w.ready(tunnel)
	w.step()
	w.create(w.barePod("m", module("m", "1.0.0")))
	w.soon("it is on the base", w.isPod("m", func(p *corev1.Pod) bool { return p.Spec.NodeName != "" }))
	w.step()
	w.readyPod("m")
	w.hasModules(b, "m:1.0.0 ACTIVATED")
}

func restartDeleted(w *world, tunnel string) {
	b := w.ready(tunnel)
	w.served("m")
	w.step()
	w.remove("m")
	w.step()
	w.goneWithin("m", "", 30*time.Second+w.patience)
	w.hasModules(b)
}

func restartForced(w *world) {
	b := w.ready(overMQTT)
	w.served("m")
	w.step()
	w.remove("m", 0)
	w.goneWithin("m", "", w.patience)
	w.step()
	w.hasModules(b)
}

func restartInstalling(w *world) {
	b := w.ready(overMQTT)
	open := w.installing(b)
	w.step()
	open()
	w.hasModules(b, "m:1.0.0 ACTIVATED")
	w.step()
	w.readyPod("m")
	w.hasModules(b, "m:1.0.0 ACTIVATED")
}

func restartDeadBase(w *world) {
	b := w.ready(overMQTT)
	w.step()
	b.disconnect()
	w.step()
	w.within(w.dead+w.patience, "the Node is gone", func() error {
		if n := w.node(b); n != nil {
			return fmt.Errorf("node %s is there, Ready %q", n.Name, nodeCondition(n, corev1.NodeReady))
		}
		return nil
	})
}

func restartReleasing(w *world) {
	b := w.ready(overMQTT)
	w.deployment("m", 1, w.template(module("m", "1.0.0")))
	w.rolledOut("m")
	w.step()
	w.release("m", "2.0.0")
	w.soon("there is a new Pod on the base", func() error {
		for _, p := range w.list() {
			if p.Spec.NodeName != "" && p.Spec.Containers[0].Env[0].Value == "2.0.0" {
				return nil
			}
		}
		return errNone
	})
	w.step()
	w.rolledOut("m")
	w.neverWithout([]*base{b})
}

func suspendedReleases(w *world, tunnel string) {
	b := w.ready(tunnel)
	w.deployment("m", 1, w.template(module("m", "1.0.0")))
	w.rolledOut("m")
	w.step()
	for _, version := range []string{"2.0.0", "3.0.0"} {
		w.release("m", version)
		w.soon("there is a Pod of it", func() error {
			for _, p := range w.list() {
				if p.Spec.Containers[0].Env[0].Value == version {
					return nil
				}
			}
			return errNone
		})
	}
	w.step()
	w.rolledOut("m")
	w.within(2*w.patience, "the base has the last version alone", modulesAre(b, "m:3.0.0 ACTIVATED"))
	if lost := b.lost(); len(lost) > 0 {
		w.fail("the base had no active version of %s; it was sent %v", join(lost), b.got(nil))
	}
	w.saw("%v", b.got(nil))
}

// blind: the controller sees nothing for longer than a base may be silent, while the base serves.
func blind(w *world) {
	b := w.ready(overMQTT)
	p := w.served("m")
	n := w.node(b)
	w.step()
	w.pass(w.dead + 3*time.Second)
	w.step()
	w.throughout(w.dead+3*time.Second, "Node and Pod are there", func() error {
		if now := w.node(b); now == nil || now.UID != n.UID {
			return fmt.Errorf("node %s was deleted", n.Name)
		}
		if now := w.get("m"); now == nil || now.UID != p.UID || now.DeletionTimestamp != nil {
			return fmt.Errorf("the Pod was deleted")
		}
		return sameCommands(b, "installBiz m:1.0.0")
	})
	if list := w.notReadyMoments("m"); len(list) > 0 {
		w.fail("the Pod was not Ready at %s", join(list))
	}
}

func brokerKeeps(w *world) {
	b := w.ready(overMQTT)
	w.served("m")
	w.step()
	w.step()
	w.within(w.healthEvery+w.patience, "the base is asked again", func() error {
		if list := b.gotName(queryAllBiz); time.Since(list[len(list)-1].at) > w.listEvery {
			return errNone
		}
		return nil
	})
	w.quiet(b, "m", w.listEvery+2*time.Second)
	w.saw("not Ready in between: %d times", len(w.notReadyMoments("m")))
}

func brokerCreated(w *world) {
	b := w.ready(overMQTT)
	w.step()
	w.create(w.barePod("m", module("m", "1.0.0")))
	w.step()
	w.readyPod("m")
	w.hasModules(b, "m:1.0.0 ACTIVATED")
}

func brokerHTTP(w *world) {
	b := w.ready(overHTTP)
	w.step()
	w.served("m")
	w.hasModules(b, "m:1.0.0 ACTIVATED")
	w.step()
}

func sharingOnce(w *world) {
	for _, tunnel := range []string{overMQTT, overHTTP} {
		for i := range 2 {
			b := w.ready(tunnel, func(b *base) { b.version = fmt.Sprintf("1.0.%d-%s", i, tunnel) })
			name := fmt.Sprintf("m%d-%s", i, tunnel)
			t := w.templateFor(b.version, module(name, "1.0.0"))
			t.Name = name
			w.create(&corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec})
			w.readyPod(name)
			w.quiet(b, name, w.listEvery)
		}
	}
}

// sharingTakeover has enough bases that each controller serves some.
func sharingTakeover(w *world) {
	var bases []*base
	for i := range 6 {
		b := w.ready([]string{overMQTT, overHTTP}[i%2], func(b *base) { b.version = fmt.Sprintf("1.0.%d", i) })
		bases = append(bases, b)
		name := fmt.Sprintf("m%d", i)
		t := w.templateFor(b.version, module(name, "1.0.0"))
		t.Name = name
		w.create(&corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec})
		w.readyPod(name)
	}
	w.step() // one dies
	start := time.Now()
	for i, b := range bases {
		name := fmt.Sprintf("m%d", i)
		w.remove(name)
		w.goneWithin(name, "", w.dead+40*time.Second+w.patience) // behaviour H34: a lease of 40 s
		w.hasModules(b)
		if err := sameCommands(b, "installBiz "+name+":1.0.0", "uninstallBiz "+name+":1.0.0"); err != nil {
			w.fail("%v", err)
		}
	}
	w.saw("all six bases were served %s after the death", time.Since(start).Round(100*time.Millisecond))
	w.step()
}
