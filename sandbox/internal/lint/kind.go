package lint

import (
	"cmp"
	"strings"

	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/koupleless/koupsandbox/sandbox/internal/language"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// kinds maps each built-in kind that Lint reads to its only apiVersion in current API servers.
var kinds = map[string]string{
	"Service": "v1", "Pod": "v1", "Deployment": "apps/v1", "DaemonSet": "apps/v1", "StatefulSet": "apps/v1",
	"ReplicaSet": "apps/v1",
	"Job":        "batch/v1", "CronJob": "batch/v1",
}

// newObject returns an empty object of a kind in kinds. It returns nil for other kinds.
func newObject(kind string) any {
	object, err := scheme.Scheme.New(schema.FromAPIVersionAndKind(kinds[kind], kind))
	if err != nil {
		return nil
	}
	return object
}

// kindOf returns an empty object into which o can be decoded, or nil if the kind of o is not in kinds. It also
// reports whether o may be a custom resource, whose controller may create Pods. It adds a finding for kinds and
// apiVersions that no API server has.
func (l *linter) kindOf(o *object) (typed any, custom bool) {
	gv, err := schema.ParseGroupVersion(o.apiVersion)
	builtin := err == nil && scheme.Scheme.IsGroupRegistered(gv.Group)
	current, read := kinds[o.kind]
	report := func(field string, message, fix language.Text, a args) {
		l.find("kind-unknown", o, field, message, a).Fix = l.in(fix, a)
	}
	switch {
	case o.kind == "" && (o.apiVersion == "" || !builtin):
		l.find(NotChecked, o, "", msgNoKindHere, args{"line": o.line("")}).Fix = ""
	case o.kind == "":
		report("apiVersion", msgNoKind, fixNoKind, nil)
	case o.apiVersion == "":
		report("kind", msgNoAPIVersion, fixNoAPIVersion, args{"apiVersion": cmp.Or(current, "GROUP/VERSION")})
		return newObject(o.kind), false
	case read && builtin:
		if o.apiVersion != current {
			report("apiVersion", msgOldAPIVersion, fixOldAPIVersion,
				args{"kind": o.kind, "old": o.apiVersion, "apiVersion": current})
		}
		return newObject(o.kind), false
	case err != nil || !strings.Contains(gv.Group, ".") && !builtin:
		report("apiVersion", msgUnknownGroup, fixUnknownGroup, args{"group": gv.Group})
		return newObject(o.kind), false
	case builtin && !scheme.Scheme.Recognizes(gv.WithKind(o.kind)):
		similar := cmp.Or(plain.Similar(o.kind, sortedKeys(kinds)),
			plain.Similar(o.kind, sortedKeys(scheme.Scheme.KnownTypes(gv))))
		if similar == "" {
			return nil, true // a kind of a newer Kubernetes
		}
		report("kind", msgUnknownKind, fixDidYouMean,
			args{"apiVersion": o.apiVersion, "kind": o.kind, "name": similar})
		return newObject(similar), false
	default:
		return nil, !builtin
	}
	return nil, false
}

// isPolicy reports whether an object belongs to a policy engine. The Pod templates in such an object are patterns or
// patches.
func isPolicy(o *object) bool {
	group, _, _ := strings.Cut(o.apiVersion, "/")
	return strings.HasSuffix(group, "kyverno.io") || strings.HasSuffix(group, "gatekeeper.sh")
}
