package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// ScenarioKind is the kind of a scenario file.
const ScenarioKind = "Scenario"

// Scenario is a rollout with its disturbance, and what must hold meanwhile.
//
// Every string in its spec may contain expressions, ${{ … }}, in CEL. When a
// whole string is one expression the value keeps the expression's type. They may
// use vars, matrix, run and, within steps, outputs.
type Scenario struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata names the scenario.
	Metadata ScenarioMetadata `json:"metadata"`
	// Spec says what happens.
	Spec ScenarioSpec `json:"spec"`
}

// ScenarioMetadata names a scenario.
type ScenarioMetadata struct {
	// Name is unique within a folder, a DNS label.
	Name string `json:"name"`
	// Labels select scenarios: koupsandbox scenario run --selector. Default: none.
	Labels map[string]string `json:"labels,omitempty"`
}

// ScenarioSpec says what happens in a scenario.
type ScenarioSpec struct {
	// Description is a sentence: what the scenario shows.
	Description string `json:"description"`
	// Source names where the behaviour is described, such as a document and its
	// section. Default: none.
	Source string `json:"source,omitempty"`
	// Vars are values for expressions; a run may override them. One that nothing
	// uses is a failure. Default: none.
	Vars map[string]Any `json:"vars,omitempty"`
	// Matrix has values for expressions too: each combination of them is a run of
	// its own. Default: one run.
	Matrix map[string][]Any `json:"matrix,omitempty"`
	// Bases are the sets of bases that the scenario starts with. They are its own:
	// no other Pods are scheduled there, and they go with it. Default: none.
	Bases []BaseSet `json:"bases,omitempty"`
	// Controller says what module controller the scenario needs. Default: the one
	// that the sandbox has. A scenario that needs another one runs alone.
	Controller *ControllerNeeds `json:"controller,omitempty"`
	// Exclusive scenarios run alone. Default: true when a step acts on the
	// controller, the broker or the API server or Controller is set; else false.
	Exclusive *bool `json:"exclusive,omitempty"`
	// Timeout bounds the whole run without Finally. Default: 2m.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// StepTimeout is the timeout of steps without their own. Default: 30s.
	StepTimeout *metav1.Duration `json:"stepTimeout,omitempty"`
	// Checks says what the built-in checks must find. Default: no violation.
	Checks Checks `json:"checks,omitzero"`
	// Always and Never are invariants for all steps.
	Always []Invariant `json:"always,omitempty"`
	Never  []Invariant `json:"never,omitempty"`
	// Steps are done one after the other; the first that fails ends the run.
	Steps []Step `json:"steps"`
	// Finally are steps done afterwards in any case, all of them.
	Finally []Step `json:"finally,omitempty"`
}

// BaseSet is a set of equal bases. They are named SET-1, SET-2 and so on.
type BaseSet struct {
	// Name of the set, a DNS label. Default: base.
	Name string `json:"name,omitempty"`
	// Count is how many there are; 0 in a definition for later. Default: 1.
	Count *int `json:"count,omitempty"`
	// BaseName is the name that each reports; Pods may select their base by it.
	// Default: Name.
	BaseName string `json:"baseName,omitempty"`
	// Version is the version that each reports. Default: 1.0.0.
	Version string `json:"version,omitempty"`
	// Env is the environment. Default: that of the sandbox. Bases of another one
	// are not seen by the sandbox's controller.
	Env string `json:"env,omitempty"`
	// Tunnel is mqtt or http. Default: mqtt.
	Tunnel Tunnel `json:"tunnel,omitempty" jsonschema:"enum=mqtt,enum=http"`
	// Activation says what a base does with a second version of a module.
	// Default: newModule.
	Activation Activation `json:"activation,omitempty" jsonschema:"enum=newModule,enum=default,enum=multi"`
	// InstallTime and UninstallTime are how long a module takes to start and to
	// stop, PullTime its download. Default: 0s.
	InstallTime   *metav1.Duration `json:"installTime,omitempty"`
	UninstallTime *metav1.Duration `json:"uninstallTime,omitempty"`
	PullTime      *metav1.Duration `json:"pullTime,omitempty"`
	// RequestTime is how long a module works on a request. Default: 0s.
	RequestTime *metav1.Duration `json:"requestTime,omitempty"`
	// StartupTime is how long a base takes to start. Default: 0s.
	StartupTime *metav1.Duration `json:"startupTime,omitempty"`
	// Metaspace is the size of the metaspace and PerModule what a module takes of
	// it, as Kubernetes quantities such as 256Mi. Default: those of the simulated
	// base.
	Metaspace string `json:"metaspace,omitempty"`
	PerModule string `json:"perModule,omitempty"`
	// Faithful keeps the flaws of a real base. Default: false.
	Faithful bool `json:"faithful,omitempty"`
	// Modules are URLs of jars that are in the base from its start. Default: none.
	Modules []string `json:"modules,omitempty"`
	// Faults are there from the start, as fakebase names them. Default: none.
	Faults []Object `json:"faults,omitempty"`
}

