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

// Scenario is a test: steps, such as rollouts and faults, and checks of what happens in the meantime.
//
// Every string in its spec can contain CEL expressions, ${{ … }}. A string that is one expression has the type of the
// expression. Expressions can use vars, matrix and run, and in steps also outputs.
type Scenario struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata has the name and the labels of the scenario.
	Metadata ScenarioMetadata `json:"metadata"`
	// Spec describes the scenario.
	Spec ScenarioSpec `json:"spec"`
}

// ScenarioMetadata has the name and the labels of a scenario.
type ScenarioMetadata struct {
	// Name is a DNS label that is unique in its directory.
	Name string `json:"name" need:"set the name of the scenario" check:"label"`
	// Labels are for the selection of scenarios with koupsandbox scenario run --selector. Default: none.
	Labels map[string]string `json:"labels,omitempty"`
}

// ScenarioSpec describes a scenario.
type ScenarioSpec struct {
	// Description states in one sentence what the scenario shows.
	Description string `json:"description" need:"state in one sentence what the scenario shows"`
	// Source names the description of the behavior, such as a document and its section. Default: none.
	Source string `json:"source,omitempty"`
	// Vars are values for expressions. A run can override them. An unused variable is an error. Default: none.
	Vars map[string]Any `json:"vars,omitempty" check:"identifier"`
	// Matrix has several values for each variable. Each combination of values is a separate run. Default: one run.
	Matrix map[string][]Any `json:"matrix,omitempty" check:"identifier"`
	// Bases are the sets of bases that exist when the steps start. Only Pods of the run are scheduled to them, and they
	// are removed after the run. Default: none.
	Bases []BaseSet `json:"bases,omitempty"`
	// Controller describes the module controller that the scenario needs. A scenario that sets it runs exclusively.
	// Default: the controller of the sandbox.
	Controller *ControllerNeeds `json:"controller,omitempty"`
	// Speed is the speed of the sandbox that the scenario needs. Times of faults and bases are divided by it; times of
	// steps are not. Default: any speed, and sleep.for and assert.for are also divided by the speed of the sandbox.
	Speed int `json:"speed,omitempty" jsonschema:"minimum=1,maximum=20"`
	// Exclusive prevents other scenarios from running at the same time. Default: true if Controller is set, or if a
	// step acts on the controllers, the broker, the API server or the connections between them; otherwise false.
	Exclusive *bool `json:"exclusive,omitempty"`
	// Timeout is the maximum time of the run, not including Finally.
	Timeout *metav1.Duration `json:"timeout,omitempty" jsonschema:"default=2m" check:"positive"`
	// StepTimeout is the default timeout of a step.
	StepTimeout *metav1.Duration `json:"stepTimeout,omitempty" jsonschema:"default=30s" check:"positive"`
	// Checks has the expected result of the built-in checks. Default: no violations.
	Checks Checks `json:"checks,omitzero"`
	// Always and Never are invariants during all steps.
	Always []Invariant `json:"always,omitempty"`
	Never  []Invariant `json:"never,omitempty"`
	// Steps are executed in order. The first failed step ends the run.
	Steps []Step `json:"steps" need:"a scenario has at least one step"`
	// Finally has steps that are executed after Steps, even if a step has failed.
	Finally []Step `json:"finally,omitempty"`
}

