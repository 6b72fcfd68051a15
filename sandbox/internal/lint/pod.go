package lint

import (
	"errors"
	"fmt"
	"iter"
	"net/url"
	"path"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	apilabels "k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/unsupported"
	workloads "github.com/koupleless/koupsandbox/controller/workload"
)

// unknown reports whether a value contains a scenario expression, so that its final value is not known.
func unknown(value string) bool { return strings.Contains(value, "${{") }

func (l *linter) checkPod(w *workload) {
	l.checkComponentLabel(w)
	l.checkOlderLabels(w)
	l.checkSelector(w)
	l.checkMetadata(w)
	l.checkLabelValues(w)
	l.checkIgnoredFields(w)
	l.checkInstallStrategy(w)
	for c, at := range w.modules() {
		l.checkContainer(w, c, at)
	}
}

// checkInstallStrategy adds a finding if the install strategy leaves a gap, or is unknown.
func (l *linter) checkInstallStrategy(w *workload) {
	first, err := workloads.UninstallsFirst(&w.template.ObjectMeta)
	at := w.in("metadata.annotations[" + labels.InstallStrategy + "]")
	switch {
	case unknown(w.template.Annotations[labels.InstallStrategy]):
	case err != nil:
		l.find("install-strategy", &w.object, at, quoted, args{"error": errors.Unwrap(err)}).Fix = ""
	case first:
		l.find("install-strategy", &w.object, at, msgUninstallsFirst, nil).Level = Warning
	}
}

// modules yields the containers that contain modules, with their paths.
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

func (l *linter) checkComponentLabel(w *workload) {
	switch value := labels.Value(w.template.Labels, "component"); {
	case value == labels.Module || unknown(value):
	case value == "":
		l.find("component-missing", &w.object, w.in("metadata.labels"), msgNoComponent, nil)
	default:
		l.find("component-missing", &w.object, w.in("metadata.labels["+labels.Component+"]"), msgWrongComponent,
			args{"value": strconv.Quote(value)})
	}
}

// checkIgnoredFields adds a finding for each field that has no effect on a module.
func (l *linter) checkIgnoredFields(w *workload) {
	for _, f := range unsupported.Of(w.template.Spec) {
		if f.Name == "persistentVolumeClaim" {
			l.find("claims", &w.object, w.in(f.Path), msgClaim, nil)
			continue
		}
		l.find("unsupported", &w.object, w.in(f.Path), msgIgnored, args{"field": f.Name, "error": f.Why})
	}
	if w.kind == "Job" || w.kind == "CronJob" {
		l.find("job-never-ends", &w.object, unsupported.Job.Path, quoted, args{"error": unsupported.Job.Why})
	}
}

// checkOlderLabels adds a finding for each label key with the older prefix.
func (l *linter) checkOlderLabels(w *workload) {
	seen := func(all map[string]string, at string) {
		for _, key := range sortedKeys(all) {
			if name, older := strings.CutPrefix(key, labels.OlderPrefix); older {
				l.find("label-older", &w.object, at+"["+key+"]", msgOlderLabel,
					args{"key": key, "current": labels.Prefix + name})
			}
		}
	}
	if w.at != "" {
		seen(w.meta.GetLabels(), "metadata.labels")
	}
	seen(w.template.Labels, w.in("metadata.labels"))
}

// checkSelector checks that the selector of a workload matches the labels in the Pod template.
func (l *linter) checkSelector(w *workload) {
	if w.selector == nil {
		required := []string{"Deployment", "ReplicaSet", "StatefulSet", "DaemonSet"}
		if w.typed != nil && slices.Contains(required, w.kind) {
			l.find("selector-mismatch", &w.object, "spec", msgNoSelector, nil)
		}
		return
	}
	for _, key := range sortedKeys(w.selector.MatchLabels) {
		want, got := w.selector.MatchLabels[key], w.template.Labels[key]
		if want == got || unknown(want) || unknown(got) {
			continue
		}
		has := l.in(partNoSuchLabel, nil)
		if got != "" {
			has = l.in(partHasValue, args{"value": strconv.Quote(got)})
		}
		l.find("selector-mismatch", &w.object, "spec.selector.matchLabels"+member(key), msgSelectorMismatch,
			args{"key": key, "want": want, "has": has})
	}
	if selector, err := metav1.LabelSelectorAsSelector(
		&metav1.LabelSelector{MatchExpressions: w.selector.MatchExpressions}); err != nil {
		l.find("selector-mismatch", &w.object, "spec.selector", msgSelectorUnreadable, args{"error": err})
	} else if !selector.Matches(apilabels.Set(w.template.Labels)) {
		l.find("selector-mismatch", &w.object, "spec.selector.matchExpressions", msgExpressionsMismatch, nil)
	}
	l.checkSelectorVersion(w)
}