// Tunnel is how a base talks to the controller.
type Tunnel string

// The tunnels.
const (
	TunnelMQTT Tunnel = "mqtt"
	TunnelHTTP Tunnel = "http"
)

// ControllerNeeds describes the module controller that a scenario needs.
type ControllerNeeds struct {
	// Replicas is how many of its processes share the bases. Default: 1.
	Replicas *int `json:"replicas,omitempty"`
	// Env are environment variables, in addition to those of the sandbox.
	// Default: none.
	Env map[string]string `json:"env,omitempty"`
}

// Expectation says what a built-in check must find.
type Expectation string

// The expectations.
const (
	// Holds: a violation fails the run.
	Holds Expectation = "holds"
	// Violated: the run fails unless the check finds a violation. It is for
	// scenarios that show that a check would notice.
	Violated Expectation = "violated"
	// Ignored: the check reports and never fails the run.
	Ignored Expectation = "ignored"
)

// Checks says what the built-in checks must find. Each defaults to holds.
type Checks struct {
	// ActiveVersion: no base that served a module is ever without an active
	// version of it while a Pod that wants the module there exists.
	ActiveVersion Expectation `json:"activeVersion,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored"`
	// Truth: a Pod that is Ready, or an endpoint that is ready, has an active
	// module of its version on its base.
	Truth Expectation `json:"truth,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored"`
	// Order: on each base the old Pod turns Not Ready before the new one turns
	// Ready, unless it is the only ready one of its Service.
	Order Expectation `json:"order,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored"`
	// InstalledOnce: no base installs the same version twice without an uninstall,
	// a failure or a restart in between.
	InstalledOnce Expectation `json:"installedOnce,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored"`
	// NothingLeft: at the end no base has a module that no Pod wants.
	NothingLeft Expectation `json:"nothingLeft,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored"`
	// MaxPodWrites bounds how often one Pod may be written, from creation to
	// removal, by anybody. Default: it is reported only.
	MaxPodWrites *int `json:"maxPodWrites,omitempty"`
}

// Invariant is a condition that is checked at every event of a watch and every
// change of a base while its scope lasts.
type Invariant struct {
	// Name for messages.
	Name string `json:"name"`
	// CEL is the condition, a boolean expression as in Assert.
	CEL string `json:"cel"`
}

// Step is one thing to do: exactly one of its actions is set.
type Step struct {
	// Name for messages; unique within its list. Default: the action's.
	Name string `json:"name,omitempty"`
	// Timeout of the step. Default: that of the spec.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// If is a CEL expression; the step is skipped when it is false. Default: true.
	If string `json:"if,omitempty"`
	// Repeat does the step that often, one after the other. Default: 1.
	Repeat *int `json:"repeat,omitempty"`
	// Background lets the next step begin at once; the run waits for it before
	// Finally. Default: false.
	Background bool `json:"background,omitempty"`
	// Always and Never are invariants for this step.
	Always []Invariant `json:"always,omitempty"`
	Never  []Invariant `json:"never,omitempty"`

	// Action is what is done.
	Action `json:",inline"`
}

// Action is what a step does: exactly one field is set.
type Action struct {
	// Apply creates or updates objects, as kubectl apply --server-side does.
	Apply *Apply `json:"apply,omitempty"`
	// Patch changes an object.
	Patch *Patch `json:"patch,omitempty"`
	// Delete deletes objects and waits until they are gone.
	Delete *Delete `json:"delete,omitempty"`
	// Scale sets the replicas of a workload.
	Scale *Scale `json:"scale,omitempty"`
	// Rollback takes a workload back to an earlier revision, as kubectl rollout
	// undo does.
	Rollback *Rollback `json:"rollback,omitempty"`
	// Base adds, removes, restarts or upgrades bases.
	Base *BaseAction `json:"base,omitempty"`
	// Fault sets or clears faults of bases.
	Fault *FaultAction `json:"fault,omitempty"`
	// Controller, Broker and APIServer do something to a component.
	Controller *ComponentAction `json:"controller,omitempty"`
	Broker     *ComponentAction `json:"broker,omitempty"`
	APIServer  *ComponentAction `json:"apiserver,omitempty"`
	// Traffic starts or stops requests to modules.
	Traffic *TrafficAction `json:"traffic,omitempty"`
	// Script runs a shell script.
	Script *Script `json:"script,omitempty"`
	// Wait waits for a rollout, a Pod, or the end of a background step.
	Wait *Wait `json:"wait,omitempty"`
	// Assert checks until it is so, or the timeout.
	Assert *Assert `json:"assert,omitempty"`
	// Sleep does nothing for a time.
	Sleep *Sleep `json:"sleep,omitempty"`
	// Steps are done one after the other, Parallel at the same time. They group
	// steps for Repeat, If and invariants.
	Steps    []Step `json:"steps,omitempty"`
	Parallel []Step `json:"parallel,omitempty"`
}

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
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
	// Name of one object. Default: by Labels.
	Name string `json:"name,omitempty"`
	// Labels that the objects bear. Default: by Name.
	Labels map[string]string `json:"labels,omitempty"`
	// Namespace of the objects. Default: that of the run.
	Namespace string `json:"namespace,omitempty"`
}

