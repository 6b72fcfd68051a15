package v1alpha1

import (
	_ "embed" // the schema

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// ScenarioKind is the kind of a scenario file.
const ScenarioKind = "Scenario"

// ScenarioSchema is the JSON schema of scenario files.
//
//go:embed scenario.schema.json
var ScenarioSchema []byte

// Scenario is a rollout with its disturbance, and what must hold meanwhile.
//
// Every string in its spec may contain expressions, ${{ … }}, in CEL. When a whole string is one
// expression the value keeps the expression's type. They may use vars, matrix, run and, within
// steps, outputs.
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
	Name string `json:"name" need:"give it a name" check:"label"`
	// Labels select scenarios: koupsandbox scenario run --selector. Default: none.
	Labels map[string]string `json:"labels,omitempty"`
}

// ScenarioSpec says what happens in a scenario.
type ScenarioSpec struct {
	// Description is a sentence: what the scenario shows.
	Description string `json:"description" need:"say in a sentence what the scenario shows"`
	// Source names where the behaviour is described, such as a document and its section. Default:
	// none.
	Source string `json:"source,omitempty"`
	// Vars are values for expressions; a run may override them. One that nothing uses is a failure.
	// Default: none.
	Vars map[string]Any `json:"vars,omitempty" check:"identifier"`
	// Matrix has values for expressions too: each combination of them is a run of its own. Default:
	// one run.
	Matrix map[string][]Any `json:"matrix,omitempty" check:"identifier"`
	// Bases are the sets of bases that the scenario starts with. They are its own: no other Pods
	// are scheduled there, and they go with it. Default: none.
	Bases []BaseSet `json:"bases,omitempty"`
	// Controller says what module controller the scenario needs. Default: the one that the sandbox
	// has. A scenario that needs another one runs alone.
	Controller *ControllerNeeds `json:"controller,omitempty"`
	// Speed is that of the sandbox that the scenario needs. Times in its steps are real ones, those of
	// faults and bases are divided. Default: any sandbox will do; sleep.for and assert.for are divided
	// by its speed too.
	Speed int `json:"speed,omitempty" jsonschema:"minimum=1,maximum=20"`
	// Exclusive scenarios run alone. Default: true when a step acts on the controller, the broker,
	// the API server or the controllers' connections to them, or Controller is set; else false.
	Exclusive *bool `json:"exclusive,omitempty"`
	// Timeout bounds the whole run without Finally.
	Timeout *metav1.Duration `json:"timeout,omitempty" jsonschema:"default=2m" check:"positive"`
	// StepTimeout is the timeout of steps without their own.
	StepTimeout *metav1.Duration `json:"stepTimeout,omitempty" jsonschema:"default=30s" check:"positive"`
	// Checks says what the built-in checks must find. Default: no violation.
	Checks Checks `json:"checks,omitzero"`
	// Always and Never are invariants for all steps.
	Always []Invariant `json:"always,omitempty"`
	Never  []Invariant `json:"never,omitempty"`
	// Steps are done one after the other; the first that fails ends the run.
	Steps []Step `json:"steps" need:"a scenario has at least one step"`
	// Finally are steps done afterwards in any case, all of them.
	Finally []Step `json:"finally,omitempty"`
}

