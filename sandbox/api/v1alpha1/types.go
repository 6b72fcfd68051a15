package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// APIVersion is the apiVersion of a sandbox configuration file.
	APIVersion = "sandbox.koupleless.io/v1alpha1"
	// Kind is the kind of a sandbox configuration file.
	Kind = "Sandbox"
	// MaxBases is the maximum number of bases in a sandbox. Simulated bases and the broker are benchmarked up to this
	// number.
	MaxBases = 20_000
)

// Provider selects where the Kubernetes API of a sandbox comes from.
type Provider string

// The Kubernetes API providers.
const (
	// ProviderAuto lets the sandbox choose a provider. The sandbox reports its choice and the reason.
	ProviderAuto Provider = "auto"
	// ProviderEmbedded runs the Kubernetes control plane as local processes. It needs no container engine.
	ProviderEmbedded Provider = "embedded"
	// ProviderExisting uses an existing cluster that is selected by a kubeconfig context.
	ProviderExisting Provider = "existing"
	// ProviderKind creates a kind cluster, whose nodes are docker or podman containers.
	ProviderKind Provider = "kind"
)

// Activation selects which versions of a module are active when several versions are installed.
type Activation string

// The activation modes (protocol 5.3).
const (
	// ActivationNewModule activates the newest version, like a real base with -Dactivate.new.module=true.
	ActivationNewModule Activation = "newModule"
	// ActivationDefault keeps the first version active, like a real base without additional settings.
	ActivationDefault Activation = "default"
	// ActivationMulti keeps all installed versions active.
	ActivationMulti Activation = "multi"
)

// Sandbox is the configuration of one sandbox.
type Sandbox struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata holds the name of the sandbox.
	Metadata Metadata `json:"metadata,omitzero"`
	// Spec describes the components of the sandbox.
	Spec Spec `json:"spec,omitzero"`
}

// Metadata holds the name of a sandbox.
type Metadata struct {
	// Name is the name of the sandbox, a DNS label.
	Name string `json:"name,omitempty" jsonschema:"default=koup" check:"label"`
}

// Spec describes the components of a sandbox.
type Spec struct {
	// Provider selects where the Kubernetes API comes from.
	Provider Provider `json:"provider,omitempty" jsonschema:"enum=auto,enum=embedded,enum=kind,enum=existing,default=auto"`
	// Kind configures the kind cluster. Providers other than `kind` allow only the subfield `engine`.
	Kind KindCluster `json:"kind,omitzero"`
	// Cluster selects the existing cluster. Requires the provider `existing`.
	Cluster Cluster `json:"cluster,omitzero"`
	// API configures the Kubernetes API server. Requires the provider `embedded`.
	API API `json:"api,omitzero"`
	// Speed is the time scale. It divides all timeouts and intervals of controllers, bases, faults and the node
	// lifecycle. Values above 1 require the provider `embedded`. Default: 1.
	Speed int `json:"speed,omitempty" jsonschema:"minimum=1,maximum=20"`
	// Durable makes etcd sync each write to disk, so that the data survives a crash of the machine. Default: false.
	Durable bool `json:"durable,omitempty"`
	// Env is the environment of the controllers and the bases, a DNS label. Default: dev; with an external broker or an
	// existing cluster, a generated name.
	Env string `json:"env,omitempty" check:"label"`
	// Bases lists the sets of simulated bases. Default: one set of 3 bases with the name base.
	Bases []BaseSet `json:"bases,omitempty"`
	// Fleet configures where the bases run.
	Fleet Fleet `json:"fleet,omitzero"`
	// Broker configures the MQTT broker.
	Broker Broker `json:"broker,omitzero"`
	// Controller configures the module controller.
	Controller Controller `json:"controller,omitzero"`
	// Wait is the maximum time until each component is ready, and then until the Nodes are Ready. Default: 60s, or 5m
	// with the provider `kind` or with bases in Pods; plus 15s (provider `existing`: 4m) for each 1,000 bases.
	Wait *metav1.Duration `json:"wait,omitempty" check:"positive"`
}

// Engine is the command name of a container engine.
type Engine string

// The container engines.
const (
	EngineDocker Engine = "docker"
	EnginePodman Engine = "podman"
)

