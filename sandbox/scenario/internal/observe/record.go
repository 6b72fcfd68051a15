package observe

import (
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// Pods, Nodes and the other variables are the resources whose changes are recorded as events.
var (
	Pods           = schema.GroupVersionResource{Version: "v1", Resource: "pods"}
	Nodes          = schema.GroupVersionResource{Version: "v1", Resource: "nodes"}
	EndpointSlices = schema.GroupVersionResource{Group: "discovery.k8s.io", Version: "v1", Resource: "endpointslices"}
)

// record records the change of an object if its resource is one of those whose changes are events. It returns a
// description of the change. listed reports whether the object was delivered by a list. w.mu must be held.
func (w *Recorder) record(r schema.GroupVersionResource, o *unstructured.Unstructured, deleted, listed bool) string {
	var at time.Time
	switch r {
	case Pods, Nodes, EndpointSlices:
		at = w.timeOf(versionOf(o), listed)
		if last := w.lastOf[r]; at.Before(last) { // a watch delivers writes in order
			at = last
		}
		w.lastOf[r] = at
	}
	switch r {
	case Pods:
		return w.recordPod(at, o, deleted)
	case Nodes:
		return w.recordNode(at, o, deleted)
	case EndpointSlices:
		return w.recordEndpoints(at, o)
	}
	verb := "written"
	if deleted {
		verb = "deleted"
	}
	return fmt.Sprintf("%s %s: %s", o.GetKind(), o.GetName(), verb)
}

func (w *Recorder) recordPod(at time.Time, o *unstructured.Unstructured, deleted bool) string {
	var pod corev1.Pod
	if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &pod); err != nil {
		w.o.Logger.Warn("could not decode a Pod", "pod", o.GetName(), "err", err)
		return "Pod " + o.GetName()
	}
	e := events.Event{Time: at, Pod: w.state.PodEvent(&pod, deleted)}
	w.apply(e)
	return e.String()
}

func (w *Recorder) recordNode(at time.Time, o *unstructured.Unstructured, deleted bool) string {
	n := &events.NodeEvent{Name: o.GetName(), Base: w.shortName(o.GetLabels()[labels.BaseHost]),
		Identity: o.GetAnnotations()[labels.Identity]}
	if n.Base == "" {
		n.Base = w.state.BaseOf(n.Name)
	}
	if !deleted {
		n.State = NodeStateOf(o)
	}
	e := events.Event{Time: at, Node: n}
	before := w.state.Nodes.Get(n.Name)
	if deleted || before == nil || before.State != n.State || before.Base != n.Base {
		w.apply(e)
	}
	return e.String()
}

// isReady reports whether a Pod or a Node is Ready.
func isReady(o *unstructured.Unstructured) bool { return NodeStateOf(o) == events.NodeReady }

// NodeStateOf returns the state of a Node from its Ready condition. It returns NodeUnknown if the Node has no Ready
// condition.
func NodeStateOf(node *unstructured.Unstructured) events.NodeState {
	conditions, _, _ := unstructured.NestedSlice(node.Object, "status", "conditions")
	for _, c := range conditions {
		c, ok := c.(map[string]any)
		if !ok || c["type"] != string(corev1.NodeReady) {
			continue
		}
		switch c["status"] {
		case string(corev1.ConditionTrue):
			return events.NodeReady
		case string(corev1.ConditionFalse):
			return events.NodeNotReady
		}
	}
	return events.NodeUnknown
}

// recordEndpoints records all endpoints of the Service to which a changed EndpointSlice belongs.
func (w *Recorder) recordEndpoints(at time.Time, changed *unstructured.Unstructured) string {
	service := changed.GetLabels()[discoveryv1.LabelServiceName]
	x := &events.EndpointsEvent{Service: service, Endpoints: []events.Endpoint{}}
	e := events.Event{Time: at, Endpoints: x}
	t := w.tables[Subject{Resource: EndpointSlices, Namespace: w.o.Namespace}]
	if t == nil {
		return e.String()
	}
	parts, _ := Snapshot{w}.Objects(t.subject, "", map[string]string{discoveryv1.LabelServiceName: service})
	for _, o := range parts {
		var slice discoveryv1.EndpointSlice
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &slice); err != nil {
			w.o.Logger.Warn("could not decode an EndpointSlice", "slice", o.GetName(), "err", err)
			continue
		}
		for _, p := range slice.Endpoints {
			x.Endpoints = append(x.Endpoints, w.state.Endpoint(p))
		}
	}
	w.apply(e)
	return e.String()
}
