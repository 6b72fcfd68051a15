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

// Scenario describes a test: it runs steps, such as rollouts and faults, and checks what happens in the meantime.
//
// Every string in its spec can contain CEL expressions, ${{ … }}. A string that consists of one expression has the
// type of the expression. Expressions can use vars, matrix and run. In steps, they can also use outputs.
type Scenario struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata holds the name and the labels of the scenario.
	Metadata ScenarioMetadata `json:"metadata"`
	// Spec describes the scenario.
	Spec ScenarioSpec `json:"spec"`
}

// ScenarioMetadata holds the name and the labels of a scenario.
type ScenarioMetadata struct {
	// Name is the name of the scenario. It is a DNS label that is unique in the directory of the scenario.
	Name string `json:"name" need:"set the name of the scenario" check:"label"`
	// Labels are the labels by which koupsandbox scenario run --selector selects scenarios. Default: none.
	Labels map[string]string `json:"labels,omitempty"`
}

// ScenarioSpec describes a scenario.
type ScenarioSpec struct {
	// Description states in one sentence what the scenario demonstrates.
	Description string `json:"description" need:"state in one sentence what the scenario shows"`
	// Source names the document that describes the tested behavior, such as a document and its section. Default:
	// none.
	Source string `json:"source,omitempty"`
	// Vars holds variables for expressions. A run can override their values. An unused variable is an error. Default:
	// none.
	Vars map[string]Any `json:"vars,omitempty" check:"identifier"`
	// Matrix lists several values for each variable. The scenario runs once for each combination of values. Default:
	// one run.
	Matrix map[string][]Any `json:"matrix,omitempty" check:"identifier"`
	// Bases lists the sets of bases that exist when the steps start. Only Pods of the run are scheduled to these
	// bases, and the bases are removed after the run. Default: none.
	Bases []BaseSet `json:"bases,omitempty"`
	// Controller describes the module controller that the scenario needs. A scenario that sets this field runs
	// exclusively. Default: the controller of the sandbox.
	Controller *ControllerNeeds `json:"controller,omitempty"`
	// Speed is the speed of the sandbox that the scenario needs. Times of faults and bases are divided by it; times
	// of steps are not. Default: any speed is accepted, and sleep.for and assert.for are also divided by the speed of
	// the sandbox.
	Speed int `json:"speed,omitempty" jsonschema:"minimum=1,maximum=20"`
	// Exclusive prevents other scenarios from running at the same time. Default: true if Controller is set, or if a
	// step acts on the controllers, the broker, the API server or the connections between them; otherwise false.
	Exclusive *bool `json:"exclusive,omitempty"`
	// Timeout is the maximum duration of the run, without Finally.
	Timeout *metav1.Duration `json:"timeout,omitempty" jsonschema:"default=2m" check:"positive"`
	// StepTimeout is the default timeout of a step.
	StepTimeout *metav1.Duration `json:"stepTimeout,omitempty" jsonschema:"default=30s" check:"positive"`
	// Checks sets the expected results of the built-in checks. Default: no violations are expected.
	Checks Checks `json:"checks,omitzero"`
	// Always and Never are invariants that are checked during all steps.
	Always []Invariant `json:"always,omitempty"`
	Never  []Invariant `json:"never,omitempty"`
	// Steps lists the steps, which are executed in order. The first failed step ends the run.
	Steps []Step `json:"steps" need:"a scenario has at least one step"`
	// Finally lists steps that are executed after Steps, even if a step has failed.
	Finally []Step `json:"finally,omitempty"`
}

