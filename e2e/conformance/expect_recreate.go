package main

import (
	"fmt"
	"slices"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// recreations: a Pod is made again under the name of one that was deleted.
func recreations() []expectation {
	var list []expectation
	for _, gap := range []time.Duration{0, 500 * time.Millisecond, time.Second, 2 * time.Second, 5 * time.Second} {
		list = append(list, onBoth(expectation{
			Name: fmt.Sprintf("recreate/forced-%s", gap), Text: fmt.Sprintf("a Pod made again %s after it was deleted by force is served", gap),
			Source: release + " 任意Pod", Level: must,
		}, func(w *world, tunnel string) { recreated(w, tunnel, gap, "1.0.0", nil) })...)
	}
	return slices.Concat(list,
		onBoth(expectation{Name: "recreate/other-version", Text: "a Pod made again with another version is served", Source: release + " 任意Pod", Level: must},
			func(w *world, tunnel string) { recreated(w, tunnel, 0, "2.0.0", nil) }),
		onBoth(expectation{Name: "recreate/during-uninstall", Text: "a Pod made again while the old one's module is uninstalled is served", Source: release + " 任意Pod", Level: must},
			func(w *world, tunnel string) {
				recreated(w, tunnel, 0, "1.0.0", func(b *base, c command) reply {
					if c.name == uninstallBiz {
						w.pass(1500 * time.Millisecond)
					}
					return b.do(c)
				})
			}),
		onBoth(expectation{Name: "recreate/during-install", Text: "a Pod made again while the old one's module is installed is served", Source: release + " 任意Pod", Level: must}, recreatedDuringInstall),
		onBoth(expectation{Name: "recreate/graceful", Text: "a Pod made again after it was deleted with its grace period is served", Source: release + " 任意Pod", Level: must}, recreatedGracefully),
		[]expectation{
			{Name: "recreate/statefulset-forced", Text: "kubectl delete pod --force of a StatefulSet's Pod brings a Pod that is served", Source: release + " StatefulSet", Level: must,
				Check: func(w *world) { statefulSet(w, 0) }},
			{Name: "recreate/statefulset", Text: "kubectl delete pod of a StatefulSet's Pod brings a Pod that is served", Source: release + " StatefulSet", Level: must,
				Check: func(w *world) { statefulSet(w, 30) }},
		},
	)
}

// recreated deletes a Pod by force and makes it again after a gap.
func recreated(w *world, tunnel string, gap time.Duration, version string, obey func(*base, command) reply) {
	b := w.ready(tunnel)
	old := w.served("m")
	if obey != nil {
		b.obey(func(c command) reply { return obey(b, c) })
	}
	w.remove("m", 0)
	if gap > 0 {
		w.pass(gap)
	}
	made := w.create(w.barePod("m", module("m", version)))
	w.servedAgain(b, old, made, version)
}

// servedAgain waits until a Pod that took another one's name is served.
func (w *world) servedAgain(b *base, old, made *corev1.Pod, version string) {
	if made.UID == old.UID {
		w.fail("it is the same Pod")
	}
	took := w.soon("the new Pod is Ready, and its module on the base", func() error {
		p := w.get("m")
		switch {
		case p == nil:
			return errNone
		case p.UID != made.UID || !isReady(p) || modulesAre(b, "m:"+version+" ACTIVATED")() != nil:
			return fmt.Errorf("%s; the base has %v; it was sent %v", describe(p), b.has(), b.got(nil))
		}
		return nil
	})
	w.throughout(w.listEvery+time.Second, "it stays so", func() error {
		if err := w.isPod("m", isReady)(); err != nil {
			return err
		}
		return modulesAre(b, "m:"+version+" ACTIVATED")()
	})
	w.saw("Ready after %s; %v", took.Round(100*time.Millisecond), b.got(nil))
}

func recreatedDuringInstall(w *world, tunnel string) {
	b := w.ready(tunnel)
	pass, open := w.gate()
	b.obey(func(c command) reply {
		if c.name == installBiz {
			b.resolve(c)
			pass()
			return b.start(c)
		}
		return b.do(c)
	})
	old := w.create(w.barePod("m", module("m", "1.0.0")))
	w.soon("it is being installed", modulesAre(b, "m:1.0.0 RESOLVED"))
	w.remove("m", 0)
	made := w.create(w.barePod("m", module("m", "1.0.0")))
	open()
	w.servedAgain(b, old, made, "1.0.0")
}

func recreatedGracefully(w *world, tunnel string) {
	b := w.ready(tunnel)
	old := w.served("m")
	w.remove("m")
	w.goneWithin("m", old.UID, 2*w.patience)
	made := w.create(w.barePod("m", module("m", "1.0.0")))
	w.servedAgain(b, old, made, "1.0.0")
}

func statefulSet(w *world, grace int64) {
	b := w.ready(overMQTT)
	t := w.template(module("m", "1.0.0"))
	one := int32(1)
	s := &appsv1.StatefulSet{ObjectMeta: metav1.ObjectMeta{Name: "ss"}, Spec: appsv1.StatefulSetSpec{Replicas: &one, Selector: selector(t), Template: t}}
	_, err := w.client.AppsV1().StatefulSets(w.name).Create(w.ctx, s, metav1.CreateOptions{})
	w.must(err)
	old := w.readyPod("ss-0")
	w.remove("ss-0", grace)
	took := w.soon("another Pod is Ready", w.isPod("ss-0", func(p *corev1.Pod) bool {
		return p.UID != old.UID && isReady(p) && modulesAre(b, "m:1.0.0 ACTIVATED")() == nil
	}))
	w.saw("Ready after %s; %v", took.Round(100*time.Millisecond), b.got(nil))
}
