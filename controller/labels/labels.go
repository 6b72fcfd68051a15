package labels

import (
	"cmp"
	"strings"
)

// The documents use two prefixes for one meaning (principle document 6.6.2 against operations guide
// 5.1 and 5.2). Every label with the first is read with the second too.
const (
	Prefix      = "virtual-kubelet.koupleless.io/"
	OlderPrefix = "module-controller.koupleless.io/"
)

// What a workload, a Pod, a Node or a Lease is to the module controller.
const (
	// Component is the label that says what an object is; its values follow.
	Component = Prefix + "component"
	// OlderComponent is Component in its other spelling.
	OlderComponent = OlderPrefix + "component"

	// Vnode is the Component of a Node that is a base.
	Vnode = "vnode"
	// VnodeLease is the Component of the Lease of such a Node.
	VnodeLease = "vnode-lease"
	// ControllerLease is the Component of the Lease by which a controller says that it is there.
	ControllerLease = "module-controller-lease"
	// LedgerLease is the Component of the Lease on which a controller notes what is new on its bases.
	LedgerLease = "module-controller-ledger"
	// PeerLeasePrefix begins the name of the Lease by which controllers elect who keeps the replicas of peer
	// Deployments; the environment follows.
	PeerLeasePrefix = "module-controller-peer."
	// Module is the Component of a Pod, or of a Pod template, whose containers are modules.
	Module = "module"
	// ModuleDeployment is the Component of a Deployment of modules.
	ModuleDeployment = "module-deployment"

	// Strategy is the label of a Deployment of modules that says how its replicas are counted.
	Strategy = Prefix + "strategy"
	// Peer is the Strategy of a Deployment that wants one module on each base.
	Peer = "peer"
	// ReplicasControl is "true" on a peer Deployment whose replicas somebody else sets.
	ReplicasControl = Prefix + "replicas-control"
)

// The labels of a Node that is a base: those of all versions of the Module Controller V2 documents
// at once, since their samples select on either.
const (
	Env         = Prefix + "env"
	BaseName    = "base.koupleless.io/name"
	BaseVersion = "base.koupleless.io/version"
	BaseStack   = "base.koupleless.io/stack"
	// BaseCluster is the cluster that a base says it belongs to; in a sandbox, the name of its
	// group.
	BaseCluster      = "base.koupleless.io/cluster-name"
	BaseHost         = "base.koupleless.io/host-name"
	TunnelPort       = "base.koupleless.io/tunnel-port"
	Tunnel           = "vnode.koupleless.io/tunnel"
	OlderBaseName    = "vnode.koupleless.io/name"
	OlderBaseVersion = "vnode.koupleless.io/version"
	// RolePrefix and a role form the key of a label of a Node: the column ROLES of kubectl get nodes shows the
	// role. The role is the host name of the base, or contains it. The value of the label is Role; role labels
	// with other values are not changed.
	RolePrefix = "node-role.kubernetes.io/"
	Role       = "base"

	// Identity is the annotation that holds the base's identity as the base writes it, which a
	// label or a name could not always hold.
	Identity = "base.koupleless.io/identity"
	// WebPort is the annotation of a module Pod or of its Node that says where the base takes web
	// requests: a port of the base's address, or host:port. Probes of type httpGet go there.
	WebPort = "base.koupleless.io/web-port"
	// DeletionCost is the annotation of a module Pod that holds the value that the annotation
	// controller.kubernetes.io/pod-deletion-cost had before the controller set it to -1.
	DeletionCost = "module.koupleless.io/previous-deletion-cost"
	// Holder is the annotation of a Node that names the controller that serves the base (CLIENT_ID);
	// empty means that none does. Fence counts how often that changed.
	Holder = "vnode.koupleless.io/holder"
	Fence  = "vnode.koupleless.io/fence"
	// MetaspaceInUse is the annotation of a Node that says how much metaspace its base has committed, as
	// a quantity. Controllers that serve the metrics API write it.
	MetaspaceInUse = "vnode.koupleless.io/metaspace-in-use"
	// Placed is the annotation of the Lease of a base's Node that keeps what Pods had put on the base:
	// what no Pod wants any more is told by it from what no Pod ever asked for.
	Placed = "vnode.koupleless.io/placed"
	// Ledgers is the annotation of a LedgerLease: what Pods had put on bases since the Leases of their Nodes
	// were written, as JSON by base, compressed with gzip, in Base64.
	Ledgers = "vnode.koupleless.io/ledgers"
	// Sees is the annotation of a controller's Lease that lists the tunnels through which it hears
	// bases, separated by commas.
	Sees = "vnode.koupleless.io/sees"
	// Process is the annotation of a controller's Lease that names the process that renews it.
	Process = "vnode.koupleless.io/process"
)

// The taints of every Node that is a base: the first keeps ordinary Pods away, the second the
// modules of another environment.
const (
	TaintVirtualNode = "schedule.koupleless.io/virtual-node"
	TaintEnv         = "schedule.koupleless.io/node-env"
)

// The labels of Pods and of Module resources.
const (
	// Trace is the label of a Pod that ties the reports of one change together.
	Trace         = "trace.koupleless.io/id"
	ModuleName    = "module.koupleless.io/name"
	ModuleVersion = "module.koupleless.io/version"
	// BaseIP and BaseInstance have the spelling of operations guide 5.5.
	BaseIP       = "koupleless.alipay.com/base-instance-ip"
	BaseInstance = "koupleless.alipay.com/base-instance-name"
)

// Retry is the annotation of a Pod any change of which has what failed be tried again at once.
const Retry = "module.koupleless.io/retry"

// VersionEnv is the environment variable of a container that names the version of its module.
const VersionEnv = "BIZ_VERSION"

// Value returns the value of a label that may stand under either prefix: Value(l, Component) or
// Value(l, "component"). It is empty if neither is there.
func Value(labels map[string]string, name string) string {
	name = strings.TrimPrefix(name, Prefix)
	return cmp.Or(labels[Prefix+name], labels[OlderPrefix+name])
}
