package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

const (
	// APIVersion is the apiVersion of a sandbox's configuration file.
	APIVersion = "sandbox.koupleless.io/v1alpha1"
	// Kind is the kind of a sandbox's configuration file.
	Kind = "Sandbox"
	// MaxBases is the most bases that one sandbox runs: the scale that the simulated bases and the
	// broker are built and measured for.
	MaxBases = 20_000
)

// Provider says where the Kubernetes API of a sandbox comes from.
type Provider string

// The providers.
const (
	// ProviderAuto lets the sandbox choose, and say what it chose and why.
	ProviderAuto Provider = "auto"
	// ProviderEmbedded runs the Kubernetes control plane as processes of this machine; it needs no
	// container engine.
	ProviderEmbedded Provider = "embedded"
	// ProviderExisting uses the cluster behind a context that the user names.
	ProviderExisting Provider = "existing"
	// ProviderKind makes a cluster of kind: nodes as containers of docker or podman.
	ProviderKind Provider = "kind"
)

// Activation says what a base does with a module of which it already serves another version.
type Activation string

// The activation modes (protocol 5.3).
const (
	// ActivationNewModule makes the newest version the active one, as -Dactivate.new.module=true
	// does on a real base.
	ActivationNewModule Activation = "newModule"
	// ActivationDefault leaves the first version active, as a real base without settings does.
	ActivationDefault Activation = "default"
	// ActivationMulti keeps several versions active at once.
	ActivationMulti Activation = "multi"
)

// Sandbox is the configuration of one sandbox.
type Sandbox struct {
	metav1.TypeMeta `json:",inline"`
	// Metadata names the sandbox.
	Metadata Metadata `json:"metadata,omitzero"`
	// Spec says what the sandbox consists of.
	Spec Spec `json:"spec,omitzero"`
}

// Metadata names a sandbox.
type Metadata struct {
	// Name is the name of the sandbox, a DNS label.
	Name string `json:"name,omitempty" jsonschema:"default=koup" check:"label"`
}

// Spec says what a sandbox consists of.
type Spec struct {
	// Provider says where the Kubernetes API comes from: auto, embedded, kind or existing.
	Provider Provider `json:"provider,omitempty" jsonschema:"enum=auto,enum=embedded,enum=kind,enum=existing,default=auto"`
	// Kind describes the cluster of the provider kind; all but its engine must be empty for every
	// other provider.
	Kind KindCluster `json:"kind,omitzero"`
	// Cluster names the cluster of the provider existing; it must be empty for every other
	// provider.
	Cluster Cluster `json:"cluster,omitzero"`
	// API says where the Kubernetes API of the provider embedded listens; it must be empty for every
	// other provider.
	API API `json:"api,omitzero"`
	// Speed divides every period of the system: heartbeats, silence, leases, timeouts, drains, pauses
	// between attempts, the times of bases and of their faults, and those of Kubernetes' node
	// lifecycle. It makes outages of minutes testable in seconds, and needs the provider embedded.
	// Default: 1.
	Speed int `json:"speed,omitempty" jsonschema:"minimum=1,maximum=20"`
	// Durable makes etcd write to disk safely, so that the sandbox survives a power cut; it costs
	// speed. Default: false.
	Durable bool `json:"durable,omitempty"`
	// Env is the environment that controller and bases share: part of every MQTT topic and of the
	// labels of the Nodes, a lower-case DNS label. Default: dev; with Broker.URL or the
	// provider existing, a generated name that no other sandbox or controller uses.
	Env string `json:"env,omitempty" check:"label"`
	// Bases are the simulated bases.
	Bases Bases `json:"bases,omitzero"`
	// Broker is the MQTT broker.
	Broker Broker `json:"broker,omitzero"`
	// Controller is the module controller.
	Controller Controller `json:"controller,omitzero"`
	// Wait is how long each component may take to get ready, and how long the Nodes may take after
	// that. Default: 60s; with the provider kind, and with bases in Pods, 5m; and 15s more for each
	// thousand bases, with the provider existing 4m.
	Wait *metav1.Duration `json:"wait,omitempty" check:"positive"`
}

