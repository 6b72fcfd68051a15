package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// Kind is a kind of object that can be asked about.
type Kind string

// The kinds.
const (
	KindPod         Kind = "pod"
	KindNode        Kind = "node"
	KindDeployment  Kind = "deployment"
	KindDaemonSet   Kind = "daemonset"
	KindStatefulSet Kind = "statefulset"
)

// kindNames are the kinds as Kubernetes writes them.
var kindNames = map[Kind]string{KindPod: "Pod", KindNode: "Node", KindDeployment: "Deployment",
	KindDaemonSet: "DaemonSet", KindStatefulSet: "StatefulSet"}

// shortNames are the abbreviations of kinds that kubectl accepts.
var shortNames = map[string]Kind{"po": KindPod, "no": KindNode, "deploy": KindDeployment, "ds": KindDaemonSet,
	"sts": KindStatefulSet}

// Target is what is asked about.
type Target struct {
	Kind Kind `json:"kind"`
	// Namespace is empty for a Node.
	Namespace string `json:"namespace,omitempty"`
	// Name of the object; of a Node also the host name or the identity of its base.
	Name string `json:"name"`
}

// String is the target as a person writes it: pod/biz1.
func (t Target) String() string { return string(t.Kind) + "/" + t.Name }

// ParseTarget reads NAME, which is a Pod, or KIND/NAME. Kinds are written as kubectl writes them.
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
		return Target{}, fmt.Errorf("%q names nothing: say %s/NAME", text, k)
	}
	t := Target{Kind: k, Namespace: namespace, Name: name}
	if k == KindNode {
		t.Namespace = ""
	}
	return t, nil
}

// workload tells whether the target makes Pods.
func (t Target) workload() bool {
	return slices.Contains([]Kind{KindDeployment, KindDaemonSet, KindStatefulSet}, t.Kind)
}