// BaseSet is a set of equal bases. They are named SET-1, SET-2 and so on.
type BaseSet struct {
	// Name of the set, a DNS label.
	Name string `json:"name,omitempty" jsonschema:"default=base" check:"set"`
	// Count is how many there are; 0 in a definition for later.
	Count *int `json:"count,omitempty" jsonschema:"minimum=0,maximum=20000,default=1"`
	// BaseName is the name that each reports; Pods may select their base by it. Default: Name.
	BaseName string `json:"baseName,omitempty"`
	// Version is the version that each reports.
	Version string `json:"version,omitempty" jsonschema:"default=1.0.0" check:"nodeLabel"`
	// Env is the environment. Default: that of the sandbox. Bases of another one are not seen by
	// the sandbox's controller.
	Env string `json:"env,omitempty" check:"label"`
	// Tunnel is mqtt or http.
	Tunnel Tunnel `json:"tunnel,omitempty" jsonschema:"enum=mqtt,enum=http,default=mqtt"`
	// Runtime is process or cluster. Default: that of the sandbox.
	Runtime BaseRuntime `json:"runtime,omitempty" jsonschema:"enum=process,enum=cluster"`
	// Activation says what a base does with a second version of a module.
	Activation Activation `json:"activation,omitempty" jsonschema:"enum=newModule,enum=default,enum=multi,default=newModule"`
	// WebPort is the port at which a base serves its modules. Default: the port of the sandbox.
	WebPort int `json:"webPort,omitempty" jsonschema:"minimum=1,maximum=65535"`
	// Fetch selects the jars that a base opens: never, available or always. Default: the value of the sandbox.
	Fetch Fetch `json:"fetch,omitempty" jsonschema:"enum=never,enum=available,enum=always"`
	// WebModules are the modules that are web applications, each with name, version and contextPath. A base
	// refuses a version whose context path another installed version has. Default: none.
	WebModules []WebModule `json:"webModules,omitempty"`
	// InstallTime and UninstallTime are how long a module takes to start and to stop, PullTime its
	// download.
	InstallTime   *metav1.Duration `json:"installTime,omitempty" jsonschema:"default=0s" check:"notNegative"`
	UninstallTime *metav1.Duration `json:"uninstallTime,omitempty" jsonschema:"default=0s" check:"notNegative"`
	PullTime      *metav1.Duration `json:"pullTime,omitempty" jsonschema:"default=0s" check:"notNegative"`
	// RequestTime is how long a module works on a request.
	RequestTime *metav1.Duration `json:"requestTime,omitempty" jsonschema:"default=0s" check:"notNegative"`
	// StartupTime is how long a base takes to start.
	StartupTime *metav1.Duration `json:"startupTime,omitempty" jsonschema:"default=0s" check:"notNegative"`
	// Metaspace is the size of the metaspace and PerModule what a module takes of it, as Kubernetes
	// quantities such as 256Mi. Default: those of the simulated base.
	Metaspace string `json:"metaspace,omitempty" check:"quantity"`
	PerModule string `json:"perModule,omitempty" check:"quantity"`
	// Faithful keeps the flaws of a real base. Default: false.
	Faithful bool `json:"faithful,omitempty"`
	// Modules are URLs of jars that are in the base from its start. Default: none.
	Modules []string `json:"modules,omitempty" check:"jar"`
	// Faults are in effect from the start. Default: none.
	Faults []Fault `json:"faults,omitempty"`
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
	// Replicas is how many of its processes share the bases.
	Replicas *int `json:"replicas,omitempty" jsonschema:"minimum=1,maximum=9,default=1"`
	// Env are environment variables, in addition to those of the sandbox. Default: none.
	Env map[string]string `json:"env,omitempty" check:"variable"`
	// APIView puts a proxy between the controllers and the API server, for faults of the target api and for
	// wait.quiet. Default: true when a step needs it.
	APIView bool `json:"apiView,omitempty"`
}

// Expectation says what a built-in check must find.
type Expectation string

// The expectations.
const (
	// Holds: a violation fails the run.
	Holds Expectation = "holds"
	// Violated: the run fails unless the check finds a violation. It is for scenarios that show
	// that a check would notice.
	Violated Expectation = "violated"
	// Ignored: the check reports and never fails the run.
	Ignored Expectation = "ignored"
)

// Checks says what the built-in checks must find. Each defaults to holds.
type Checks struct {
	// ActiveVersion: no base that served a module is ever without an active version of it while a
	// Pod that wants the module there exists.
	ActiveVersion Expectation `json:"activeVersion,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored,default=holds"`
	// Truth: a Pod that is Ready, or an endpoint that is ready, has an active module of its version
	// on its base. Endpoints that publishNotReadyAddresses of a Service makes ready are ignored.
	Truth Expectation `json:"truth,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored,default=holds"`
	// Order: on each base the old Pod turns Not Ready before the new one turns Ready, unless it is
	// the only ready one of its Service.
	Order Expectation `json:"order,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored,default=holds"`
	// InstalledOnce: no base installs the same version twice without an uninstall, a failure or a
	// restart in between.
	InstalledOnce Expectation `json:"installedOnce,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored,default=holds"`
	// NothingLeft: at the end no base has a module that no Pod of the run wants.
	NothingLeft Expectation `json:"nothingLeft,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored,default=holds"`
	// MaxPodWrites bounds how often one Pod may be written, from creation to removal, by anybody.
	// Default: it is reported only.
	MaxPodWrites *int `json:"maxPodWrites,omitempty" jsonschema:"minimum=1,maximum=1000000"`
	// MaxCommands bounds how often one base may be given the same command for the same version of a
	// module. Default: it is reported only.
	MaxCommands *int `json:"maxCommands,omitempty" jsonschema:"minimum=1,maximum=1000000"`
}

// Invariant is a condition that is checked at every event of a watch and every change of a base
// while its scope lasts.
type Invariant struct {
	// Name for messages.
	Name string `json:"name" need:"messages name the invariant"`
	// CEL is the condition, a boolean expression as in Assert.
	CEL string `json:"cel" need:"say what must hold, in CEL" check:"cel"`
}