// Engine is a container engine, named as its command.
type Engine string

// The engines.
const (
	EngineDocker Engine = "docker"
	EnginePodman Engine = "podman"
)

// KindCluster describes a cluster of kind.
type KindCluster struct {
	// Nodes is how many nodes the cluster has, 1 to 10, the control plane's included. Default: 1.
	Nodes int `json:"nodes,omitempty" jsonschema:"minimum=1,maximum=10"` // each takes about 300 MB, and bases need none
	// Engine that runs the nodes, docker or podman; of no meaning without kind. Default: the first
	// of the two that answers.
	Engine Engine `json:"engine,omitempty" jsonschema:"enum=docker,enum=podman"`
	// Image is the image of the nodes. Default: that of kind, or the one of `make node-image` where
	// that alone is at hand.
	Image string `json:"image,omitempty"`
	// Version is the version of Kubernetes, such as v1.36.3; not together with Image. Default: that
	// of the image.
	Version string `json:"version,omitempty"`
}

// Cluster names an existing cluster.
type Cluster struct {
	// Kubeconfig is the path of a kubeconfig file. Default: what kubectl would use.
	Kubeconfig string `json:"kubeconfig,omitempty"`
	// Context is the context in that file. It has no default: the sandbox never takes the current
	// context.
	Context string `json:"context,omitempty"`
	// Consent allows the use of a cluster that does not bear the sandbox's mark yet. Default:
	// false.
	Consent bool `json:"consent,omitempty"`
}

// API is the listener of a Kubernetes API.
type API struct {
	// Listen is ADDRESS:PORT. Kubeconfigs name 127.0.0.1 and the port, which must lead to it. Who is let in
	// shows a certificate, from wherever it comes. Default: 127.0.0.1 and any free port.
	Listen string `json:"listen,omitempty"`
}

// Bases are the simulated bases of a sandbox; all have the same settings.
type Bases struct {
	// Count is how many there are, 1 to 20000.
	Count *int `json:"count,omitempty" jsonschema:"minimum=1,maximum=20000,default=3" limits:", the most that one sandbox runs"`
	// Name is the name that each base reports; Pods select their base by it.
	Name string `json:"name,omitempty" jsonschema:"default=base" check:"nodeLabel"`
	// Version is the version that each base reports.
	Version string `json:"version,omitempty" jsonschema:"default=1.0.0" check:"nodeLabel"`
	// ClusterName is the cluster name that each base reports. Default: the name of the sandbox.
	ClusterName string `json:"clusterName,omitempty"`
	// Activation says what a base does with a second version of a module: newModule, default or
	// multi.
	Activation Activation `json:"activation,omitempty" jsonschema:"enum=newModule,enum=default,enum=multi,default=newModule"`
	// WebPort is the port at which a base serves its modules: the targetPort of Services.
	WebPort int `json:"webPort,omitempty" jsonschema:"minimum=1,maximum=65535,default=8080"`
	// Fetch selects the jars that a base opens: never, available or always. With available, a base opens file://
	// and http:// URLs that lead to a jar. With always, it opens every URL, and the installation fails if there is
	// no jar. The name and the version of a module whose jar was opened come from the manifest of the jar.
	Fetch Fetch `json:"fetch,omitempty" jsonschema:"enum=never,enum=available,enum=always,default=never"`
	// WebModules are the modules that are web applications, each with its name, its version (default: every
	// version) and its contextPath (default: the name). A base refuses a version whose context path another
	// installed version has. Default: none.
	WebModules []WebModule `json:"webModules,omitempty"`
	// Runtime is where the bases run: process or cluster.
	Runtime BaseRuntime `json:"runtime,omitempty" jsonschema:"enum=process,enum=cluster,default=process"`
	// PerPod is the number of bases in one Pod, 1 to 2000. With 1, each base has the address of its Pod, so
	// that Services lead to it. For the runtime cluster only. Default: 500.
	PerPod int `json:"perPod,omitempty" jsonschema:"minimum=1,maximum=2000"` // a Pod that is lost takes as many with it
	// Image is the image of those Pods, of make image-fakebase, from where the cluster's nodes can
	// pull it. For the runtime cluster only. Default: with the provider kind, an image of the program
	// fakebase that is beside koupsandbox, which the nodes are given; existing has none.
	Image string `json:"image,omitempty"`
	// AgentImage is the image of make image-sandbox, from where the cluster's nodes can pull it: requests
	// to bases are sent from a Pod of it. For the runtime cluster with the provider existing only. Default:
	// this machine sends them through the API server; with the provider kind a node sends them.
	AgentImage string `json:"agentImage,omitempty"`
}