// BaseSet describes a set of bases with equal settings. The bases are named SET-1, SET-2 and so on.
type BaseSet struct {
	// Name is the name of the set, a DNS label.
	Name string `json:"name,omitempty" jsonschema:"default=base" check:"set"`
	// Count is the number of bases. With 0, bases can be added later. The only set of a sandbox has 3 bases by
	// default.
	Count *int `json:"count,omitempty" jsonschema:"minimum=0,maximum=20000,default=1"`
	// BaseName is the name that each base reports. Pods can select bases by this name. Default: the name of the set.
	BaseName string `json:"baseName,omitempty"`
	// Version is the version that each base reports.
	Version string `json:"version,omitempty" jsonschema:"default=1.0.0" check:"nodeLabel"`
	// ClusterName is the cluster name that each base reports. Default: the name of the sandbox; in a scenario, the
	// namespace of the run.
	ClusterName string `json:"clusterName,omitempty"`
	// Zone is the zone that each base reports. The controller sets it as the label topology.kubernetes.io/zone of the
	// Node. Default: no zone.
	Zone string `json:"zone,omitempty" check:"nodeLabel"`
	// Labels lists additional labels that each base reports for its Node. Labels of Kubernetes and Koupleless are not
	// allowed, except topology.kubernetes.io/region. Default: none.
	Labels map[string]string `json:"labels,omitempty"`
	// Generation is the generation of the Koupleless runtime: A (1.3.1), B (1.3.2), C (1.3.3 and later) or D (1.4.3
	// and later).
	Generation Generation `json:"generation,omitempty" jsonschema:"enum=A,enum=B,enum=C,enum=D,default=C"`
	// Env is the environment of the bases. The sandbox's controller ignores bases of other environments. Only
	// scenarios can set this field. Default: the environment of the sandbox.
	Env string `json:"env,omitempty" check:"label"`
	// Tunnel is the type of the tunnel between the bases and the controller.
	Tunnel Tunnel `json:"tunnel,omitempty" jsonschema:"enum=mqtt,enum=http,default=mqtt"`
	// Runtime selects where the bases run. Default: the runtime of the sandbox.
	Runtime BaseRuntime `json:"runtime,omitempty" jsonschema:"enum=process,enum=cluster"`
	// Activation selects which installed versions of a module are active: the newest (`newModule`), the first
	// (`default`) or all (`multi`).
	Activation Activation `json:"activation,omitempty" jsonschema:"enum=newModule,enum=default,enum=multi,default=newModule"`
	// WebPort is the port on which a base serves its modules. Services use this port as targetPort.
	WebPort int `json:"webPort,omitempty" jsonschema:"minimum=1,maximum=65535,default=8080"`
	// Unreachable gives each base an address at which clients cannot reach its modules. Commands still reach the base
	// over MQTT. Default: false.
	Unreachable bool `json:"unreachable,omitempty"`
	// Fetch selects which module jars a base opens. With `available`, a base opens file:// and http:// URLs at which a
	// jar exists. With `always`, a base opens every URL, and the installation fails if there is no jar.
	Fetch Fetch `json:"fetch,omitempty" jsonschema:"enum=never,enum=available,enum=always,default=never"`
	// Web makes every module that `webModules` does not list a web application, with the module name as context path.
	// Default: false.
	Web bool `json:"web,omitempty"`
	// WebModules lists modules that are web applications, with `name`, `version` (default: all) and `contextPath`
	// (default: the name). A base rejects a version if another installed version uses its context path. Default: none.
	WebModules []WebModule `json:"webModules,omitempty"`
	// InstallTime is the time that a module takes to start.
	InstallTime *metav1.Duration `json:"installTime,omitempty" jsonschema:"default=0s" check:"notNegative"`
	// UninstallTime is the time that a module takes to stop.
	UninstallTime *metav1.Duration `json:"uninstallTime,omitempty" jsonschema:"default=0s" check:"notNegative"`
	// PullTime is the time that a base takes to download a module.
	PullTime *metav1.Duration `json:"pullTime,omitempty" jsonschema:"default=0s" check:"notNegative"`
	// RequestTime is the time that a module takes to process a request.
	RequestTime *metav1.Duration `json:"requestTime,omitempty" jsonschema:"default=0s" check:"notNegative"`
	// StartupTime is the time that a base takes to start.
	StartupTime *metav1.Duration `json:"startupTime,omitempty" jsonschema:"default=0s" check:"notNegative"`
	// Metaspace describes the metaspace of each base.
	Metaspace Metaspace `json:"metaspace,omitzero"`
	// Health configures the health endpoints of each base.
	Health Health `json:"health,omitzero"`
	// Faithful makes the bases reproduce the defects of a real base. Default: false.
	Faithful bool `json:"faithful,omitempty"`
	// Modules lists the URLs of the module jars that are installed when the base starts. Default: none.
	Modules []string `json:"modules,omitempty" check:"jar"`
	// Faults lists the faults that are in effect when the bases start. Default: none.
	Faults []Fault `json:"faults,omitempty"`
}