// BaseSet is a set of equal bases. They are named SET-1, SET-2 and so on.
type BaseSet struct {
	// Name is the name of the set, a DNS label.
	Name string `json:"name,omitempty" jsonschema:"default=base" check:"set"`
	// Count is the number of bases. With 0, the set is only defined, and steps can add bases to it.
	Count *int `json:"count,omitempty" jsonschema:"minimum=0,maximum=20000,default=1"`
	// BaseName is the name that each base reports. Pods can select bases by it. Default: Name.
	BaseName string `json:"baseName,omitempty"`
	// Version is the version that each base reports.
	Version string `json:"version,omitempty" jsonschema:"default=1.0.0" check:"nodeLabel"`
	// Env is the environment. The sandbox's controller ignores bases of other environments. Default: the environment of
	// the sandbox.
	Env string `json:"env,omitempty" check:"label"`
	// Tunnel is the tunnel between the bases and the controller: mqtt or http.
	Tunnel Tunnel `json:"tunnel,omitempty" jsonschema:"enum=mqtt,enum=http,default=mqtt"`
	// Runtime selects where the bases run: process or cluster. Default: the runtime of the sandbox.
	Runtime BaseRuntime `json:"runtime,omitempty" jsonschema:"enum=process,enum=cluster"`
	// Activation selects the active versions of a module: the newest (newModule), the first (default) or all (multi).
	Activation Activation `json:"activation,omitempty" jsonschema:"enum=newModule,enum=default,enum=multi,default=newModule"`
	// WebPort is the port on which a base serves its modules. Default: the port of the sandbox.
	WebPort int `json:"webPort,omitempty" jsonschema:"minimum=1,maximum=65535"`
	// Fetch selects the jars that a base opens: never, available or always. Default: the value of the sandbox.
	Fetch Fetch `json:"fetch,omitempty" jsonschema:"enum=never,enum=available,enum=always"`
	// WebModules are the modules that are web applications, each with name, version and contextPath. A base
	// refuses a version whose context path another installed version has. Default: none.
	WebModules []WebModule `json:"webModules,omitempty"`
	// InstallTime and UninstallTime are the durations of the start and the stop of a module, PullTime of its download.
	InstallTime   *metav1.Duration `json:"installTime,omitempty" jsonschema:"default=0s" check:"notNegative"`
	UninstallTime *metav1.Duration `json:"uninstallTime,omitempty" jsonschema:"default=0s" check:"notNegative"`
	PullTime      *metav1.Duration `json:"pullTime,omitempty" jsonschema:"default=0s" check:"notNegative"`
	// RequestTime is the time in which a module processes a request.
	RequestTime *metav1.Duration `json:"requestTime,omitempty" jsonschema:"default=0s" check:"notNegative"`
	// StartupTime is the time in which a base starts.
	StartupTime *metav1.Duration `json:"startupTime,omitempty" jsonschema:"default=0s" check:"notNegative"`
	// Metaspace is the size of the metaspace, and PerModule the share of one module, as Kubernetes quantities such as
	// 256Mi. Default: the values of package fakebase.
	Metaspace string `json:"metaspace,omitempty" check:"quantity"`
	PerModule string `json:"perModule,omitempty" check:"quantity"`
	// Faithful reproduces the defects of a real base. Default: false.
	Faithful bool `json:"faithful,omitempty"`
	// Modules are the URLs of jars that are installed when the base starts. Default: none.
	Modules []string `json:"modules,omitempty" check:"jar"`
	// Faults are faults of the bases that are in effect when they start. Default: none.
	Faults []Fault `json:"faults,omitempty"`
}

// Tunnel is the connection between a base and the controller.
type Tunnel string

// The tunnels.
const (
	TunnelMQTT Tunnel = "mqtt"
	TunnelHTTP Tunnel = "http"
)

// ControllerNeeds describes the module controller that a scenario needs.
type ControllerNeeds struct {
	// Replicas is the number of controller processes that share the bases.
	Replicas *int `json:"replicas,omitempty" jsonschema:"minimum=1,maximum=9,default=1"`
	// Env has environment variables, in addition to the variables of the sandbox. Default: none.
	Env map[string]string `json:"env,omitempty" check:"variable"`
	// APIView enables the API proxy between the controllers and the API server, which faults of the target api and
	// wait.quiet need. Default: true if a step needs it.
	APIView bool `json:"apiView,omitempty"`
}

// Expectation is the expected result of a built-in check.
type Expectation string

// The expectations.
const (
	// Holds means that a violation fails the run.
	Holds Expectation = "holds"
	// Violated means that the run fails unless the check finds a violation. Scenarios use it to show that the check
	// works.
	Violated Expectation = "violated"
	// Ignored means that violations are reported, and do not fail the run.
	Ignored Expectation = "ignored"
)

// Checks has the expected results of the built-in checks.
type Checks struct {
	// ActiveVersion checks that a base with an active version of a module always keeps an active version of it while a
	// Pod of the module is on the base.
	ActiveVersion Expectation `json:"activeVersion,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored,default=holds"`
	// Truth checks that the module of a Ready Pod, or of a ready endpoint, is active on its base in the version of the
	// Pod. It ignores endpoints of Services with publishNotReadyAddresses.
	Truth Expectation `json:"truth,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored,default=holds"`
	// Order checks that on each base the old Pod becomes Not Ready before the new Pod becomes Ready, unless the old Pod
	// is the only Ready Pod of its Service.
	Order Expectation `json:"order,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored,default=holds"`
	// InstalledOnce checks that a base does not install a version again without an uninstall, a failure or a restart in
	// between.
	InstalledOnce Expectation `json:"installedOnce,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored,default=holds"`
	// NothingLeft checks that bases have only modules of existing Pods when the run ends.
	NothingLeft Expectation `json:"nothingLeft,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored,default=holds"`
	// MaxPodWrites is the maximum number of writes of all clients to one Pod, from its creation to its removal.
	// Default: no limit; the number is reported.
	MaxPodWrites *int `json:"maxPodWrites,omitempty" jsonschema:"minimum=1,maximum=1000000"`
	// MaxCommands is the maximum number of equal commands to one base for one version of a module. Default: no limit;
	// the number is reported.
	MaxCommands *int `json:"maxCommands,omitempty" jsonschema:"minimum=1,maximum=1000000"`
}