// Apply creates or updates objects. A module Pod, or the template of one, is
// bound to the bases of the run by a node selector.
type Apply struct {
	// File is the path of a file with manifests, relative to the scenario; it may
	// contain expressions too. Default: Resource.
	File string `json:"file,omitempty"`
	// Resource is the object itself. Default: File.
	Resource Object `json:"resource,omitempty"`
	// Vars are further values for expressions in File, as vars.NAME. Default: none.
	Vars map[string]Any `json:"vars,omitempty"`
	// Refused is a part of the error with which the API must refuse. Default: it
	// must accept.
	Refused string `json:"refused,omitempty"`
}

// Patch changes one object.
type Patch struct {
	Ref `json:",inline"`
	// Type is merge, strategic or json. Default: strategic, and merge for custom
	// resources.
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
	GracePeriod *metav1.Duration `json:"gracePeriod,omitempty"`
	// NoWait ends the step before the objects are gone. Default: false.
	NoWait bool `json:"noWait,omitempty"`
}

// Scale sets the replicas of a workload.
type Scale struct {
	Ref `json:",inline"`
	// Replicas is how many there are to be. An expression may give it.
	Replicas Any `json:"replicas"`
}

// Rollback takes a Deployment, DaemonSet or StatefulSet back.
type Rollback struct {
	Ref `json:",inline"`
	// Revision to go back to. Default: the one before the present one.
	Revision *int64 `json:"revision,omitempty"`
}

// BaseNames names bases: SET for all of a set, SET-N for one, * for all of the run.
// One that matches nothing fails the step.
type BaseNames []string

// BaseAction does something to bases: exactly one field is set. It ends when the
// controller shows the result: Nodes are Ready, or gone.
type BaseAction struct {
	// Add adds Count bases to a set, with the settings of the set of that name; a
	// new set may be defined here.
	Add *BaseSet `json:"add,omitempty"`
	// Remove ends bases as kill -9 would.
	Remove BaseNames `json:"remove,omitempty"`
	// Restart ends the processes of bases and starts them again.
	Restart *BaseRestart `json:"restart,omitempty"`
	// Upgrade replaces a set by bases of another version.
	Upgrade *BaseUpgrade `json:"upgrade,omitempty"`
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
	Set string `json:"set"`
	// Version of the new bases.
	Version string `json:"version"`
	// Batch is how many are replaced at a time. Default: 1.
	Batch *int `json:"batch,omitempty"`
	// OldFirst ends old bases before new ones start. Default: false, new ones first.
	OldFirst bool `json:"oldFirst,omitempty"`
}

// FaultAction sets or clears faults: exactly one field is set.
type FaultAction struct {
	Set   *FaultSet   `json:"set,omitempty"`
	Clear *FaultClear `json:"clear,omitempty"`
}

// FaultSet sets a fault.
type FaultSet struct {
	// Bases that get it.
	Bases BaseNames `json:"bases"`
	// Fault as fakebase describes it: kind, match, count and so on; see
	// koupsandbox scenario explain fault.
	Fault Object `json:"fault"`
}

// FaultClear clears faults.
type FaultClear struct {
	// Bases that lose them.
	Bases BaseNames `json:"bases"`
	// IDs of the faults. Default: all.
	IDs []string `json:"ids,omitempty"`
}

// ComponentAction does something to a component.
type ComponentAction struct {
	// Do is kill (as kill -9), pause (SIGSTOP), resume, or restart; start starts
	// one that was killed.
	Do string `json:"do" jsonschema:"enum=kill,enum=pause,enum=resume,enum=restart,enum=start"`
	// Replica of the controller, from 1. Default: 1.
	Replica *int `json:"replica,omitempty"`
}

