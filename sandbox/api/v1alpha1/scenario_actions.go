package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// Any is a value of any type.
type Any any

// Object is an object of Kubernetes, or a part of one.
type Object map[string]Any

// Unstructured returns the object for clients of the API.
func (o Object) Unstructured() *unstructured.Unstructured {
	content := make(map[string]any, len(o))
	for k, v := range o {
		content[k] = v
	}
	return &unstructured.Unstructured{Object: content}
}

// Ref names objects: one by its name, or several by labels.
type Ref struct {
	// APIVersion and Kind are required.
	APIVersion string `json:"apiVersion" need:"such as apps/v1"`
	Kind       string `json:"kind" need:"such as Deployment"`
	// Name of one object. Default: by Labels.
	Name string `json:"name,omitempty"`
	// Labels that the objects bear. Default: by Name.
	Labels map[string]string `json:"labels,omitempty"`
	// Namespace of the objects. Only wait and assert may name another namespace than the run's. Default:
	// the namespace of the run.
	Namespace string `json:"namespace,omitempty"`
}

// Apply creates or updates objects in the namespace of the run. A node selector binds module Pods, and the Pod
// templates of any kind of object, to the bases of the run.
type Apply struct {
	// File is the path of a file with manifests, relative to the scenario; it may contain
	// expressions too. Default: Resource.
	File string `json:"file,omitempty" jsonschema:"oneof_required=file"`
	// Resource is the object itself. Default: File.
	Resource Object `json:"resource,omitempty" jsonschema:"oneof_required=resource"`
	// Vars are further values for expressions in File, as vars.NAME. Default: none.
	Vars map[string]Any `json:"vars,omitempty" check:"identifier"`
	// Refused is a part of the error with which the API must refuse. Default: it must accept.
	Refused string `json:"refused,omitempty"`
	Release `json:",inline"`
}

// Release is what a step says of a workload's template that it changes.
type Release struct {
	// MayChangeNothing keeps a run from failing when the new template changed nothing on any base,
	// as with kubectl rollout restart. Default: false.
	MayChangeNothing bool `json:"mayChangeNothing,omitempty"`
}

// Patch changes one object.
type Patch struct {
	Ref     `json:",inline"`
	Release `json:",inline"`
	// Type is merge, strategic or json. Default: strategic, and merge for custom resources.
	Type string `json:"type,omitempty" jsonschema:"enum=merge,enum=strategic,enum=json"`
	// Patch is the patch; a list for json.
	Patch Any `json:"patch"`
	// Refused is as in Apply.
	Refused string `json:"refused,omitempty"`
}

// Delete deletes objects.
type Delete struct {
	Ref `json:",inline"`
	// GracePeriod of the deletion. Default: that of the objects.
	GracePeriod *metav1.Duration `json:"gracePeriod,omitempty" check:"notNegative"`
	// NoWait ends the step before the objects are gone. Default: false.
	NoWait bool `json:"noWait,omitempty"`
	// IgnoreNotFound lets there be no such object, as kubectl's --ignore-not-found does. Default: false.
	IgnoreNotFound bool `json:"ignoreNotFound,omitempty"`
}

// Scale sets the replicas of a workload.
type Scale struct {
	Ref `json:",inline"`
	// Replicas is how many there are to be. An expression may give it.
	Replicas Any `json:"replicas"`
}

// Rollback takes a Deployment, DaemonSet or StatefulSet back.
type Rollback struct {
	Ref     `json:",inline"`
	Release `json:",inline"`
	// Revision to go back to. Default: the one before the present one.
	Revision *int64 `json:"revision,omitempty" jsonschema:"minimum=1"`
}

// BaseNames names bases: SET for all of a set, SET-N for one, * for all of the run. One that
// matches nothing fails the step.
type BaseNames []string

