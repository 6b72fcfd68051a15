package lint

import (
	"cmp"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
)

// together checks what several objects do to each other.
func (l *linter) together() {
	l.released()
	if len(l.modules) == 0 {
		return // nobody knows what the Services are for
	}
	for _, s := range l.services {
		l.service(s)
	}
}

// released reports a version of a module that has two jars.
func (l *linter) released() {
	type release struct{ name, version string }
	type jar struct {
		image string
		of    *workload
	}
	first := map[release]jar{}
	for _, w := range l.modules {
		for i, c := range w.template.Spec.Containers {
			v, _ := version(c)
			if v == "" || !strings.Contains(c.Image, ".jar") || unknown(v+c.Name+c.Image) {
				continue
			}
			r := release{c.Name, v}
			if other, known := first[r]; !known {
				first[r] = jar{c.Image, w}
			} else if other.image != c.Image {
				l.find("version-again", &w.object, w.in(fmt.Sprintf("spec.containers[%d].image", i)),
					"%s %s is the jar %s here and %s in %s: a base that has this version installs no other jar of it", c.Name, v, c.Image, other.image, other.of.title())
			}
		}
	}
}

func (l *linter) service(s *service) {
	if len(s.selector) == 0 {
		return // its endpoints are somebody else's
	}
	selector := labels.SelectorFromSet(s.selector)
	for _, w := range l.workloads {
		same := cmp.Or(w.meta.GetNamespace(), "default") == cmp.Or(s.meta.GetNamespace(), "default")
		if same && (selector.Matches(labels.Set(w.template.Labels)) || unknown(selector.String())) {
			return
		}
	}
	l.find("service-selects-nothing", &s.object, "spec.selector", "the selector %s fits no Pods of the workloads here, so the Service has no endpoints", selector)
}
