package lint

import (
	"cmp"
	"strings"

	appsv1 "k8s.io/api/apps/v1"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// native is a built-in kind that Lint reads.
type native struct {
	// apiVersion is the only one that current API servers serve the kind in.
	apiVersion string
	made       func() any
}

// kinds are the built-in kinds that Lint reads.
var kinds = map[string]native{
	"Service":     {"v1", func() any { return &corev1.Service{} }},
	"Pod":         {"v1", func() any { return &corev1.Pod{} }},
	"Deployment":  {"apps/v1", func() any { return &appsv1.Deployment{} }},
	"DaemonSet":   {"apps/v1", func() any { return &appsv1.DaemonSet{} }},
	"StatefulSet": {"apps/v1", func() any { return &appsv1.StatefulSet{} }},
	"ReplicaSet":  {"apps/v1", func() any { return &appsv1.ReplicaSet{} }},
	"Job":         {"batch/v1", func() any { return &batchv1.Job{} }},
	"CronJob":     {"batch/v1", func() any { return &batchv1.CronJob{} }},
}

// kindOf returns how to read an object of a kind in kinds, and whether the kind may be a custom
// resource, whose controller may create Pods. It reports kinds and apiVersions that no API server has.
func (l *linter) kindOf(o *object) (made func() any, custom bool) {
	gv, err := schema.ParseGroupVersion(o.apiVersion)
	builtin := err == nil && scheme.Scheme.IsGroupRegistered(gv.Group)
	n, read := kinds[o.kind]
	report := func(field, message, fix string) { l.find("kind-unknown", o, field, "%s", message).Fix = fix }
	switch {
	case o.kind == "" && (o.apiVersion == "" || !builtin):
		l.find(NotChecked, o, "", "the document at line %d is not a Kubernetes object: it has no kind", o.line("")).Fix = ""
	case o.kind == "":
		report("apiVersion", "the object has no kind", "add its kind")
	case o.apiVersion == "":
		report("kind", "the object has no apiVersion", "add apiVersion: "+cmp.Or(n.apiVersion, "GROUP/VERSION"))
		return n.made, false
	case read && builtin:
		if o.apiVersion != n.apiVersion {
			report("apiVersion", "no current API server serves "+o.kind+" in "+o.apiVersion, "write apiVersion: "+n.apiVersion)
		}
		return n.made, false
	case err != nil || !strings.Contains(gv.Group, ".") && !builtin:
		report("apiVersion", "there is no API group "+gv.Group+": the group of a custom resource has a dot", "correct the apiVersion")
		return n.made, false
	case builtin && !scheme.Scheme.Recognizes(gv.WithKind(o.kind)):
		fix := cmp.Or(meant(o.kind, sortedKeys(kinds)), meant(o.kind, sortedKeys(scheme.Scheme.KnownTypes(gv))))
		if fix == "" {
			l.find(NotChecked, o, "kind", "%s of %s is not a kind that is known here", o.kind, o.apiVersion).Fix = ""
			break
		}
		report("kind", o.apiVersion+" has no kind "+o.kind, fix)
		return kinds[strings.TrimSuffix(strings.TrimPrefix(fix, "did you mean "), "?")].made, false
	default:
		return nil, !builtin
	}
	return nil, false
}

// meant returns the fix of a misspelt name; empty if no name is similar.
func meant(name string, names []string) string {
	return strings.TrimPrefix(plain.Meant(name, names), "; ")
}
