package board

import (
	"cmp"
	"slices"
	"strings"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// node holds the data about a base's Node that events do not contain.
type node struct {
	name, base, identity, zone, group, baseName, version, ip, tunnel, holder, message string

	state              events.NodeState
	cordoned, pressure bool
	// metaspace is the metaspace limit in bytes (0 means no limit). free is the allocatable metaspace in bytes.
	metaspace, free int64
}

// pod holds the data about a Pod that events.PodState does not contain.
type pod struct {
	namespace string
	memory    int64 // memory request in bytes
}

// unlimited is the memory capacity of a Node, in bytes, from which the base has no metaspace limit.
const unlimited = 1 << 40

// tunnelSuffix is the end of tunnel names in Node labels, such as mqtt_tunnel_provider.
const tunnelSuffix = "_tunnel_provider"

// nodeChanged adds or updates a Node. It ignores Nodes that do not belong to a base.
func (w *boardState) nodeChanged(o *corev1.Node, gone bool, now time.Time) {
	if labels.Value(o.Labels, labels.Component) != labels.Vnode {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	n := nodeOf(o)
	before, known := w.nodes[n.base]
	known = known && before.name == n.name
	w.mark(kindComponent, before.holder)
	w.mark(kindComponent, n.holder)
	switch {
	case !gone:
		w.nodes[n.base] = n
	case known:
		delete(w.nodes, n.base)
		n.state = ""
	default: // replaced by another Node
		n.state = ""
	}
	w.mark(kindBase, n.base)
	if known && before.state == n.state {
		return
	}
	w.apply(events.Event{Time: now,
		Node: &events.NodeEvent{Name: n.name, Base: n.base, Identity: n.identity, State: n.state, Message: n.message}})
	if w.noDaemon && (known || !gone) {
		w.baseByNode(n, gone, now)
	}
}

// baseByNode derives the state of a base from its Node. It is used if the board has no daemon.
func (w *boardState) baseByNode(n node, gone bool, now time.Time) {
	changes := []events.BaseChange{events.BaseReady, events.BaseConnected}
	switch {
	case gone:
		changes = []events.BaseChange{events.BaseRemoved}
	case n.state != events.NodeReady:
		changes = []events.BaseChange{events.BaseReady, events.BaseDisconnected}
	}
	if b := w.state.Bases.Get(n.base); b != nil && b.Ready {
		changes = slices.DeleteFunc(changes, func(c events.BaseChange) bool { return c == events.BaseReady })
	}
	for _, c := range changes {
		w.apply(events.Event{Time: now, Base: &events.BaseEvent{Base: n.base, Identity: n.identity, Change: c}})
	}
}

func nodeOf(o *corev1.Node) node {
	n := node{
		name: o.Name, base: cmp.Or(o.Labels[labels.BaseHost], o.Name), identity: o.Annotations[labels.Identity],
		group:    o.Labels[labels.BaseCluster],
		baseName: cmp.Or(o.Labels[labels.BaseName], o.Labels[labels.OlderBaseName]),
		tunnel:   strings.TrimSuffix(o.Labels[labels.Tunnel], tunnelSuffix),
		version:  cmp.Or(o.Labels[labels.BaseVersion], o.Labels[labels.OlderBaseVersion]),
		holder:   o.Annotations[labels.Holder],
		cordoned: o.Spec.Unschedulable, state: events.NodeUnknown,
	}
	// A zone with the name of the Node is set by the controller if the base has no zone.
	n.zone = n.group
	if z := o.Labels[corev1.LabelTopologyZone]; z != "" && !strings.HasPrefix(o.Name, z) {
		n.zone = z
	}
	for _, a := range o.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			n.ip = a.Address
		}
	}
	for _, c := range o.Status.Conditions {
		switch c.Type {
		case corev1.NodeReady:
			switch c.Status {
			case corev1.ConditionTrue:
				n.state = events.NodeReady
			case corev1.ConditionFalse:
				n.state, n.message = events.NodeNotReady, c.Message
			default:
				n.message = c.Message
			}
		case corev1.NodeMemoryPressure:
			n.pressure = c.Status == corev1.ConditionTrue
		}
	}
	if limit := o.Status.Capacity.Memory().Value(); limit > 0 && limit < unlimited {
		n.metaspace, n.free = limit, o.Status.Allocatable.Memory().Value()
	}
	return n
}

func (w *boardState) podChanged(o *corev1.Pod, gone bool, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := w.state.PodEvent(o, gone)
	if gone {
		if w.state.Pods.Get(e.PodKey()) == nil {
			return
		}
		delete(w.pods, e.UID)
	} else {
		w.pods[e.UID] = pod{namespace: o.Namespace, memory: memoryOf(o)}
	}
	w.apply(events.Event{Time: now, Pod: e})
	if w.noDaemon {
		w.modulesByPod(o, gone, now)
	}
}

// workloadOf returns the key of the workload that owns a Pod. If a ReplicaSet owns the Pod, the workload is the
// Deployment.
func workloadOf(p *events.PodState, namespace string) string {
	kind, name, owned := strings.Cut(p.Owner, "/")
	if !owned {
		return ""
	}
	if hash := p.Labels[appsv1.DefaultDeploymentUniqueLabelKey]; kind == "ReplicaSet" && hash != "" {
		kind, name = "deployment", strings.TrimSuffix(name, "-"+hash)
	}
	return strings.ToLower(kind) + "/" + namespace + "/" + name
}

