package lint

import (
	"errors"
	"fmt"
	"iter"
	"net/url"
	"path"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/unsupported"
	workloads "github.com/koupleless/koupsandbox/controller/workload"
)

// unknown reports whether a value is an expression of a scenario.
func unknown(value string) bool { return strings.Contains(value, "${{") }

func (l *linter) pod(w *workload) {
	l.component(w)
	l.olderLabels(w)
	l.selects(w)
	l.metadata(w)
	l.labelValues(w)
	l.ignored(w)
	for c, at := range w.modules() {
		l.container(w, c, at)
	}
}

// modules yields the containers that are modules, each with its path.
func (w *workload) modules() iter.Seq2[corev1.Container, string] {
	return func(yield func(corev1.Container, string) bool) {
		modules, _ := workloads.Modules(w.template.Spec)
		for _, c := range modules {
			i := slices.IndexFunc(w.template.Spec.Containers, func(o corev1.Container) bool { return o.Name == c.Name })
			if !yield(c, w.in(fmt.Sprintf("spec.containers[%d]", i))) {
				return
			}
		}
	}
}

func (l *linter) component(w *workload) {
	switch value := labels.Value(w.template.Labels, "component"); {
	case value == labels.Module || unknown(value):
	case value == "":
		l.find("component-missing", &w.object, w.in("metadata.labels"),
			"its Pods look like modules, but do not have the label %s: %s, so the module controller ignores them",
			labels.Component, labels.Module)
	default:
		l.find("component-missing", &w.object, w.in("metadata.labels["+labels.Component+"]"),
			"the label component of its Pods is %q, so the module controller ignores them", value)
	}
}

// ignored reports fields that have no effect on a module.
func (l *linter) ignored(w *workload) {
	for _, f := range unsupported.Of(w.template.Spec) {
		if f.Name == "persistentVolumeClaim" {
			l.find("claims", &w.object, w.in(f.Path),
				"the Pods stay Pending until the claim is bound to a volume, which a module cannot use")
			continue
		}
		l.find("unsupported", &w.object, w.in(f.Path), "%s is ignored: %s", f.Name, f.Why)
	}
	if w.kind == "Job" || w.kind == "CronJob" {
		l.find("job-never-ends", &w.object, unsupported.Job.Path, "%s", unsupported.Job.Why)
	}
}

// olderLabels reports label keys of the older prefix.
func (l *linter) olderLabels(w *workload) {
	seen := func(all map[string]string, at string) {
		for _, key := range sortedKeys(all) {
			if name, older := strings.CutPrefix(key, labels.OlderPrefix); older {
				l.find("label-older", &w.object, at+"["+key+"]",
					"the label %s has the prefix of the older documents; ModuleController V2 watches %s%s only", key,
					labels.Prefix, name)
			}
		}
	}
	if w.at != "" {
		seen(w.meta.GetLabels(), "metadata.labels")
	}
	seen(w.template.Labels, w.in("metadata.labels"))
}

// selects compares a workload's selector with its template.
func (l *linter) selects(w *workload) {
	if w.selector == nil {
		required := []string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"}
		if w.typed != nil && slices.Contains(required, w.kind) {
			l.find("selector-mismatch", &w.object, "spec", "it has no selector, so the API server refuses it")
		}
		return
	}
	for _, key := range sortedKeys(w.selector.MatchLabels) {
		want, got := w.selector.MatchLabels[key], w.template.Labels[key]
		if want == got || unknown(want) || unknown(got) {
			continue
		}
		has := "has no such label"
		if got != "" {
			has = fmt.Sprintf("has %q", got)
		}
		l.find("selector-mismatch", &w.object, "spec.selector.matchLabels"+member(key),
			"the selector wants %s: %s, but the template %s, so the API server refuses it", key, want, has)
	}
	if selector, err := metav1.LabelSelectorAsSelector(
		&metav1.LabelSelector{MatchExpressions: w.selector.MatchExpressions}); err != nil {
		l.find("selector-mismatch", &w.object, "spec.selector", "the selector cannot be read: %s", err)
	} else if !selector.Matches(apilabels.Set(w.template.Labels)) {
		l.find("selector-mismatch", &w.object, "spec.selector.matchExpressions",
			"the expressions of the selector do not match the labels of the template, so the API server refuses it")
	}
	l.selectsVersion(w)
}

