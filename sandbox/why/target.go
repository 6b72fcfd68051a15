package why

import (
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

// kinds are the words for each kind, as kubectl takes and prints them.
var kinds = map[string]Kind{
	"pod": KindPod, "pods": KindPod, "po": KindPod,
	"node": KindNode, "nodes": KindNode, "no": KindNode,
	"deployment": KindDeployment, "deployments": KindDeployment, "deploy": KindDeployment, "deployment.apps": KindDeployment,
	"daemonset": KindDaemonSet, "daemonsets": KindDaemonSet, "ds": KindDaemonSet, "daemonset.apps": KindDaemonSet,
	"statefulset": KindStatefulSet, "statefulsets": KindStatefulSet, "sts": KindStatefulSet, "statefulset.apps": KindStatefulSet,
}

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
	k, known := kinds[strings.ToLower(kind)]
	if !known {
		all := []string{string(KindPod), string(KindNode), string(KindDeployment), string(KindDaemonSet), string(KindStatefulSet)}
		return Target{}, fmt.Errorf("unsupported kind %q; supported: %s%s", kind, strings.Join(all, ", "), plain.Meant(kind, all))
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
