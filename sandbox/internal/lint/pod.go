package lint

import (
	"fmt"
	"net/url"
	"path"
	"slices"
	"strings"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/unsupported"
)

// unknown tells whether a value is an expression of a scenario.
func unknown(value string) bool { return strings.Contains(value, "${{") }

// pod checks labels and containers.
func (l *linter) pod(w *workload) {
	l.component(w)
	l.olderLabels(w)
	l.selects(w)
	l.ignored(w)
	for i, c := range w.template.Spec.Containers {
		l.container(w, c, w.in(fmt.Sprintf("spec.containers[%d]", i)))
	}
}

func (l *linter) component(w *workload) {
	switch value := labels.Value(w.template.Labels, "component"); {
	case value == labels.Module || unknown(value):
	case value == "":
		l.find("component-missing", &w.object, w.in("metadata.labels"), "its Pods look like modules, but do not bear the label %s: %s, so the module controller leaves them alone", labels.Component, labels.Module)
	default:
		l.find("component-missing", &w.object, w.in("metadata.labels["+labels.Component+"]"), "the label component of its Pods is %q, so the module controller leaves them alone", value)
	}
}

// ignored reports what a base does not do.
func (l *linter) ignored(w *workload) {
	for _, f := range unsupported.Of(w.template.Spec, unsupported.Controller) {
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
				l.find("label-older", &w.object, at+"["+key+"]", "the label %s has the prefix of the older documents; the published module controller watches %s%s only", key, labels.Prefix, name)
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
		if w.at != "" && w.kind != "Job" && w.kind != "CronJob" {
			l.find("selector-mismatch", &w.object, "spec", "it has no selector, so the API server refuses it")
		}
		return
	}
	for _, key := range sortedKeys(w.selector.MatchLabels) {
		want, got := w.selector.MatchLabels[key], w.template.Labels[key]
		if want == got || unknown(want) || unknown(got) {
			continue
		}
		has := "bears no such label"
		if got != "" {
			has = fmt.Sprintf("has %q", got)
		}
		l.find("selector-mismatch", &w.object, "spec.selector.matchLabels"+member(key), "the selector wants %s: %s, but the template %s, so the API server refuses it", key, want, has)
	}
	if selector, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: w.selector.MatchExpressions}); err != nil {
		l.find("selector-mismatch", &w.object, "spec.selector", "the selector cannot be read: %s", err)
	} else if !selector.Matches(apilabels.Set(w.template.Labels)) {
		l.find("selector-mismatch", &w.object, "spec.selector.matchExpressions", "the selector's expressions do not fit the labels of the template, so the API server refuses it")
	}
	l.selectsVersion(w)
}

// selectsVersion reports a selector that holds the version.
func (l *linter) selectsVersion(w *workload) {
	for _, key := range sortedKeys(w.selector.MatchLabels) {
		value := w.selector.MatchLabels[key]
		isVersion := slices.ContainsFunc(w.template.Spec.Containers, func(c corev1.Container) bool { v, _ := version(c); return v != "" && v == value })
		if key == labels.ModuleVersion || isVersion {
			l.find("selector-version", &w.object, "spec.selector.matchLabels"+member(key), "the selector holds the module's version, %s: %s, and a selector cannot be changed, so a release of another version is refused", key, value)
		}
	}
}

func (l *linter) container(w *workload, c corev1.Container, at string) {
	v, given := version(c)
	if !given {
		l.find("version-missing", &w.object, at, "the container %s does not set %s, so nobody knows which version of the module to install", c.Name, labels.VersionEnv)
	}
	if strings.ContainsFunc(v, unicode.IsSpace) && !unknown(v) {
		l.find("version-spaces", &w.object, at, "%s of the container %s is %q, with spaces", labels.VersionEnv, c.Name, v)
	}
	if unknown(c.Image) {
		return
	}
	u, err := url.Parse(c.Image)
	switch {
	case c.Image == "":
		l.find("image-no-jar", &w.object, at, "the container %s has no image: for a module that is the URL of its jar", c.Name)
		return
	case !strings.Contains(c.Image, ".jar"):
		l.find("image-no-jar", &w.object, at+".image", "the image %s is no jar; containers whose image has no .jar in it do not count as modules", c.Image)
		return
	case err != nil || !slices.Contains([]string{"file", "http", "https"}, u.Scheme):
		l.find("image-no-jar", &w.object, at+".image", "the image %s is no file, http or https URL, so no base can fetch it", c.Image)
		return
	}
	if name := path.Base(u.Path); v != "" && !unknown(v) && strings.HasSuffix(name, "-ark-biz.jar") && !strings.Contains(name, strings.TrimSpace(v)) {
		l.find("version-differs", &w.object, at+".image", "%s is %s, but the jar is called %s", labels.VersionEnv, v, name)
	}
}