func (l *linter) selectsVersion(w *workload) {
	for _, key := range sortedKeys(w.selector.MatchLabels) {
		value := w.selector.MatchLabels[key]
		isVersion := slices.ContainsFunc(w.template.Spec.Containers,
			func(c corev1.Container) bool { return value != "" && w.version(c) == value })
		if key == labels.ModuleVersion || isVersion {
			l.find("selector-version", &w.object, "spec.selector.matchLabels"+member(key),
				"the selector has the version of the module, %s: %s, and a selector cannot be changed, so a release "+
					"of another version is refused", key, value)
		}
	}
}

// container checks the module of a container, by the rules of the controller.
func (l *linter) container(w *workload, c corev1.Container, at string) {
	if !unknown(c.Name) && len(validation.IsDNS1123Label(c.Name)) > 0 {
		l.invalid(&w.object, at+".name", "use lower-case letters, digits and '-', here and in the jar",
			"the API server refuses the container name %q; it is the name of the module", c.Name)
	}
	v := l.bizVersion(w, c, at)
	if unknown(c.Image) {
		return
	}
	if err := workloads.CheckImage(c); err != nil {
		l.find("image-no-jar", &w.object, at+".image", "%s", errors.Unwrap(err))
		return
	}
	if !strings.Contains(c.Image, ".jar") {
		l.find("image-no-jar", &w.object, at+".image",
			"the image of the container %s has no .jar in it: ModuleController V2 ignores such a container, and the "+
				"bundled controller treats it as a module", c.Name).Level = Warning
	}
	u, err := url.Parse(c.Image)
	if err != nil {
		return // CheckImage has parsed it
	}
	l.credentials(w, c, at, u)
	if name := path.Base(u.Path); v != "" && strings.HasSuffix(name, "-ark-biz.jar") && !strings.Contains(name, v) {
		l.find("version-differs", &w.object, at+".image", "%s is %s, but the name of the jar is %s", labels.VersionEnv,
			v, name)
	}
}

// bizVersion checks the version of a container and returns it; empty if it is not known.
func (l *linter) bizVersion(w *workload, c corev1.Container, at string) string {
	first := -1
	for i, e := range c.Env {
		switch {
		case e.Name != labels.VersionEnv:
		case first < 0:
			first = i
		default:
			l.find("version-twice", &w.object, fmt.Sprintf("%s.env[%d]", at, i),
				"the container %s sets %s twice; Kubernetes uses the last one", c.Name, labels.VersionEnv)
		}
	}
	v := w.version(c)
	if unknown(v) {
		return ""
	}
	if first >= 0 {
		at = fmt.Sprintf("%s.env[%d]", at, first)
	}
	fixed := func(f *Finding) { // the error may have a fix of its own
		if strings.Contains(f.Message, "; ") {
			f.Fix = ""
		}
	}
	switch err := workloads.CheckVersion(&w.template.ObjectMeta, c); {
	case errors.Is(err, workloads.ErrUnresolved):
		for _, field := range []string{"metadata.name", "metadata.uid"} {
			if f := c.Env[first].ValueFrom; f != nil && f.FieldRef != nil && f.FieldRef.FieldPath == field {
				l.find("version-differs", &w.object, at,
					"%s is the %s of the Pod, so each Pod requests another version", labels.VersionEnv, field)
			}
		}
	case err != nil && (first < 0 || v == "" && c.Env[first].ValueFrom == nil):
		fixed(l.find("version-missing", &w.object, at, "%s", errors.Unwrap(err)))
	case err != nil:
		fixed(l.find("version-invalid", &w.object, at, "%s", errors.Unwrap(err)))
	case strings.Contains(v, "$("):
		l.find("version-invalid", &w.object, at,
			"%s of container %q is %s: the variable is not set before %[1]s in env, so Kubernetes does not replace it",
			labels.VersionEnv, c.Name, v).Fix = "set the variable first"
	default:
		return v
	}
	return ""
}

// version returns the version of a container as the controller reads it; empty if it is not known.
func (w *workload) version(c corev1.Container) string {
	v, err := workloads.Version(&w.template.ObjectMeta, c)
	if err != nil {
		return ""
	}
	return v
}
