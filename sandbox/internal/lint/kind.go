package lint

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// kinds are the built-in kinds that Lint reads, each with the only apiVersion that current API servers
// serve it in.
var kinds = map[string]string{
	"Service": "v1", "Pod": "v1", "Deployment": "apps/v1", "DaemonSet": "apps/v1", "StatefulSet": "apps/v1",
	"ReplicaSet": "apps/v1",
	"Job":        "batch/v1", "CronJob": "batch/v1",
}

// made returns an empty object of a kind in kinds; nil for other kinds.
func made(kind string) any {
	object, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(kinds[kind], kind))
	if err != nil {
		return nil
	}
	return object
}

// kindOf returns an empty object to read the object into, nil for kinds that are not in kinds, and
// whether the kind may be a custom resource, whose controller may create Pods. It reports kinds and
// apiVersions that no API server has.
func (l *linter) kindOf(o *object) (typed any, custom bool) {
	gv, err := schema.ParseGroupVersion(o.apiVersion)
	builtin := err == nil && scheme.Scheme.IsGroupRegistered(gv.Group)
	current, read := kinds[o.kind]
	report := func(field, message, fix string) { l.find("kind-unknown", o, field, "%s", message).Fix = fix }
	switch {
	case o.kind == "" && (o.apiVersion == "" || !builtin):
		l.find(NotChecked, o, "", "the document at line %d is not a Kubernetes object: it has no kind",
			o.line("")).Fix = ""
	case o.kind == "":
		report("apiVersion", "the object has no kind", "add its kind")
	case o.apiVersion == "":
		report("kind", "the object has no apiVersion", "add apiVersion: "+cmp.Or(current, "GROUP/VERSION"))
		return made(o.kind), false
	case read && builtin:
		if o.apiVersion != current {
			report("apiVersion", "no current API server serves "+o.kind+" in "+o.apiVersion,
				"write apiVersion: "+current)
		}
		return made(o.kind), false
	case err != nil || !strings.Contains(gv.Group, ".") && !builtin:
		report("apiVersion", "the API group "+gv.Group+" does not exist: the group of a custom resource has a dot",
			"correct the apiVersion")
		return made(o.kind), false
	case builtin && !scheme.Scheme.Recognizes(gv.WithKind(o.kind)):
		fix := cmp.Or(meant(o.kind, sortedKeys(kinds)), meant(o.kind, sortedKeys(scheme.Scheme.KnownTypes(gv))))
		if fix == "" {
			return nil, true // a kind of a newer Kubernetes
		}
		report("kind", o.apiVersion+" has no kind "+o.kind, fix)
		return made(strings.TrimSuffix(strings.TrimPrefix(fix, "did you mean "), "?")), false
	default:
		return nil, !builtin
	}
	return nil, false
}

// isPolicy reports whether an object belongs to a policy engine: what looks like a Pod in it is a pattern or a patch.
func isPolicy(o *object) bool {
	group, _, _ := strings.Cut(o.apiVersion, "/")
	return strings.HasSuffix(group, "kyverno.io") || strings.HasSuffix(group, "gatekeeper.sh")
}

// meant returns the fix of a misspelt name; empty if no name is similar.
func meant(name string, names []string) string {
	return strings.TrimPrefix(plain.DidYouMean(name, names), "; ")
}