func (l *linter) checkSelectorVersion(w *workload) {
	for _, key := range sortedKeys(w.selector.MatchLabels) {
		value := w.selector.MatchLabels[key]
		isVersion := slices.ContainsFunc(w.template.Spec.Containers,
			func(c corev1.Container) bool { return value != "" && w.version(c) == value })
		if key == labels.ModuleVersion || isVersion {
			l.find("selector-version", &w.object, "spec.selector.matchLabels"+member(key), msgSelectorVersion,
				args{"key": key, "value": value})
		}
	}
}

// checkContainer checks the module in a container by the same rules as the controller.
func (l *linter) checkContainer(w *workload, c corev1.Container, at string) {
	if !unknown(c.Name) && len(validation.IsDNS1123Label(c.Name)) > 0 {
		l.invalid(&w.object, at+".name", fixContainerName, msgContainerName, args{"name": strconv.Quote(c.Name)})
	}
	v := l.checkVersion(w, c, at)
	if unknown(c.Image) {
		return
	}
	if err := workloads.CheckImage(c); err != nil {
		l.find("image-no-jar", &w.object, at+".image", quoted, args{"error": errors.Unwrap(err)})
		return
	}
	if !strings.Contains(c.Image, ".jar") {
		l.find("image-no-jar", &w.object, at+".image", msgNoJar, args{"container": c.Name}).Level = Warning
	}
	u, err := url.Parse(c.Image)
	if err != nil {
		return // CheckImage has parsed it
	}
	l.checkCredentials(w, c, at, u)
	if name := path.Base(u.Path); v != "" && strings.HasSuffix(name, "-ark-biz.jar") && !strings.Contains(name, v) {
		l.find("version-differs", &w.object, at+".image", msgJarName, args{"version": v, "name": name})
	}
}

// checkVersion checks the module version of a container and returns the version. It returns an empty string if the
// version is invalid or not known.
func (l *linter) checkVersion(w *workload, c corev1.Container, at string) string {
	first := -1
	for i, e := range c.Env {
		switch {
		case e.Name != labels.VersionEnv:
		case first < 0:
			first = i
		default:
			l.find("version-twice", &w.object, fmt.Sprintf("%s.env[%d]", at, i), msgVersionTwice,
				args{"container": c.Name})
		}
	}
	v := w.version(c)
	if unknown(v) {
		return ""
	}
	if first >= 0 {
		at = fmt.Sprintf("%s.env[%d]", at, first)
	}
	refused := func(rule string, err error) {
		f := l.find(rule, &w.object, at, quoted, args{"error": errors.Unwrap(err)})
		if strings.Contains(f.Message, "; ") { // the error contains a fix
			f.Fix = ""
		}
	}
	switch err := workloads.CheckVersion(&w.template.ObjectMeta, c); {
	case errors.Is(err, workloads.ErrUnresolved):
		for _, field := range []string{"metadata.name", "metadata.uid"} {
			if f := c.Env[first].ValueFrom; f != nil && f.FieldRef != nil && f.FieldRef.FieldPath == field {
				l.find("version-differs", &w.object, at, msgVersionPerPod, args{"field": field})
			}
		}
	case err != nil && (first < 0 || v == "" && c.Env[first].ValueFrom == nil):
		refused("version-missing", err)
	case err != nil:
		refused("version-invalid", err)
	case strings.Contains(v, "$("):
		l.find("version-invalid", &w.object, at, msgVersionNotExpanded,
			args{"container": strconv.Quote(c.Name), "version": v}).Fix = l.in(fixVersionNotExpanded, nil)
	default:
		return v
	}
	return ""
}

// version returns the module version of a container, read in the same way as in the controller. It returns an empty
// string if the version is not known.
func (w *workload) version(c corev1.Container) string {
	v, err := workloads.Version(&w.template.ObjectMeta, c)
	if err != nil {
		return ""
	}
	return v
}