// Invariant is a condition that is evaluated after every watch event and every change of a base, during the steps that
// it applies to.
type Invariant struct {
	// Name is the name of the invariant in messages.
	Name string `json:"name" need:"set a name for messages"`
	// CEL is the condition, a boolean expression as in assert.cel.
	CEL string `json:"cel" need:"set the condition, in CEL" check:"cel"`
}

// Step has one action: exactly one of the fields of Action is set.
type Step struct {
	// Name is the name of the step in messages. It is unique in its list. Default: a name that describes the action.
	Name string `json:"name,omitempty"`
	// Timeout is the maximum time of the step. Default: stepTimeout of the spec.
	Timeout *metav1.Duration `json:"timeout,omitempty" check:"positive"`
	// If is a CEL expression. If it is false, the step is skipped. Default: true.
	If string `json:"if,omitempty" check:"cel"`
	// Repeat is the number of times that the step is executed, in sequence.
	Repeat *int `json:"repeat,omitempty" jsonschema:"minimum=1,maximum=1000,default=1"`
	// Background starts the next step without waiting for this one. The run waits for the step before Finally. Default:
	// false.
	Background bool `json:"background,omitempty"`
	// Always and Never are invariants during this step.
	Always []Invariant `json:"always,omitempty"`
	Never  []Invariant `json:"never,omitempty"`

	// Action is the action of the step.
	Action `json:",inline"`
}

// Action is the action of a step: exactly one field is set.
type Action struct {
	// Apply creates or updates objects, from a file or a resource, like kubectl apply --server-side. Module
	// Pods are bound to the bases of the run. Refused is a part of the expected error of the API server.
	Apply *Apply `json:"apply,omitempty" jsonschema:"oneof_required=apply"`
	// Patch changes an object, like kubectl patch.
	Patch *Patch `json:"patch,omitempty" jsonschema:"oneof_required=patch"`
	// Delete deletes objects and waits until they no longer exist, unless noWait is set. It fails if no object exists,
	// unless ignoreNotFound is set.
	Delete *Delete `json:"delete,omitempty" jsonschema:"oneof_required=delete"`
	// Scale sets the replicas of a workload.
	Scale *Scale `json:"scale,omitempty" jsonschema:"oneof_required=scale"`
	// Release releases a version of a module. It sets the image and BIZ_VERSION of the container, or the label or the
	// annotation that BIZ_VERSION refers to. It fails if the module already has this version.
	Release *Release `json:"release,omitempty" jsonschema:"oneof_required=release"`
	// Rollback returns a workload to an earlier revision, like kubectl rollout undo.
	Rollback *Rollback `json:"rollback,omitempty" jsonschema:"oneof_required=rollback"`
	// Base adds, removes, restarts or upgrades bases, or cordons, drains or uncordons their Nodes. An upgrade replaces
	// the bases of a set by bases of another version, in batches.
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
	// Script runs a shell script with the variables KUBECONFIG, NAMESPACE, GROUP and those in env.
	Script *Script `json:"script,omitempty" jsonschema:"oneof_required=script"`
	// Wait waits until a rollout is complete, objects are Ready or no longer exist, the controllers write nothing
	// (quiet), or a background step has ended.
	Wait *Wait `json:"wait,omitempty" jsonschema:"oneof_required=wait"`
	// Assert waits until an object matches (resource), or until a CEL expression is true (cel). With for, the condition
	// must hold for that time.
	Assert *Assert `json:"assert,omitempty" jsonschema:"oneof_required=assert"`
	// Sleep waits for a time, or until a CEL expression is true.
	Sleep *Sleep `json:"sleep,omitempty" jsonschema:"oneof_required=sleep"`
	// Steps are executed in order, Parallel concurrently. They group steps for Repeat, If and invariants.
	Steps    []Step `json:"steps,omitempty" jsonschema:"oneof_required=steps"`
	Parallel []Step `json:"parallel,omitempty" jsonschema:"oneof_required=parallel"`
}