// Fetch selects the jars that simulated bases open.
type Fetch string

// The values of Fetch.
const (
	FetchNever     Fetch = "never"
	FetchAvailable Fetch = "available"
	FetchAlways    Fetch = "always"
)

// WebModule is a module that is a web application.
type WebModule struct {
	// Name is the name of the module.
	Name string `json:"name" need:"set it to the name of the container of the module"`
	// Version is the version to which the entry applies. Default: every version.
	Version string `json:"version,omitempty"`
	// ContextPath is the path at which the module serves. Default: Name.
	ContextPath string `json:"contextPath,omitempty"`
}

// BaseRuntime says what simulated bases run as.
type BaseRuntime string

// The runtimes.
const (
	// RuntimeProcess runs them all in the sandbox's own process, with addresses that nobody else
	// can reach.
	RuntimeProcess BaseRuntime = "process"
	// RuntimeCluster runs them in Pods of the cluster; for the providers kind and existing. A base that has a
	// Pod of its own has its address; bases that share a Pod have addresses that are not routed. They are told what to do through the API server.
	// With the provider existing they reach the user's broker at Broker.URL, as this machine does; with kind,
	// the port of the broker at this machine's address, which speaks TLS then.
	RuntimeCluster BaseRuntime = "cluster"
)

// Broker is the MQTT broker of a sandbox: one of its own, or one that the user has. What listens
// for bases and controller, the broker or the relay to the user's, does so on the loopback address
// only.
type Broker struct {
	// Port is the port that listens on this machine. Default: 0, any free port.
	Port int `json:"port,omitempty" jsonschema:"minimum=0,maximum=65535" limits:"; 0 is any free port"`
	// TLS makes it speak TLS with a certificate of the sandbox's own authority. Default: false.
	TLS bool `json:"tls,omitempty"`
	// URL of a broker that the user has: mqtt:// or mqtts:// (tcp, ssl and tls are understood too),
	// a host, and a port unless it is 1883 or 8883. It may hold a user name, but no password. The
	// sandbox never stops that broker, and leaves nothing there. Default: none, the sandbox has a
	// broker of its own. What follows is for this one only.
	URL string `json:"url,omitempty"`
	// Username for it. Default: none.
	Username string `json:"username,omitempty"`
	// PasswordFile is the path of a file with the password. Default: that of the environment of up,
	// KOUPSANDBOX_BROKER_PASSWORD.
	PasswordFile string `json:"passwordFile,omitempty"`
	// CAFile is the path of the certificates of the authorities that may sign the broker's.
	// Default: those of the system.
	CAFile string `json:"caFile,omitempty"`
	// CertFile and KeyFile are the paths of a client certificate and its key. Default: none.
	CertFile string `json:"certFile,omitempty"`
	KeyFile  string `json:"keyFile,omitempty"`
	// Consent allows an environment in which somebody else was heard. Default: false.
	Consent bool `json:"consent,omitempty"`
}

// Location says where the module controller runs.
type Location string

// The locations.
const (
	// LocationHost runs it as a process of this machine.
	LocationHost Location = "host"
	// LocationCluster runs it in the cluster, from the manifests that a person applies.
	LocationCluster Location = "cluster"
)