// Metaspace describes the metaspace of a base. Sizes are Kubernetes quantities such as 256Mi.
type Metaspace struct {
	// Max is the maximum size of the metaspace (JVM option `-XX:MaxMetaspaceSize`).
	Max string `json:"max,omitempty" jsonschema:"default=256Mi" check:"quantity"`
	// Used is the amount of metaspace that the base uses without modules.
	Used string `json:"used,omitempty" jsonschema:"default=53Mi" check:"quantity"`
	// PerModule is the amount of metaspace that each module uses.
	PerModule string `json:"perModule,omitempty" jsonschema:"default=3Mi" check:"quantity"`
	// Leak is the percentage of a module's metaspace that stays in use after the module is uninstalled. Default: 0.
	Leak int `json:"leak,omitempty" jsonschema:"minimum=0,maximum=100"`
	// Threshold is the metaspace usage, as a percentage of Metaspace.Max, above which the base refuses to install
	// modules. Default: no threshold; the installation fails when the metaspace is exhausted.
	Threshold int `json:"threshold,omitempty" jsonschema:"minimum=1,maximum=100"`
}

// Health configures the Spring Boot health endpoints of a base.
type Health struct {
	// WithAllBizReadiness makes the health and readiness of the base depend on modules that commands install (runtime
	// property `koupleless.healthcheck.base.readiness.withAllBizReadiness`). Default: false.
	WithAllBizReadiness bool `json:"withAllBizReadiness,omitempty"`
	// SilenceBeforeUninstall is the time that the base waits before it uninstalls a module (runtime property
	// `silenceSecondsBeforeUninstall`).
	SilenceBeforeUninstall *metav1.Duration `json:"silenceBeforeUninstall,omitempty" jsonschema:"default=0s" check:"notNegative"`
	// Expose lists the exposed endpoints: `health` and `info`. Default: both endpoints.
	Expose []string `json:"expose,omitempty" check:"endpoint"`
	// Show selects the visible parts of /actuator/health.
	Show HealthDetail `json:"show,omitempty" jsonschema:"enum=status,enum=components,enum=details,default=details"`
}

// HealthDetail selects the visible parts of the response of the health endpoint.
type HealthDetail string

// The values of HealthDetail.
const (
	ShowStatus     HealthDetail = "status"
	ShowComponents HealthDetail = "components"
	ShowDetails    HealthDetail = "details"
)

// Generation is the generation of the Koupleless runtime of a base (protocol 1).
type Generation string

// Tunnel is the type of the connection between a base and the controller.
type Tunnel string

// The tunnel types.
const (
	TunnelMQTT Tunnel = "mqtt"
	TunnelHTTP Tunnel = "http"
)

// ControllerNeeds describes the module controller that a scenario needs.
type ControllerNeeds struct {
	// Replicas is the number of controller processes that share the bases.
	Replicas *int `json:"replicas,omitempty" jsonschema:"minimum=1,maximum=9,default=1"`
	// Env lists environment variables to set in addition to the variables of the sandbox. Default: none.
	Env map[string]string `json:"env,omitempty" check:"variable"`
	// APIView enables the API proxy between the controllers and the API server. Faults of the target api and
	// wait.quiet require the proxy. Default: true if a step needs it.
	APIView bool `json:"apiView,omitempty"`
}