// KindCluster configures a kind cluster.
type KindCluster struct {
	// Nodes is the number of nodes, including the control plane. Default: 1.
	Nodes int `json:"nodes,omitempty" jsonschema:"minimum=1,maximum=10"` // a node uses about 300 MB of memory
	// Engine is the container engine that runs the nodes. Providers other than kind ignore the field. Default: the
	// first of the two engines that responds.
	Engine Engine `json:"engine,omitempty" jsonschema:"enum=docker,enum=podman"`
	// Image is the node image. Default: kind's default node image, or the image that `make node-image` builds if only
	// that image is available locally.
	Image string `json:"image,omitempty"`
	// Version is the Kubernetes version, such as v1.37.2; not allowed with Image. Default: the version of the node
	// image.
	Version string `json:"version,omitempty"`
}

// Cluster selects an existing cluster.
type Cluster struct {
	// Kubeconfig is the path of a kubeconfig file. Default: ~/.kube/config.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Context is the name of a context in the kubeconfig file. Required: the current context is not used as a
	// default.
	Context string `json:"context,omitempty"`
	// Consent allows the sandbox to use a cluster without an ownership marker. Default: false.
	Consent bool `json:"consent,omitempty"`
}

// API configures the Kubernetes API server.
type API struct {
	// Listen is the listen address, ADDRESS:PORT. The port must also be reachable at 127.0.0.1, the address that
	// kubeconfigs contain. All clients must authenticate. Default: 127.0.0.1 and a free port.
	Listen string `json:"listen,omitempty"`
}

// Fleet configures where the simulated bases run.
type Fleet struct {
	// Runtime selects where the bases run: in the sandbox process (`process`), or in Pods (`cluster`).
	Runtime BaseRuntime `json:"runtime,omitempty" jsonschema:"enum=process,enum=cluster,default=process"`
	// PerPod is the number of bases in one Pod. With 1, each base has the IP address of its Pod, so Services can
	// reach the base. Requires the runtime `cluster`. Default: 500.
	PerPod int `json:"perPod,omitempty" jsonschema:"minimum=1,maximum=2000"` // all bases of a Pod fail together
	// Image is the image of the base Pods, built by `make image-fakebase`. Requires the runtime `cluster`. Default: with
	// the provider `kind`, an image built from the local fakebase binary; with `existing`, the field is required.
	Image string `json:"image,omitempty"`
	// AgentImage is the image of the Pod that sends requests to the bases, built by `make image-sandbox`. Requires the
	// runtime `cluster` and the provider `existing`. Default: this machine sends the requests through the API server.
	AgentImage string `json:"agentImage,omitempty"`
}

// Fetch selects which module jars the simulated bases open.
type Fetch string

// The possible values of Fetch.
const (
	FetchNever     Fetch = "never"
	FetchAvailable Fetch = "available"
	FetchAlways    Fetch = "always"
)

// WebModule describes a module that is a web application.
type WebModule struct {
	// Name is the name of the module.
	Name string `json:"name" need:"set it to the name of the container of the module"`
	// Version is the version to which the entry applies. Default: every version.
	Version string `json:"version,omitempty"`
	// ContextPath is the URL path at which the module receives requests. Default: Name.
	ContextPath string `json:"contextPath,omitempty"`
}

// BaseRuntime selects where the simulated bases run.
type BaseRuntime string

// The base runtimes.
const (
	// RuntimeProcess runs all bases in the sandbox process. Other processes cannot reach the addresses of the bases.
	RuntimeProcess BaseRuntime = "process"
	// RuntimeCluster runs the bases in Pods of the cluster, with the providers kind and existing. If a base is the
	// only one in its Pod, it has the IP address of the Pod. Bases that share a Pod have addresses that are not
	// routed. The sandbox controls the bases through the API server. With the provider existing, bases connect to the
	// external broker at Broker.URL, as this machine does. With kind, they connect over TLS to the broker port on
	// this machine.
	RuntimeCluster BaseRuntime = "cluster"
)

