package lint

import (
	"fmt"
	"net/url"
	"regexp"
	"strconv"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/koupleless/koupsandbox/controller/labels"
)

func (l *linter) checkMetadata(w *workload) {
	if name := w.meta.Name; name != "" && !unknown(name) && !placeholder.MatchString(name) &&
		len(validation.IsDNS1123Subdomain(name)) > 0 {
		l.invalid(&w.object, "metadata.name", fixInvalidName, msgInvalidName, args{"name": strconv.Quote(name)})
	}
	if w.at != "" && w.template.Namespace != "" && w.template.Namespace != w.meta.Namespace {
		l.find("template-namespace", &w.object, w.in("metadata.namespace"), msgTemplateNamespace,
			args{"kind": w.kind})
	}
	if s, is := w.typed.(*appsv1.StatefulSet); is && len(s.Spec.VolumeClaimTemplates) > 0 {
		claim := s.Spec.VolumeClaimTemplates[0].Name
		l.find("claims", &w.object, "spec.volumeClaimTemplates", msgClaimTemplate,
			args{"name": w.meta.Name, "claim": claim})
	}
}

// checkLabelValues checks the label values of a workload, and the label values in its selectors for Nodes and Pods.
func (l *linter) checkLabelValues(w *workload) {
	check := func(at, key, value string) {
		if unknown(value) || len(validation.IsValidLabelValue(value)) == 0 {
			return
		}
		hint := ""
		if key == labels.BaseVersion || key == labels.OlderBaseVersion {
			hint = l.in(partDerivedLabel, args{"key": key})
		}
		l.find("label-value", &w.object, at, msgLabelValue,
			args{"key": key, "value": value, "kind": w.kind, "hint": hint})
	}
	all := func(at string, values map[string]string) {
		for _, key := range sortedKeys(values) {
			check(at+member(key), key, values[key])
		}
	}
	if w.at != "" {
		all("metadata.labels", w.meta.Labels)
	}
	all(w.in("metadata.labels"), w.template.Labels)
	if w.selector != nil {
		all("spec.selector.matchLabels", w.selector.MatchLabels)
	}
	all(w.in("spec.nodeSelector"), w.template.Spec.NodeSelector)
	for at, e := range w.expressions() {
		for i, value := range e.Values {
			if e.Operator == corev1.NodeSelectorOpIn || e.Operator == corev1.NodeSelectorOpNotIn {
				check(fmt.Sprintf("%s.values[%d]", at, i), e.Key, value)
			}
		}
	}
}

// secret matches names of query parameters that contain credentials.
var secret = regexp.MustCompile(`(?i)(^|&)[^=&]*(sign|token|password|secret|credential|key)[^=&]*=`)

// checkCredentials adds a finding if the URL of a jar contains a password or a signature.
func (l *linter) checkCredentials(w *workload, c corev1.Container, at string, u *url.URL) {
	if _, password := u.User.Password(); password || secret.MatchString(u.RawQuery) {
		l.find("url-credentials", &w.object, at+".image", msgCredentials, args{"container": c.Name})
	}
}
