package observe

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// The resources whose changes the timeline tells.
var (
	Pods           = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	Nodes          = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	EndpointSlices = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
)

const (
	hostLabel          = "base.koupleless.io/host-name"
	identityAnnotation = "base.koupleless.io/identity"
)

// film notes the event of a change, if its kind has any, and describes the change.
// w.mu is held.
func (w *World) film(r schema.GroupVersionResource, o *unstructured.Unstructured, gone bool) string {
	switch r {
	case Pods:
		return w.filmPod(o, gone)
	case Nodes:
		return w.filmNode(o, gone)
	case EndpointSlices:
		return w.filmEndpoints(o)
	}
	verb := "written"
	if gone {
		verb = "gone"
	}
	return fmt.Sprintf("%s %s: %s", o.GetKind(), o.GetName(), verb)
}

// podFilm is what has been told of a Pod.
type podFilm struct {
	writes int
	last   timeline.Event
}

func (w *World) filmPod(o *unstructured.Unstructured, gone bool) string {
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &pod); err != nil {
		w.o.Logger.Warn("cannot read a Pod", "pod", o.GetName(), "err", err)
		return "Pod " + o.GetName()
	}
	f := w.pods[string(pod.UID)]
	if f == nil {
		f = &podFilm{}
		w.pods[string(pod.UID)] = f
	}
	if !gone {
		f.writes++
	}
	state := timeline.PodStateOf(&pod)
	state.Gone, state.Writes = gone, f.writes
	e := timeline.Event{Time: w.o.Now(), Kind: timeline.Pod, Base: w.hosts[pod.Spec.NodeName], Pod: state}
	f.last = e
	w.append(e)
	return Describe(e)
}

// Leftovers are modules that a Pod has wanted on a base and none wants any more, as
// base module:version.
func (v View) Leftovers() []string {
	type on struct {
		base   string
		module timeline.ModuleRef
	}
	ever, now := map[on]bool{}, map[on]bool{}
	for _, f := range v.w.pods {
		for _, m := range f.last.Pod.Modules {
			ever[on{f.last.Base, m}] = true
			if !f.last.Pod.Gone {
				now[on{f.last.Base, m}] = true
			}
		}
	}
	var left []string
	for name, b := range v.w.bases {
		for m := range b.Modules {
			if x := (on{name, m}); ever[x] && !now[x] {
				left = append(left, name+" "+m.Name+":"+m.Version)
			}
		}
	}
	slices.Sort(left)
	return left
}

func (w *World) filmNode(o *unstructured.Unstructured, gone bool) string {
	name, state := o.GetName(), ""
	if host := w.shortName(o.GetLabels()[hostLabel]); host != "" {
		w.hosts[name] = host
	}
	if !gone {
		state = NodeStateOf(o)
	}
	e := timeline.Event{Time: w.o.Now(), Kind: timeline.Node, Base: w.hosts[name], Identity: o.GetAnnotations()[identityAnnotation],
		Name: name, State: state}
	before, known := w.nodes[name]
	if gone {
		delete(w.nodes, name)
	} else {
		w.nodes[name] = state
	}
	if !known || before != state || gone {
		w.append(e)
	}
	return Describe(e)
}

// isReady tells whether a Pod or a Node is Ready.
func isReady(o *unstructured.Unstructured) bool { return NodeStateOf(o) == "Ready" }

// NodeStateOf is Ready, NotReady or Unknown.
func NodeStateOf(node *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(node.Object, "status", "conditions")
	for _, c := range conditions {
		c, ok := c.(map[string]any)
		if !ok || c["type"] != string(corev1.NodeReady) {
			continue
		}
		switch c["status"] {
		case string(corev1.ConditionTrue):
			return "Ready"
		case string(corev1.ConditionFalse):
			return "NotReady"
		}
	}
	return "Unknown"
}

// filmEndpoints tells all endpoints of the Service that a slice belongs to.
func (w *World) filmEndpoints(changed *unstructured.Unstructured) string {
	service := changed.GetLabels()[discoveryv1.LabelServiceName]
	e := timeline.Event{Time: w.o.Now(), Kind: timeline.Endpoints, Name: service, Endpoints: []timeline.Endpoint{}}
	t := w.tables[Subject{Resource: EndpointSlices, Namespace: w.o.Namespace}]
	if t == nil {
		return Describe(e)
	}
	parts, _ := View{w}.Objects(t.subject, "", map[string]string{discoveryv1.LabelServiceName: service})
	for _, o := range parts {
		var slice discoveryv1.EndpointSlice
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &slice); err != nil {
			w.o.Logger.Warn("cannot read an EndpointSlice", "slice", o.GetName(), "err", err)
			continue
		}
		for _, p := range slice.Endpoints {
			e.Endpoints = append(e.Endpoints, w.endpoint(p))
		}
	}
	w.append(e)
	return Describe(e)
}

func (w *World) endpoint(p discoveryv1.Endpoint) timeline.Endpoint {
	is := func(b *bool, otherwise bool) bool {
		if b == nil {
			return otherwise
		}
		return *b
	}
	e := timeline.Endpoint{
		Ready: is(p.Conditions.Ready, true), Serving: is(p.Conditions.Serving, true), Terminating: is(p.Conditions.Terminating, false),
	}
	if len(p.Addresses) > 0 {
		e.IP = p.Addresses[0]
	}
	if p.TargetRef != nil {
		e.Pod = p.TargetRef.Name
	}
	if p.NodeName != nil {
		e.Base = w.hosts[*p.NodeName]
	}
	return e
}