// Expectation is the expected result of a built-in check.
type Expectation string

// The expected results of a check.
const (
	// Holds means that a violation fails the run.
	Holds Expectation = "holds"
	// Violated means that the run fails unless the check finds a violation. Scenarios use it to show that the check
	// works.
	Violated Expectation = "violated"
	// Ignored means that violations are reported but do not fail the run.
	Ignored Expectation = "ignored"
)

// Checks sets the expected results of the built-in checks.
type Checks struct {
	// ActiveVersion checks that a base never loses its last active version of a module while a Pod of the module is
	// on the base.
	ActiveVersion Expectation `json:"activeVersion,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored,default=holds"`
	// Truth checks that Pod readiness matches the base: the module of each Ready Pod, and of each ready endpoint, is
	// active on the base in the version of the Pod. It ignores endpoints of Services with publishNotReadyAddresses.
	Truth Expectation `json:"truth,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored,default=holds"`
	// Order checks that, on each base, the old Pod becomes Not Ready before the new Pod becomes Ready. It ignores an
	// old Pod that is the only Ready Pod of its module.
	Order Expectation `json:"order,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored,default=holds"`
	// InstalledOnce checks that a base does not install the same version twice without an uninstall, a failure or a
	// restart in between.
	InstalledOnce Expectation `json:"installedOnce,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored,default=holds"`
	// NothingLeft checks that the bases contain only modules of existing Pods when the run ends.
	NothingLeft Expectation `json:"nothingLeft,omitempty" jsonschema:"enum=holds,enum=violated,enum=ignored,default=holds"`
	// MaxPodWrites is the maximum number of writes to one Pod by all clients, from its creation to its removal.
	// Default: no limit; the number is reported.
	MaxPodWrites *int `json:"maxPodWrites,omitempty" jsonschema:"minimum=1,maximum=1000000"`
	// MaxCommands is the maximum number of times that the same command is sent to one base for one version of a
	// module. Default: no limit; the number is reported.
	MaxCommands *int `json:"maxCommands,omitempty" jsonschema:"minimum=1,maximum=1000000"`
}

// Invariant is a condition that is evaluated after every watch event and every change of a base, while the steps to
// which the invariant applies are executed.
type Invariant struct {
	// Name is the name of the invariant that is shown in messages.
	Name string `json:"name" need:"set a name for messages"`
	// CEL is the condition. It is a boolean expression, as in assert.cel.
	CEL string `json:"cel" need:"set the condition, in CEL" check:"cel"`
}

// Step describes a step. It has one action: exactly one of the fields of Action is set.
type Step struct {
	// Name is the name of the step that is shown in messages. It is unique in its list of steps. Default: a name that
	// describes the action.
	Name string `json:"name,omitempty"`
	// Timeout is the maximum duration of the step. Default: stepTimeout of the spec.
	Timeout *metav1.Duration `json:"timeout,omitempty" check:"positive"`
	// If is a CEL expression. The step is skipped if the expression is false. Default: true.
	If string `json:"if,omitempty" check:"cel"`
	// Repeat is the number of times that the step is executed, in sequence.
	Repeat *int `json:"repeat,omitempty" jsonschema:"minimum=1,maximum=1000,default=1"`
	// Background starts the next step without waiting for this step to end. The run waits for the step before
	// Finally. Default: false.
	Background bool `json:"background,omitempty"`
	// Always and Never are invariants that are checked during this step.
	Always []Invariant `json:"always,omitempty"`
	Never  []Invariant `json:"never,omitempty"`

	// Action is the action of the step.
	Action `json:",inline"`
}

