package observe

import (
	"cmp"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
)

const (
	topicBases   = "bases"
	topicTraffic = "traffic"
)

// listResources maps the list names in expressions to Kubernetes resources.
var listResources = map[string]schema.GroupVersionResource{
	"pods":           Pods,
	"nodes":          Nodes,
	"endpointslices": EndpointSlices,
	"deployments":    {Group: "apps", Version: "v1", Resource: "deployments"},
	"replicasets":    {Group: "apps", Version: "v1", Resource: "replicasets"},
	"daemonsets":     {Group: "apps", Version: "v1", Resource: "daemonsets"},
	"statefulsets":   {Group: "apps", Version: "v1", Resource: "statefulsets"},
	"services":       {Version: "v1", Resource: "services"},
	"events":         {Version: "v1", Resource: "events"},
}

var topics = func() map[schema.GroupResource]string {
	m := map[schema.GroupResource]string{}
	for name, r := range listResources {
		m[r.GroupResource()] = name
	}
	return m
}()

// SubjectOf returns the subject for a list name that expressions use, such as pods. It returns false if the name is
// not the name of a list of objects.
func SubjectOf(name, namespace, group string) (Subject, bool) {
	r, ok := listResources[name]
	switch {
	case !ok:
		return Subject{}, false
	case r == Nodes:
		return NodesOf(group), true
	}
	return Subject{Resource: r, Namespace: namespace}, true
}

// NodesOf returns the subject for the Nodes of a group of bases.
func NodesOf(group string) Subject {
	return Subject{Resource: Nodes, Selector: labels.BaseCluster + "=" + group}
}

// NodesByIdentity returns the Nodes of a group, keyed by the identity of their base. The result is empty unless the
// Nodes of the group are watched, see NodesOf.
func (v Snapshot) NodesByIdentity(group string) map[string]*unstructured.Unstructured {
	nodes := map[string]*unstructured.Unstructured{}
	found, _ := v.Objects(NodesOf(group), "", nil)
	for _, n := range found {
		nodes[n.GetAnnotations()[labels.Identity]] = n
	}
	return nodes
}

// Data returns the values of the given expression names, such as pods or bases. It omits unknown names. The values
// are not modified after Data returns.
func (v Snapshot) Data(names []string) map[string]any {
	data := make(map[string]any, len(names))
	for _, name := range names {
		value, ok := v.w.cached[name]
		if !ok {
			switch name {
			case topicBases:
				value = v.basesData()
			case topicTraffic:
				value = v.trafficData()
			default:
				subject, isList := SubjectOf(name, v.w.o.Namespace, v.w.o.Group)
				if !isList {
					continue
				}
				value = v.sortedObjects(subject)
			}
			v.w.cached[name] = value
		}
		data[name] = value
	}
	return data
}

// sortedObjects returns the objects of a subject, sorted by creation time and name.
func (v Snapshot) sortedObjects(s Subject) []any {
	out := []any{}
	t := v.w.tables[s]
	if t == nil {
		return out
	}
	ordered := slices.SortedFunc(maps.Values(t.objects), func(a, b *unstructured.Unstructured) int {
		x, y := a.GetCreationTimestamp(), b.GetCreationTimestamp()
		return cmp.Or(x.Compare(y.Time), cmp.Compare(a.GetName(), b.GetName()))
	})
	for _, o := range ordered {
		out = append(out, o.Object)
	}
	return out
}

func (v Snapshot) basesData() map[string]any {
	out := map[string]any{}
	for name, b := range v.Bases() {
		out[name] = b.Value()
	}
	return out
}

// trafficData returns the summaries of the request streams. They include lost requests that were recorded after the
// last polled summary.
func (v Snapshot) trafficData() map[string]any {
	out := map[string]any{}
	for name, s := range v.w.traffic {
		if seen := v.w.state.Streams.Get(name); seen != nil {
			results, reported := map[traffic.Result]int{}, 0
			maps.Copy(results, s.Results)
			for result, n := range seen.Lost {
				reported += n
				results[result] = max(results[result], n)
			}
			s.Results, s.Lost = results, max(s.Lost, reported)
		}
		out[name] = map[string]any(expr.Stream(s))
	}
	return out
}