// BaseAction does something to bases: exactly one field is set. It ends when the controller shows
// the result: Nodes are Ready, or gone, or their Pods are.
type BaseAction struct {
	// Add adds Count bases to a set, with the settings of the set of that name; a new set may be
	// defined here.
	Add *BaseSet `json:"add,omitempty" jsonschema:"oneof_required=add"`
	// Remove ends bases as kill -9 would.
	Remove BaseNames `json:"remove,omitempty" jsonschema:"oneof_required=remove"`
	// Restart ends the processes of bases and starts them again.
	Restart *BaseRestart `json:"restart,omitempty" jsonschema:"oneof_required=restart"`
	// Upgrade replaces a set by bases of another version.
	Upgrade *BaseUpgrade `json:"upgrade,omitempty" jsonschema:"oneof_required=upgrade"`
	// Cordon keeps new Pods off the Nodes of bases, as kubectl cordon does.
	Cordon BaseNames `json:"cordon,omitempty" jsonschema:"oneof_required=cordon"`
	// Drain cordons the Nodes of bases and evicts their Pods, but those of DaemonSets, as kubectl drain
	// does, and waits until these are gone.
	Drain *BaseDrain `json:"drain,omitempty" jsonschema:"oneof_required=drain"`
	// Uncordon ends what cordon and drain began.
	Uncordon BaseNames `json:"uncordon,omitempty" jsonschema:"oneof_required=uncordon"`
}

// BaseDrain drains the Nodes of bases.
type BaseDrain struct {
	// Bases whose Nodes are drained.
	Bases BaseNames `json:"bases"`
	// NoWait ends the step when all evictions are accepted. Default: false.
	NoWait bool `json:"noWait,omitempty"`
}

// BaseRestart restarts bases.
type BaseRestart struct {
	// Bases to restart.
	Bases BaseNames `json:"bases"`
	// NewIdentity gives each a new identity, as a new container has. Default: false.
	NewIdentity bool `json:"newIdentity,omitempty"`
}

// BaseUpgrade replaces bases by ones of another version: the release of a base.
type BaseUpgrade struct {
	// Set to upgrade.
	Set string `json:"set" need:"say which set of bases"`
	// Version of the new bases.
	Version string `json:"version" need:"say the version of the new bases" check:"nodeLabel"`
	// Batch is how many are replaced at a time.
	Batch *int `json:"batch,omitempty" jsonschema:"minimum=1,maximum=10000,default=1"`
	// OldFirst ends old bases before new ones start. Default: false, new ones first.
	OldFirst bool `json:"oldFirst,omitempty"`
}

// ComponentAction does something to a component.
type ComponentAction struct {
	// Do is kill (as kill -9), pause (SIGSTOP), resume, or restart; start starts one that was
	// killed.
	Do string `json:"do" jsonschema:"enum=kill,enum=pause,enum=resume,enum=restart,enum=start" need:"one of kill, pause, resume, restart, start"`
	// Replica of the controller, from 1. Default: 1.
	Replica *int `json:"replica,omitempty"`
}

// TrafficAction starts or stops requests: exactly one field is set.
type TrafficAction struct {
	Start *Traffic     `json:"start,omitempty" jsonschema:"oneof_required=start"`
	Stop  *TrafficStop `json:"stop,omitempty" jsonschema:"oneof_required=stop"`
}

// Via says which way requests take to a module.
type Via string

// The ways.
const (
	// ViaService sends to a Service, which picks an endpoint as kube-proxy does.
	ViaService Via = "service"
	// ViaBases sends to every base in turn, whatever its Pods say, as a load balancer in front of
	// the base application does.
	ViaBases Via = "bases"
)

// Traffic is a stream of requests to a module, at a fixed rate. A request never waits for another's
// answer.
type Traffic struct {
	// Name of the stream, in expressions traffic.NAME.
	Name string `json:"name,omitempty" jsonschema:"default=traffic" check:"identifier"`
	// Via is service or bases.
	Via Via `json:"via,omitempty" jsonschema:"enum=service,enum=bases,default=service"`
	// Service that the requests go to, with ViaService.
	Service string `json:"service,omitempty"`
	// Port of the Service, by name or number. Default: its first.
	Port string `json:"port,omitempty"`
	// Bases that the requests go to, with ViaBases: those that match at any time. Default: all of
	// the run.
	Bases BaseNames `json:"bases,omitempty"`
	// Module is the name of the module, the first part of the path.
	Module string `json:"module" need:"the name of the module that answers"`
	// Rate is requests a second, 1 to 5000.
	Rate *int `json:"rate,omitempty" jsonschema:"minimum=1,maximum=5000,default=100"` // what the generator is built and measured for
	// Timeout of a request.
	Timeout *metav1.Duration `json:"timeout,omitempty" jsonschema:"default=2s" check:"positive"`
	// Reuse sends requests over connections that stay, as clients with a pool do. Default: false, a
	// connection for each, so that each meets the endpoints of its moment.
	Reuse bool `json:"reuse,omitempty"`
	// Versions of the module that may answer; any other is a wrong version. Default: all.
	Versions []string `json:"versions,omitempty" need:"say which version"`
	// Judge is the CEL expression over this stream that must be true at the end, with its figures
	// by name: sent, ok, lost, noEndpoint, refused, reset, notFound, unavailable, timeout,
	// wrongVersion, other. At least one request must have been sent in any case.
	Judge string `json:"judge,omitempty" jsonschema:"default=lost == 0" need:"say what must be true of the stream, in CEL" check:"cel"`
}