func memoryOf(o *corev1.Pod) (sum int64) {
	for _, c := range o.Spec.Containers {
		sum += c.Resources.Requests.Memory().Value()
	}
	return sum
}

// modulesByPod derives the modules of a base from a Pod. It is used if the board has no daemon.
func (w *boardState) modulesByPod(o *corev1.Pod, gone bool, now time.Time) {
	p := events.PodStateOf(o)
	base := w.state.BaseOf(o.Spec.NodeName)
	if base == "" {
		return
	}
	for _, m := range p.Modules {
		state := moduleState(o, m.Name)
		known := w.state.Bases.Get(base).Module(m)
		switch {
		case gone && w.isRequested(base, m), !gone && state == "":
			continue
		case gone:
			state = ""
		}
		if known == nil && state == "" || known != nil && known.State == state {
			continue
		}
		e := &events.ModuleEvent{Base: base, ModuleRef: m, State: state}
		if known != nil {
			e.From = known.State
		}
		w.apply(events.Event{Time: now, Module: e})
	}
}

// isRequested reports whether any Pod on a base requests the module version m.
func (w *boardState) isRequested(base string, m events.ModuleRef) bool {
	for p := range w.state.PodsOn(base) {
		if slices.Contains(p.Modules, m) {
			return true
		}
	}
	return false
}

// moduleState returns the state of a module, derived from the status of its container. It returns an empty string if
// the container has no status.
func moduleState(o *corev1.Pod, container string) events.ModuleState {
	for _, c := range o.Status.ContainerStatuses {
		switch {
		case c.Name != container:
		case c.State.Running != nil:
			return events.ModuleActivated
		case c.State.Terminated != nil:
			return events.ModuleBroken
		case c.State.Waiting == nil:
		case slices.Contains([]string{"", api.ReasonContainerCreating, api.ReasonResolved, api.ReasonReplacing},
			c.State.Waiting.Reason):
			return events.ModuleResolved
		case slices.Contains([]string{api.ReasonDeactivated, api.ReasonNotActivated}, c.State.Waiting.Reason):
			return events.ModuleDeactivated
		default:
			return events.ModuleBroken
		}
	}
	return ""
}

// endpointsChanged replaces the endpoints of a Service with the endpoints in its EndpointSlices. It ignores Services
// that never had an endpoint on a base.
func (w *boardState) endpointsChanged(namespace, service string, slices []*discoveryv1.EndpointSlice, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	e := &events.EndpointsEvent{Service: namespace + "/" + service, Endpoints: []events.Endpoint{}}
	for _, s := range slices {
		for _, p := range s.Endpoints {
			endpoint := w.state.Endpoint(p)
			if endpoint.Base == "" {
				continue
			}
			endpoint.Pod = ""
			if p.TargetRef != nil {
				endpoint.Pod = string(p.TargetRef.UID) // Pod names are unique only in a namespace
			}
			e.Endpoints = append(e.Endpoints, endpoint)
		}
	}
	if len(e.Endpoints) == 0 && w.state.Services.Get(e.Service) == nil {
		return
	}
	w.apply(events.Event{Time: now, Endpoints: e})
}

func (w *boardState) leaseChanged(o *coordinationv1.Lease, gone bool, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	name := cmp.Or(ptr.Deref(o.Spec.HolderIdentity, ""), o.Name)
	if gone {
		delete(w.leases, name)
		w.mark(kindComponent, name)
		return
	}
	if o.Spec.RenewTime != nil {
		w.leases[name] = o.Spec.RenewTime.Add(time.Duration(ptr.Deref(o.Spec.LeaseDurationSeconds, 15)) * time.Second)
	}
	w.processes[name] = ComponentRow{Message: "env " + o.Labels[labels.Env]}
	w.updateLiveness(name, now)
}

// updateLiveness updates the state of a controller from its Lease. The caller must hold w.mu.
func (w *boardState) updateLiveness(name string, now time.Time) {
	state := events.ComponentRunning
	if now.After(w.leases[name]) {
		state = events.ComponentExited
	}
	if before := w.state.Components.Get(name); before == nil || before.State != state {
		w.apply(events.Event{Time: now, Component: &events.ComponentEvent{Name: name, State: state}})
	}
}

// eventChanged logs a Kubernetes Event about a base, a module Pod or the workload of a module Pod.
func (w *boardState) eventChanged(o *corev1.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	of := o.InvolvedObject
	kind := strings.ToLower(of.Kind)
	entry := LogEntry{
		Time: millis(events.LastTime(o)), Kind: LogEvent, Name: kind + "/" + of.Name, Namespace: of.Namespace,
		State: o.Reason, Text: o.Message,
		Bad: o.Type == corev1.EventTypeWarning,
	}
	switch kind {
	case "node":
		entry.Base = w.state.BaseOf(of.Name)
		if entry.Base == "" {
			return
		}
	case "pod":
		p := w.state.Pods.Get(string(of.UID))
		if p == nil {
			return
		}
		entry.Base = p.Base
	default:
		if _, ours := w.workloads[kind+"/"+of.Namespace+"/"+of.Name]; !ours {
			return
		}
	}
	w.appendLog(entry)
}