// Step is one thing to do: exactly one of its actions is set.
type Step struct {
	// Name for messages; unique within its list. Default: the action's.
	Name string `json:"name,omitempty"`
	// Timeout of the step. Default: that of the spec.
	Timeout *metav1.Duration `json:"timeout,omitempty" check:"positive"`
	// If is a CEL expression; the step is skipped when it is false. Default: true.
	If string `json:"if,omitempty" check:"cel"`
	// Repeat does the step that often, one after the other.
	Repeat *int `json:"repeat,omitempty" jsonschema:"minimum=1,maximum=1000,default=1"`
	// Background lets the next step begin at once; the run waits for it before Finally. Default:
	// false.
	Background bool `json:"background,omitempty"`
	// Always and Never are invariants for this step.
	Always []Invariant `json:"always,omitempty"`
	Never  []Invariant `json:"never,omitempty"`

	// Action is what is done.
	Action `json:",inline"`
}

// Action is what a step does: exactly one field is set.
type Action struct {
	// Apply creates or updates objects, from a file or a resource, as kubectl apply --server-side does. Module
	// Pods are bound to the bases of the run. Refused is a part of the error with which the API must refuse
	// them.
	Apply *Apply `json:"apply,omitempty" jsonschema:"oneof_required=apply"`
	// Patch changes an object, as kubectl patch does.
	Patch *Patch `json:"patch,omitempty" jsonschema:"oneof_required=patch"`
	// Delete deletes objects and waits until they are gone, unless noWait is set. It fails if there are none,
	// unless ignoreNotFound is set.
	Delete *Delete `json:"delete,omitempty" jsonschema:"oneof_required=delete"`
	// Scale sets the replicas of a workload.
	Scale *Scale `json:"scale,omitempty" jsonschema:"oneof_required=scale"`
	// Release releases a version of a module: it sets the image and BIZ_VERSION of the container, or the label
	// or annotation that BIZ_VERSION refers to. It fails if the module has that version already.
	Release *Release `json:"release,omitempty" jsonschema:"oneof_required=release"`
	// Rollback takes a workload back to an earlier revision, as kubectl rollout undo does.
	Rollback *Rollback `json:"rollback,omitempty" jsonschema:"oneof_required=rollback"`
	// Base adds, removes, restarts or upgrades bases, or cordons, drains or uncordons their Nodes. An upgrade
	// replaces a set by bases of another version, in batches.
	Base *BaseAction `json:"base,omitempty" jsonschema:"oneof_required=base"`
	// Fault sets, clears or awaits faults of bases, of the controllers' connections to the Kubernetes API, and
	// of connections to the broker. A fault that was never triggered fails the run, unless it has mayNotFire.
	Fault *FaultAction `json:"fault,omitempty" jsonschema:"oneof_required=fault"`
	// Controller, Broker, APIServer, ControllerManager and Scheduler kill, pause, resume, restart or start a
	// component.
	Controller *ComponentAction `json:"controller,omitempty" jsonschema:"oneof_required=controller"`
	Broker     *ComponentAction `json:"broker,omitempty" jsonschema:"oneof_required=broker"`
	APIServer  *ComponentAction `json:"apiserver,omitempty" jsonschema:"oneof_required=apiserver"`

	ControllerManager *ComponentAction `json:"controllerManager,omitempty" jsonschema:"oneof_required=controllerManager"`
	Scheduler         *ComponentAction `json:"scheduler,omitempty" jsonschema:"oneof_required=scheduler"`
	// Traffic starts or stops a stream of requests to a module. Its Service must exist.
	Traffic *TrafficAction `json:"traffic,omitempty" jsonschema:"oneof_required=traffic"`
	// Script runs a shell script with KUBECONFIG, NAMESPACE, GROUP and its env.
	Script *Script `json:"script,omitempty" jsonschema:"oneof_required=script"`
	// Wait waits until a rollout is complete, objects are ready or gone, controllers write nothing (quiet), or
	// a step in the background has ended.
	Wait *Wait `json:"wait,omitempty" jsonschema:"oneof_required=wait"`
	// Assert waits until a part of a resource or a CEL expression is as given. With for, it must stay so for
	// that time.
	Assert *Assert `json:"assert,omitempty" jsonschema:"oneof_required=assert"`
	// Sleep does nothing for a time, or until a CEL expression is true.
	Sleep *Sleep `json:"sleep,omitempty" jsonschema:"oneof_required=sleep"`
	// Steps are executed in order, Parallel concurrently. They group steps for Repeat, If and invariants.
	Steps    []Step `json:"steps,omitempty" jsonschema:"oneof_required=steps"`
	Parallel []Step `json:"parallel,omitempty" jsonschema:"oneof_required=parallel"`
}