// TrafficStop stops a stream and waits for the answers that are on their way.
type TrafficStop struct {
	// Name of the stream.
	Name string `json:"name,omitempty" jsonschema:"default=traffic"`
}

// Script runs a shell script on the machine that runs the scenario, with KUBECONFIG, NAMESPACE, GROUP,
// the variables of Env, and of those around it only such as PATH, HOME and LANG. The identity in
// KUBECONFIG edits the objects in the namespace of the run, and may do nothing else.
type Script struct {
	// Content is the script, run by sh -eu -c.
	Content string `json:"content" need:"say what to run"`
	// Env are environment variables. Default: none.
	Env map[string]string `json:"env,omitempty" check:"variable"`
	// Until is a CEL expression over stdout, stderr and exitCode; the script runs again until it is
	// true. Default: it runs once and must exit with 0.
	Until string `json:"until,omitempty" check:"cel"`
	// Output is the name under which later steps find what it printed, as outputs.NAME. Default:
	// none.
	Output string `json:"output,omitempty" check:"identifier"`
}

// Wait waits: exactly one field is set.
type Wait struct {
	// Rollout of a Deployment, DaemonSet or StatefulSet to be complete, as kubectl rollout status.
	Rollout *Ref `json:"rollout,omitempty" jsonschema:"oneof_required=rollout"`
	// Ready: all objects (Pods, Nodes) have the condition Ready.
	Ready *Ref `json:"ready,omitempty" jsonschema:"oneof_required=ready"`
	// Gone: there are no such objects.
	Gone *Ref `json:"gone,omitempty" jsonschema:"oneof_required=gone"`
	// Quiet waits until the controllers have written nothing but Leases for that long.
	Quiet *metav1.Duration `json:"quiet,omitempty" jsonschema:"oneof_required=quiet" check:"positive"`
	// Step in the background to end.
	Step string `json:"step,omitempty" jsonschema:"oneof_required=step"`
}

// Assert checks objects or an expression until it is so: exactly one of Resource and CEL is set.
type Assert struct {
	// Resource is a part of an object. Every field in it must be the same in the object of its
	// apiVersion, kind and name or labels; elements of a list must be there in this order. Without
	// a name, some object of the labels must match.
	Resource Object `json:"resource,omitempty" jsonschema:"oneof_required=resource"`
	// CEL is a boolean expression over bases, traffic, and the objects of the run's namespace:
	// pods, deployments, replicasets, daemonsets, statefulsets, services, endpointslices, events;
	// and nodes, those of the run's bases.
	CEL string `json:"cel,omitempty" jsonschema:"oneof_required=cel" check:"cel"`
	// Absent: no object matches Resource. Default: false.
	Absent bool `json:"absent,omitempty"`
	// For is how long it must stay so.
	For *metav1.Duration `json:"for,omitempty" jsonschema:"default=0s" check:"notNegative"`
}

// Sleep does nothing for a time, or until something is seen. That it was not seen is no failure.
type Sleep struct {
	// For is how long, at most.
	For metav1.Duration `json:"for" check:"positive"`
	// OrUntil is a CEL expression as in Assert that ends the sleep. Default: it lasts its time.
	OrUntil string `json:"orUntil,omitempty" check:"cel"`
	// Reason says why nothing else will do.
	Reason string `json:"reason" need:"say why nothing else will do: waiting for what is meant is faster and surer"`
}