// Action is the action of a step. Exactly one field is set.
type Action struct {
	// Apply creates or updates objects, from a file or a resource, like `kubectl apply --server-side`. Module Pods are
	// scheduled only on bases of the run.
	Apply *Apply `json:"apply,omitempty" jsonschema:"oneof_required=apply"`
	// Patch changes an object, like `kubectl patch`.
	Patch *Patch `json:"patch,omitempty" jsonschema:"oneof_required=patch"`
	// Delete deletes objects and waits until they no longer exist, unless `noWait` is set. The step fails if none
	// of the objects exist, unless `ignoreNotFound` is set.
	Delete *Delete `json:"delete,omitempty" jsonschema:"oneof_required=delete"`
	// Scale sets the number of replicas of a workload.
	Scale *Scale `json:"scale,omitempty" jsonschema:"oneof_required=scale"`
	// Release releases a version of a module: it sets the image of the container, and BIZ_VERSION or the label or
	// annotation to which BIZ_VERSION refers. The step fails if the module already has this version.
	Release *Release `json:"release,omitempty" jsonschema:"oneof_required=release"`
	// Rollback returns a workload to an earlier revision, like `kubectl rollout undo`.
	Rollback *Rollback `json:"rollback,omitempty" jsonschema:"oneof_required=rollback"`
	// Base adds, removes, restarts or upgrades bases, or cordons, drains or uncordons their Nodes.
	Base *BaseAction `json:"base,omitempty" jsonschema:"oneof_required=base"`
	// Fault sets, clears or awaits faults of bases, API connections or broker connections. The run fails if a fault is
	// never triggered, unless the fault sets `mayNotFire`.
	Fault *FaultAction `json:"fault,omitempty" jsonschema:"oneof_required=fault"`
	// Controller, Broker, APIServer, ControllerManager and Scheduler each kill, pause, resume, restart or start the
	// component that the step names.
	Controller *ComponentAction `json:"controller,omitempty" jsonschema:"oneof_required=controller"`
	Broker     *ComponentAction `json:"broker,omitempty" jsonschema:"oneof_required=broker"`
	APIServer  *ComponentAction `json:"apiserver,omitempty" jsonschema:"oneof_required=apiserver"`

	ControllerManager *ComponentAction `json:"controllerManager,omitempty" jsonschema:"oneof_required=controllerManager"`
	Scheduler         *ComponentAction `json:"scheduler,omitempty" jsonschema:"oneof_required=scheduler"`
	// Traffic starts or stops a stream of requests to a module. If the stream uses a Service, the Service must exist.
	Traffic *TrafficAction `json:"traffic,omitempty" jsonschema:"oneof_required=traffic"`
	// Script runs a shell script with the environment variables KUBECONFIG, NAMESPACE and GROUP, and the variables in
	// `env`.
	Script *Script `json:"script,omitempty" jsonschema:"oneof_required=script"`
	// Wait waits for one condition: a rollout is complete, objects are Ready or no longer exist, the controllers have
	// stopped writing objects (`quiet`), or a background step has completed.
	Wait *Wait `json:"wait,omitempty" jsonschema:"oneof_required=wait"`
	// Assert waits until an object matches (`resource`), or until a CEL expression is true (`cel`). With `for`, the
	// condition must hold for that duration.
	Assert *Assert `json:"assert,omitempty" jsonschema:"oneof_required=assert"`
	// Sleep waits for a fixed time, or until a CEL expression is true.
	Sleep *Sleep `json:"sleep,omitempty" jsonschema:"oneof_required=sleep"`
	// Steps executes a list of steps in order, and Parallel executes a list of steps concurrently. Use these actions
	// to apply `repeat`, `if` and invariants to a group of steps.
	Steps    []Step `json:"steps,omitempty" jsonschema:"oneof_required=steps"`
	Parallel []Step `json:"parallel,omitempty" jsonschema:"oneof_required=parallel"`
}
