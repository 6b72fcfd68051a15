package main

import (
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	appsv1 "k8s.io/api/apps/v1"
)

// replacements: 模块替换, a module is replaced in place.
func replacements() []expectation {
	return slices.Concat(
		onBoth(expectation{Name: "replace/image", Text: "another image of the same version is installed in place of the old one", Source: replacing, Level: must}, replaceImage),
		onBoth(expectation{Name: "replace/version", Text: "another version and image are installed in the same Pod, and the old version goes", Source: replacing, Level: must}, replaceVersion),
		[]expectation{
			{Name: "replace/image-shown", Text: "a Pod shows the image that runs, also after its own was changed", Source: replacing, Level: must, Check: replaceShown},
			{Name: "replace/image-not-ready", Text: "a Pod is not Ready while its module is replaced by another image of the version", Source: replacing, Level: should, Check: replaceNotReady},
			{Name: "replace/deployment-image", Text: "kubectl set image of a Deployment, with the version unchanged, puts the new jar on every base", Source: replacing, Level: must, Check: replaceDeploymentImage},
			{Name: "replace/one-of-two", Text: "replacing one module of a Pod leaves the other alone", Source: replacing, Level: must, Check: replaceOneOfTwo},
		},
	)
}

const patchedJar = "https://modules.example/patched/m-1.0.0-ark-biz.jar"

func setImage(container, image string) string {
	return fmt.Sprintf(`{"spec":{"containers":[{"name":%q,"image":%q}]}}`, container, image)
}

// installedFrom waits until a base has a module from a URL.
func (w *world) installedFrom(b *base, name, version, url string) time.Duration {
	return w.soon("the base has the module from the new URL", func() error {
		if got := b.url(name, version); got != url {
			return fmt.Errorf("it has %v from %s; it was sent %v", b.has(), got, b.got(nil))
		}
		return nil
	})
}

func replaceImage(w *world, tunnel string) {
	b := w.ready(tunnel)
	w.served("m")
	w.patch("m", setImage("m", patchedJar))
	w.installedFrom(b, "m", "1.0.0", patchedJar)
	w.readyPod("m")
	w.saw("%v", b.got(nil))
}

func replaceVersion(w *world, tunnel string) {
	b := w.ready(tunnel)
	p := w.barePod("m", module("m", "1.0.0"))
	p.Annotations = map[string]string{"version": "1.0.0"}
	p.Spec.Containers[0].Env[0] = fieldVersion()
	w.create(p)
	w.readyPod("m")
	patch := fmt.Sprintf(`{"metadata":{"annotations":{"version":"2.0.0"}},"spec":{"containers":[{"name":"m","image":%q}]}}`, jar("m", "2.0.0"))
	w.patch("m", patch)
	w.within(2*w.patience, "the new version is there alone", modulesAre(b, "m:2.0.0 ACTIVATED"))
	w.readyPod("m")
	if lost := b.lost(); len(lost) > 0 {
		w.fail("the base had no active version of %s; it was sent %v", join(lost), b.got(nil))
	}
	w.saw("%v", b.got(nil))
}

func replaceShown(w *world) {
	b := w.ready(overMQTT)
	w.served("m")
	hang(b)
	w.patch("m", setImage("m", patchedJar))
	w.throughout(2*w.listEvery+2*time.Second, "its status shows what the base has", w.isPod("m", func(p *corev1.Pod) bool {
		c := p.Status.ContainerStatuses[0]
		return b.url("m", "1.0.0") == patchedJar || c.Image != patchedJar && c.ImageID != patchedJar
	}))
}

func replaceNotReady(w *world) {
	b := w.ready(overMQTT)
	w.served("m")
	b.obey(func(c command) reply {
		if c.name == installBiz {
			b.resolve(c)
			return silence
		}
		return b.do(c)
	})
	w.patch("m", setImage("m", patchedJar))
	w.saw("not Ready after %s", w.notReadyPod("m", w.bound()).Round(100*time.Millisecond))
	w.soon("the base is installing the new one", func() error {
		if b.url("m", "1.0.0") != patchedJar {
			return fmt.Errorf("it was sent %v", b.got(nil))
		}
		return nil
	})
}

func replaceDeploymentImage(w *world) {
	bases := []*base{w.base(overMQTT), w.base(overMQTT)}
	for _, b := range bases {
		w.nodeReady(b)
	}
	t := w.template(module("m", "1.0.0"))
	spread(&t)
	w.deployment("m", 2, t)
	w.rolledOut("m")
	w.update("m", func(d *appsv1.Deployment) { d.Spec.Template.Spec.Containers[0].Image = patchedJar })
	w.rolledOut("m")
	for _, b := range bases {
		w.installedFrom(b, "m", "1.0.0", patchedJar)
	}
}

func replaceOneOfTwo(w *world) {
	b := w.ready(overMQTT)
	p := w.barePod("two", module("first", "1.0.0"), module("second", "1.0.0"))
	p.Annotations = map[string]string{"version": "1.0.0"}
	p.Spec.Containers[0].Env[0] = fieldVersion()
	w.create(p)
	w.readyPod("two")
	w.patch("two", `{"metadata":{"annotations":{"version":"2.0.0"}}}`)
	w.within(2*w.patience, "the first is replaced", modulesAre(b, "first:2.0.0 ACTIVATED", "second:1.0.0 ACTIVATED"))
	for _, c := range b.got(nil) {
		if strings.HasPrefix(c.String(), "uninstallBiz second") {
			w.fail("the second was uninstalled")
		}
	}
	w.readyPod("two")
}