// Broker configures the MQTT broker of a sandbox: either the embedded broker or an external broker. The embedded
// broker, or the relay to the external broker, listens on this machine.
type Broker struct {
	// Port is the port of the broker, or of the relay to the external broker, on this machine. Default: 0, a free
	// port.
	Port int `json:"port,omitempty" jsonschema:"minimum=0,maximum=65535" limits:"; 0 is any free port"`
	// TLS enables TLS on Port, with a certificate that the sandbox's CA signs. Default: false.
	TLS bool `json:"tls,omitempty"`
	// URL is the URL of an external broker: mqtt:// or mqtts:// (also tcp, ssl and tls), a host, and a port (default:
	// 1883 or 8883). The URL may contain a user name, but no password. All broker fields except `port` and `tls`
	// require `url`. Default: none; the embedded broker is used.
	URL string `json:"url,omitempty"`
	// Username is the user name for the external broker. Default: none.
	Username string `json:"username,omitempty"`
	// PasswordFile is the path of a file with the password for the external broker. Default: none; the password in
	// $KOUPSANDBOX_BROKER_PASSWORD is used.
	PasswordFile string `json:"passwordFile,omitempty"`
	// CAFile is the path of the CA certificates that verify the external broker. Default: the system CA certificates.
	CAFile string `json:"caFile,omitempty"`
	// CertFile is the path of the client certificate for the external broker. Default: none.
	CertFile string `json:"certFile,omitempty"`
	// KeyFile is the path of the private key for the client certificate. Default: none.
	KeyFile string `json:"keyFile,omitempty"`
	// Consent allows the sandbox to use an environment in which other broker clients are active. Default: false.
	Consent bool `json:"consent,omitempty"`
}

// Location selects where the module controller runs.
type Location string

// The locations of the module controller.
const (
	// LocationHost runs the controller as a local process.
	LocationHost Location = "host"
	// LocationCluster runs the controller in Pods of the cluster, from the same manifests that users apply.
	LocationCluster Location = "cluster"
)

// Controller configures the module controller of a sandbox.
type Controller struct {
	// Location selects where the controller runs: on this machine (`host`), or in Pods (`cluster`; provider `kind` or
	// `existing`). Default: with the provider `kind`, `cluster` if the cluster and this machine can reach each other;
	// otherwise `host`.
	Location Location `json:"location,omitempty" jsonschema:"enum=host,enum=cluster"`
	// Image is the image of the controller Pods, built by `make image-controller`. Required with the location `cluster`
	// and the provider `existing`; otherwise not allowed.
	Image string `json:"image,omitempty"`
	// Replicas is the number of controllers that share the bases.
	Replicas *int `json:"replicas,omitempty" jsonschema:"minimum=1,maximum=9,default=1"`
	// Env lists environment variables for the controller. Default: none.
	Env map[string]string `json:"env,omitempty" check:"variable"`
	// APIView enables the API proxy between local controllers and the API server. Faults of the target `api` require
	// this proxy. Default: false.
	APIView bool `json:"apiView,omitempty"`

	// Command is the binary of a custom controller and its first arguments. The sandbox runs the binary on this
	// machine, once for each replica. Command, Args, Env, Files and Ready.HTTP are Go templates;
	// docs/en/how-to/run-your-own-controller.md lists the available values. Default: none; the bundled controller is
	// used.
	Command []string `json:"command,omitempty" jsonschema:"minItems=1"`
	// Args lists the arguments after Command. An argument is omitted if its template evaluates to an empty string.
	// Default: none.
	Args []string `json:"args,omitempty"`
	// WorkingDir is the working directory of Command, relative to the directory of the configuration file. Default: the
	// directory of the configuration file.
	WorkingDir string `json:"workingDir,omitempty"`
	// Files maps file names to content. The sandbox writes the files into the directory {{.Files}} of each replica.
	// Requires Command. Default: none.
	Files map[string]string `json:"files,omitempty"`
	// Ready is the readiness condition of the controller. Requires Command. Default: the controller is ready as soon
	// as its process runs.
	Ready *ControllerReady `json:"ready,omitempty"`
}

// ControllerReady is the condition under which a custom controller is ready. Exactly one field is set.
type ControllerReady struct {
	// HTTP is a URL that responds with status 200 when the controller is ready. A path, such as /readyz, is
	// appended to http://{{.HealthAddr}}.
	HTTP string `json:"http,omitempty" jsonschema:"oneof_required=http"`
	// Log is a regular expression (RE2) for the output line that the controller prints when it is ready.
	Log string `json:"log,omitempty" jsonschema:"oneof_required=log"`
}
