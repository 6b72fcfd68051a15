package lint

import (
	"cmp"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	workloads "github.com/koupleless/koupsandbox/controller/workload"
)

// checkTogether checks the rules that compare several objects.
func (l *linter) checkTogether() {
	l.checkReleasedJars()
	if len(l.modules) == 0 {
		return // the Services may be for other Pods
	}
	for _, s := range l.services {
		l.checkService(s)
	}
}

// checkReleasedJars adds a finding if the manifests specify different jars for the same module version.
func (l *linter) checkReleasedJars() {
	type release struct{ name, version string }
	type jar struct {
		image string
		of    *workload
	}
	first := map[release]jar{}
	for _, w := range l.modules {
		for c, at := range w.modules() {
			v := w.version(c)
			if v == "" || workloads.CheckImage(c) != nil || unknown(v+c.Name+c.Image) {
				continue
			}
			r := release{c.Name, v}
			if other, known := first[r]; !known {
				first[r] = jar{c.Image, w}
			} else if other.image != c.Image {
				hint := ""
				if path, _, _ := strings.Cut(c.Image, "?"); strings.HasPrefix(other.image, path+"?") {
					hint = l.in(partQueryDiffers, nil)
				}
				l.find("version-again", &w.object, at+".image", msgReleasedTwice,
					args{"module": c.Name, "version": v, "image": c.Image, "other": other.image,
						"object": other.of.title(), "hint": hint})
			}
		}
	}
}

func (l *linter) checkService(s *service) {
	if len(s.selector) == 0 {
		return // another component manages its endpoints
	}
	selector := labels.SelectorFromSet(s.selector)
	for _, w := range l.workloads {
		if sameNamespace(&w.meta, &s.meta) &&
			(selector.Matches(labels.Set(w.template.Labels)) || unknown(selector.String())) {
			return
		}
	}
	if i := slices.IndexFunc(l.opaque, func(o *object) bool { return sameNamespace(&o.meta, &s.meta) }); i >= 0 {
		l.find(NotChecked, &s.object, "spec.selector", msgUncheckedSelector,
			args{"selector": selector, "object": l.opaque[i].title()}).Fix = ""
		return
	}
	l.find("service-selects-nothing", &s.object, "spec.selector", msgNoEndpoints, args{"selector": selector})
}

func sameNamespace(a, b *metav1.ObjectMeta) bool {
	return cmp.Or(a.Namespace, metav1.NamespaceDefault) == cmp.Or(b.Namespace, metav1.NamespaceDefault)
}
