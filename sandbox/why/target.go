package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// Kind is an object kind that Explain supports.
type Kind string

// The object kinds that Explain supports.
const (
	KindPod         Kind = "pod"
	KindNode        Kind = "node"
	KindDeployment  Kind = "deployment"
	KindDaemonSet   Kind = "daemonset"
	KindStatefulSet Kind = "statefulset"
)

// kindNames maps each kind to its spelling in the Kubernetes API.
var kindNames = map[Kind]string{KindPod: "Pod", KindNode: "Node", KindDeployment: "Deployment",
	KindDaemonSet: "DaemonSet", KindStatefulSet: "StatefulSet"}

// shortNames maps the abbreviations that kubectl accepts to the kinds.
var shortNames = map[string]Kind{"po": KindPod, "no": KindNode, "deploy": KindDeployment, "ds": KindDaemonSet,
	"sts": KindStatefulSet}

// Target is the object to explain.
type Target struct {
	Kind Kind `json:"kind"`
	// Namespace is the namespace of the object; empty for a Node.
	Namespace string `json:"namespace,omitempty"`
	// Name is the name of the object. A Node is also found by the host name or the identity of its base.
	Name string `json:"name"`
}

// String returns the kind and the name, such as pod/biz1.
func (t Target) String() string { return string(t.Kind) + "/" + t.Name }

// ParseTarget parses KIND/NAME, or NAME, which means a Pod. It accepts the same kind names as kubectl.
func ParseTarget(text, namespace string) (Target, error) {
	kind, name, given := strings.Cut(text, "/")
	if !given {
		kind, name = string(KindPod), text
	}
	kind = strings.TrimSuffix(strings.ToLower(kind), ".apps")
	k := cmp.Or(shortNames[kind], Kind(strings.TrimSuffix(kind, "s")))
	if kindNames[k] == "" {
		all := []string{string(KindPod), string(KindNode), string(KindDeployment), string(KindDaemonSet),
			string(KindStatefulSet)}
		return Target{}, fmt.Errorf("unsupported kind %q; supported: %s%s", kind, strings.Join(all, ", "),
			plain.DidYouMean(kind, all))
	}
	if name == "" || strings.Contains(name, "/") && k != KindNode {
		return Target{}, fmt.Errorf("invalid target %q; use %s/NAME", text, k)
	}
	t := Target{Kind: k, Namespace: namespace, Name: name}
	if k == KindNode {
		t.Namespace = ""
	}
	return t, nil
}

// workload reports whether the target is a workload, which is an object that creates Pods.
func (t Target) workload() bool {
	return slices.Contains([]Kind{KindDeployment, KindDaemonSet, KindStatefulSet}, t.Kind)
}
