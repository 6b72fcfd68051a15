// Package labels defines the labels, annotations and taints of module Pods, Nodes and Leases. It imports no package of
// this repository.
package labels

import (
	"cmp"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// Prefix and OlderPrefix are the two label prefixes that the Koupleless documentation uses (principle document 6.6.2,
// operations guide 5.1 and 5.2). The controller also accepts every label that has Prefix with OlderPrefix instead.
const (
	Prefix      = "virtual-kubelet.koupleless.io/"
	OlderPrefix = "module-controller.koupleless.io/"
)

// Component is a label of Pods, Deployments, Nodes and Leases. OlderComponent is its older spelling. The other
// constants are values of the label.
const (
	Component      = Prefix + "component"
	OlderComponent = OlderPrefix + "component"

	Vnode              = "vnode"                    // a Node of a base
	VnodeLease         = "vnode-lease"              // the Lease of such a Node
	ControllerLease    = "module-controller-lease"  // the Lease of a controller
	InstallRecordLease = "module-controller-ledger" // the Lease with the recent changes of the install records
	Module             = "module"                   // a Pod, or a Pod template, whose containers are modules
	ModuleDeployment   = "module-deployment"        // a Deployment of modules
)

// Labels of module Deployments, and the name of the Lease for the leader election of peer Deployments.
const (
	Strategy = Prefix + "strategy"
	Peer     = "peer" // a value of Strategy: one replica on every matching base
	// ReplicasControl is "true" on a peer Deployment whose replicas the controller must not change.
	ReplicasControl = Prefix + "replicas-control"
	// PeerLeasePrefix and the environment form the name of the Lease for the leader election of the controllers that
	// set the replicas of peer Deployments.
	PeerLeasePrefix = "module-controller-peer."
)

// Reportable reports whether the controller accepts a label for the Node of a base from the heartbeats of the base.
// It accepts the zone, the region, and labels outside the domains of Kubernetes and Koupleless.
func Reportable(name string) bool {
	if name == corev1.LabelTopologyZone || name == corev1.LabelTopologyRegion {
		return true
	}
	domain, _, found := strings.Cut(name, "/")
	if !found {
		return name != "type" // the label of all virtual Nodes
	}
	for _, reserved := range []string{"kubernetes.io", "k8s.io", "koupleless.io"} {
		if domain == reserved || strings.HasSuffix(domain, "."+reserved) {
			return false
		}
	}
	return true
}

// Labels and annotations of Nodes and Leases. They include the labels of all versions of the Module Controller V2
// documents.
const (
	Env         = Prefix + "env"
	BaseName    = "base.koupleless.io/name"
	BaseVersion = "base.koupleless.io/version"
	BaseStack   = "base.koupleless.io/stack"
	// BaseCluster is the label with the cluster name that a base reports. In a sandbox, it is the name of the group
	// of the base.
	BaseCluster      = "base.koupleless.io/cluster-name"
	BaseHost         = "base.koupleless.io/host-name"
	TunnelPort       = "base.koupleless.io/tunnel-port"
	Tunnel           = "vnode.koupleless.io/tunnel"
	OlderBaseName    = "vnode.koupleless.io/name"
	OlderBaseVersion = "vnode.koupleless.io/version"
	// RolePrefix and a role form the key of a role label of a Node. kubectl get nodes shows the role in the column
	// ROLES. The role is the host name of the base, or contains it. The value of the label is Role. The controller
	// does not change role labels with other values.
	RolePrefix = "node-role.kubernetes.io/"
	Role       = "base"

	// Identity is the annotation with the identity that a base reports. It is an annotation because not every
	// identity is valid in a label or a name.
	Identity = "base.koupleless.io/identity"
	// WebPort is the annotation of a module Pod or of its Node with the address of the web listener of the base for
	// httpGet probes: a port, or host:port.
	WebPort = "base.koupleless.io/web-port"
	// ReleasesLeft is the annotation of a Node with the forecast how many more releases its base survives: the number
	// of releases after which the Node is still not under memory pressure, or Unlimited if past releases left no
	// metaspace behind. It is empty or missing if the number is unknown.
	ReleasesLeft = "vnode.koupleless.io/releases-left"
	Unlimited    = "unlimited"
	// ReportedLabels is the annotation of a Node with the names of the labels that the base has reported, separated by
	// commas.
	ReportedLabels = "vnode.koupleless.io/reported-labels"
	// DeletionCost is the annotation of a module Pod that holds the value that the annotation
	// controller.kubernetes.io/pod-deletion-cost had before the controller set it to -1.
	DeletionCost = "module.koupleless.io/previous-deletion-cost"
	// Holder is the annotation of a Node with the CLIENT_ID of the controller that serves the base; empty if no
	// controller serves it. Fence is the annotation with the fencing number, which increases with every change of the
	// holder.
	Holder = "vnode.koupleless.io/holder"
	Fence  = "vnode.koupleless.io/fence"
	// InstallRecord is the annotation of the Lease of a Node with the install record of the base: the modules that were
	// installed for Pods.
	InstallRecord = "vnode.koupleless.io/placed"
	// InstallRecords is the annotation of an InstallRecordLease with the install records that have changed since the
	// Leases of their Nodes were written: a JSON object by base identity, compressed with gzip and encoded in Base64.
	InstallRecords = "vnode.koupleless.io/ledgers"
	// ConnectedTunnels is the annotation of the Lease of a controller with its connected tunnels, separated by commas.
	ConnectedTunnels = "vnode.koupleless.io/sees"
	// Process is the annotation of the Lease of a controller with the name of the process that renews the Lease.
	Process = "vnode.koupleless.io/process"
)

// BaseContainer is the label of a Pod in which a base runs. Its value is the name of the container of the base.
const BaseContainer = "base.koupleless.io/container-name"

// Taints of the Nodes of bases. TaintVirtualNode keeps away Pods that are not modules, and TaintEnv keeps away
// modules of other environments.
const (
	TaintVirtualNode = "schedule.koupleless.io/virtual-node"
	TaintEnv         = "schedule.koupleless.io/node-env"
)

// Labels and annotations of Pods and of Module resources.
const (
	// Trace is the label of a Pod with a trace ID. The failure reports of a release contain this ID.
	Trace         = "trace.koupleless.io/id"
	ModuleName    = "module.koupleless.io/name"
	ModuleVersion = "module.koupleless.io/version"
	// BaseIP and BaseInstance are spelled as in section 5.5 of the Koupleless operations guide.
	BaseIP       = "koupleless.alipay.com/base-instance-ip"
	BaseInstance = "koupleless.alipay.com/base-instance-name"
)

// Retry is the annotation of a Pod that triggers a retry: after any change of its value, the controller retries
// failed commands immediately.
const Retry = "module.koupleless.io/retry"

// InstallStrategy is the annotation of a Pod with the install strategy of its modules. With InstallOnly, the default,
// the base installs the new version next to other versions. With UninstallThenInstall, the base first uninstalls all
// versions of the module.
const (
	InstallStrategy      = "module.koupleless.io/install-strategy"
	InstallOnly          = "installOnly"
	UninstallThenInstall = "uninstallThenInstall"
)

// VersionEnv is the environment variable of a container that contains the version of its module.
const VersionEnv = "BIZ_VERSION"

// NodeLabels are the labels that the controller writes to the Node of a base, from the data that the base reports.
// The first labels in the list are useful for selecting bases. The controller also writes a label with RolePrefix.
var NodeLabels = []string{
	BaseName, BaseVersion, BaseStack, BaseCluster, BaseHost, corev1.LabelHostname, TunnelPort,
	OlderBaseName, OlderBaseVersion, Tunnel, Component, Env, "kubernetes.io/role", "type", corev1.LabelTopologyZone,
}

// IsNodeLabel reports whether the controller writes a label to the Nodes of bases.
func IsNodeLabel(key string) bool {
	return slices.Contains(NodeLabels, key) || strings.HasPrefix(key, RolePrefix)
}

// Value returns the value of a label with either of the two prefixes; empty if neither label exists.
func Value(labels map[string]string, name string) string {
	name = strings.TrimPrefix(name, Prefix)
	return cmp.Or(labels[Prefix+name], labels[OlderPrefix+name])
}