// Controller is the module controller of a sandbox.
type Controller struct {
	// Location says where it runs: host, or cluster, with the providers kind and existing. With kind,
	// the broker's port, which speaks TLS then, is at this machine's address in the engine's network;
	// with existing, the Pods reach the broker of spec.broker.url themselves. Default: cluster with
	// the provider kind, if the cluster and this machine reach each other; else host.
	Location Location `json:"location,omitempty" jsonschema:"enum=host,enum=cluster"`
	// Image of its Pods, which the nodes pull: make image-controller builds one. Required with location cluster
	// and the provider existing, and only there: the nodes of kind are given the program.
	Image string `json:"image,omitempty"`
	// Replicas is the number of controller processes, which share the bases, 1 to 9.
	Replicas *int `json:"replicas,omitempty" jsonschema:"minimum=1,maximum=9,default=1"`
	// Env are environment variables for the controller's process, in addition to those that the
	// sandbox sets. With Command, the process also inherits some variables of the command up, such as PATH, HOME and the
	// variables for language and time zone. Default: none.
	Env map[string]string `json:"env,omitempty" check:"variable"`
	// APIView puts a proxy between controllers on this machine and the API server, for faults of the target api.
	// Scenarios with such faults enable it themselves, and the controllers restart for them. Default: false.
	APIView bool `json:"apiView,omitempty"`

	// Command runs a controller of your own in place of the sandbox's, on this machine and once per
	// replica: the program and its first arguments. A program with a slash in its name is relative
	// to WorkingDir; one without is found by PATH. The sandbox gives it no variables of its own:
	// Command, Args, Env, Files and Ready.HTTP are Go templates (text/template), which say where
	// the values go. {{.Kubeconfig}} is the path of a kubeconfig. {{.BrokerHost}}, {{.BrokerPort}},
	// {{.BrokerUser}} and {{.BrokerPassword}} reach the broker, and {{.BrokerCA}} is the path of
	// its authority, empty without TLS. {{.Env}} is the environment. {{.ClientID}} is unique to the
	// replica and stays the same through restarts; {{.ClientPrefix}} is the prefix of MQTT client
	// ids. {{.HTTPTunnelPort}} is the port for heartbeats over HTTP on 127.0.0.1, and {{.Gateway}}
	// the URL of the HTTP proxy by which commands reach bases with the tunnel http.
	// {{.MetricsAddr}} and {{.HealthAddr}} are free addresses, host:port. {{.Name}} is the name of
	// the replica (module-controller, module-controller-2, ...), {{.Index}} its number from 1,
	// {{.Replicas}} how many there are. {{.Files}} is the folder with Files, {{.Speed}} that of
	// the sandbox. Default: none, the
	// sandbox's own controller.
	Command []string `json:"command,omitempty" jsonschema:"minItems=1"`
	// Args follow those of Command, for what differs from one use to the next. One that a template
	// makes empty is left out, as in {{if .BrokerCA}}--ca={{.BrokerCA}}{{end}}. For Command only.
	// Default: none.
	Args []string `json:"args,omitempty"`
	// WorkingDir is the folder that Command runs in, relative to that of the configuration file.
	// For Command only. Default: the folder of the configuration file.
	WorkingDir string `json:"workingDir,omitempty"`
	// Files are written for each replica into the folder {{.Files}}: the text by the name of the
	// file. For Command only. Default: none.
	Files map[string]string `json:"files,omitempty"`
	// Ready says how it shows that it works. For Command only. Default: it is ready as soon as it
	// runs.
	Ready *ControllerReady `json:"ready,omitempty"`
}

// ControllerReady says how a controller of the user's own shows that it works: exactly one field is
// set.
type ControllerReady struct {
	// HTTP is a URL that answers 200 then; a path, such as /readyz, is one of {{.HealthAddr}}.
	HTTP string `json:"http,omitempty" jsonschema:"oneof_required=http"`
	// Log is a regular expression (RE2) that fits a line of its output then.
	Log string `json:"log,omitempty" jsonschema:"oneof_required=log"`
}