// TrafficAction starts or stops requests: exactly one field is set.
type TrafficAction struct {
	Start *Traffic     `json:"start,omitempty"`
	Stop  *TrafficStop `json:"stop,omitempty"`
}

// Via says which way requests take to a module.
type Via string

// The ways.
const (
	// ViaService sends to a Service, which picks an endpoint as kube-proxy does.
	ViaService Via = "service"
	// ViaBases sends to every base in turn, whatever its Pods say, as a load
	// balancer in front of the base application does.
	ViaBases Via = "bases"
)

// Traffic is a stream of requests to a module, at a fixed rate. A request never
// waits for another's answer.
type Traffic struct {
	// Name of the stream, in expressions traffic.NAME. Default: traffic.
	Name string `json:"name,omitempty"`
	// Via is service or bases. Default: service.
	Via Via `json:"via,omitempty" jsonschema:"enum=service,enum=bases"`
	// Service that the requests go to, with ViaService.
	Service string `json:"service,omitempty"`
	// Port of the Service, by name or number. Default: its first.
	Port string `json:"port,omitempty"`
	// Bases that the requests go to, with ViaBases: those that match at any time.
	// Default: all of the run.
	Bases BaseNames `json:"bases,omitempty"`
	// Module is the name of the module, the first part of the path.
	Module string `json:"module"`
	// Rate is requests a second, 1 to 5000. Default: 100.
	Rate *int `json:"rate,omitempty"`
	// Timeout of a request. Default: 2s.
	Timeout *metav1.Duration `json:"timeout,omitempty"`
	// Reuse sends requests over connections that stay, as clients with a pool do.
	// Default: false, a connection for each, so that each meets the endpoints of
	// its moment.
	Reuse bool `json:"reuse,omitempty"`
	// Versions of the module that may answer; any other is a wrong version.
	// Default: all.
	Versions []string `json:"versions,omitempty"`
	// Judge is the CEL expression over this stream that must be true at the end,
	// with its figures by name: sent, ok, lost, noEndpoint, refused, reset,
	// notFound, unavailable, timeout, wrongVersion, other. Default: lost == 0.
	// At least one request must have been sent in any case.
	Judge string `json:"judge,omitempty"`
}

// TrafficStop stops a stream and waits for the answers that are on their way.
type TrafficStop struct {
	// Name of the stream. Default: traffic.
	Name string `json:"name,omitempty"`
}

// Script runs a shell script on the machine that runs the scenario, with
// KUBECONFIG, NAMESPACE and the variables of Env.
type Script struct {
	// Content is the script, run by sh -eu -c.
	Content string `json:"content"`
	// Env are environment variables. Default: none.
	Env map[string]string `json:"env,omitempty"`
	// Until is a CEL expression over stdout, stderr and exitCode; the script runs
	// again until it is true. Default: it runs once and must exit with 0.
	Until string `json:"until,omitempty"`
	// Output is the name under which later steps find what it printed, as
	// outputs.NAME. Default: none.
	Output string `json:"output,omitempty"`
}

// Wait waits: exactly one field is set.
type Wait struct {
	// Rollout of a Deployment, DaemonSet or StatefulSet to be complete, as kubectl
	// rollout status.
	Rollout *Ref `json:"rollout,omitempty"`
	// Ready: all objects (Pods, Nodes) have the condition Ready.
	Ready *Ref `json:"ready,omitempty"`
	// Gone: there are no such objects.
	Gone *Ref `json:"gone,omitempty"`
	// Step in the background to end.
	Step string `json:"step,omitempty"`
}

// Assert checks objects or an expression until it is so: exactly one of Resource
// and CEL is set.
type Assert struct {
	// Resource is a part of an object. Every field in it must be the same in the
	// object of its apiVersion, kind and name or labels; elements of a list must be
	// there in this order. Without a name, some object of the labels must match.
	Resource Object `json:"resource,omitempty"`
	// CEL is a boolean expression over bases, traffic, and the objects of the run's
	// namespace: pods, deployments, replicasets, daemonsets, statefulsets, services,
	// endpointslices, events; and nodes, those of the run's bases.
	CEL string `json:"cel,omitempty"`
	// Absent: no object matches Resource. Default: false.
	Absent bool `json:"absent,omitempty"`
	// For is how long it must stay so. Default: 0s.
	For *metav1.Duration `json:"for,omitempty"`
}

// Sleep does nothing for a time.
type Sleep struct {
	// For is how long.
	For metav1.Duration `json:"for"`
	// Reason says why nothing else will do.
	Reason string `json:"reason"`
}
