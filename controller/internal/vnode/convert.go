package vnode

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"maps"
	"net/netip"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/labels"
)

const maxPods = "65535" // as in ModuleController V2; the metaspace limits the number of modules

// Settings contains the settings that all Nodes have in common.
type Settings struct {
	// Env is the environment of the controller. Every Node has it as a label and a taint.
	Env string
	// KubeletAddress and KubeletPort are the address at which the API server requests logs and exec. Port 0 means
	// that logs and exec are not available. KubeletAddress is the InternalDNS address of Nodes. Their InternalIP
	// address is the address of the base.
	KubeletAddress string
	KubeletPort    int32
}

const (
	namePrefix = "vnode." // of Nodes, as in the Koupleless documentation
	// unlimited is the memory in bytes of a Node whose base has no metaspace limit. It cannot be 0: the scheduler
	// treats a Node without memory as full.
	unlimited = 1 << 40
	// storage is the ephemeral storage of every Node in bytes. Without it, the scheduler would reject Pods with the
	// default request of a LimitRange.
	storage = 1 << 50
	// memoryPressureAt is the fraction of the metaspace in use, 0 to 1, above which a Node is under memory pressure.
	memoryPressureAt = 0.9
)

// Name returns the name of a base's Node, vnode.<identity>, as the Koupleless documentation specifies. If the
// identity is not a DNS name, invalid characters are replaced and a hash is appended.
func Name(identity string) string {
	if name := namePrefix + identity; len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	return namePrefix + hashedDNSName(identity, 200-len(namePrefix))
}

// hashedDNSName converts a text to a DNS name that consists of at most limit valid characters of the text and a hash
// of the text.
func hashedDNSName(s string, limit int) string {
	safe := strings.Trim(notDNS.ReplaceAllString(strings.ToLower(s), "-"), "-.")
	if len(safe) > limit {
		safe = strings.Trim(safe[:limit], "-.")
	}
	return strings.Trim(safe+"-"+hash(s), "-")
}

// dnsName converts a text to a part of a DNS name. A text that is already valid stays unchanged.
func dnsName(s string) string {
	if len(s) <= 100 && len(validation.IsDNS1123Subdomain(s)) == 0 {
		return s
	}
	return hashedDNSName(s, 90)
}

var (
	notDNS   = regexp.MustCompile(`[^a-z0-9-]+`)
	notLabel = regexp.MustCompile(`[^A-Za-z0-9._-]+`)
)

func hash(s string) string {
	h := fnv.New32a()
	_, _ = h.Write([]byte(s)) // never fails
	return strconv.FormatUint(uint64(h.Sum32()), 36)
}

// labelValue converts a text to a label value. A text that is already valid stays unchanged.
func labelValue(s string) string {
	if len(validation.IsValidLabelValue(s)) == 0 {
		return s
	}
	safe := notLabel.ReplaceAllString(s, "-")
	if len(safe) > 50 {
		safe = safe[:50]
	}
	return strings.Trim(strings.Trim(safe, "-._")+"-"+hash(s), "-")
}

// roleOf returns the role label of a Node for the host name of its base: the host name if it begins with "base-", and
// otherwise the host name with the prefix "base.". Bases report their host names. Without the prefix, a base could
// report a role that the cluster uses, such as ingress.
func roleOf(host string) string {
	if strings.HasPrefix(host, labels.Role+"-") {
		return labels.RolePrefix + host
	}
	return labels.RolePrefix + labels.Role + "." + host
}

// staleRole returns a function that reports whether a label is the role label for a previous host name of the base.
func staleRole(want map[string]string) func(key, value string) bool {
	return func(key, value string) bool {
		return value == labels.Role && strings.HasPrefix(key, labels.RolePrefix) && want[key] != value
	}
}

// reportedLabels returns the labels that a base has reported for its Node; nil if there are none.
func reportedLabels(n *corev1.Node) map[string]string {
	var reported map[string]string
	for name := range strings.SplitSeq(n.Annotations[labels.ReportedLabels], ",") {
		if value, found := n.Labels[name]; found && labels.Reportable(name) {
			if reported == nil {
				reported = map[string]string{}
			}
			reported[name] = value
		}
	}
	return reported
}

// Labels returns the labels of a base's Node. The labels are also used to select baselines.
//
// They do not include kubernetes.io/os and kubernetes.io/arch: DaemonSets that tolerate every taint, such as
// kube-proxy, select their Nodes by kubernetes.io/os=linux, so they would create a Pod that never starts on each
// base.
func (s Settings) Labels(b base.Info) map[string]string {
	name := Name(b.Identity)
	host := cmp.Or(b.HostName, name)
	l := map[string]string{
		labels.Component:         labels.Vnode,
		labels.Env:               labelValue(s.Env),
		labels.BaseName:          labelValue(b.Name),
		labels.OlderBaseName:     labelValue(b.Name),
		labels.BaseVersion:       labelValue(b.Version),
		labels.OlderBaseVersion:  labelValue(b.Version),
		labels.BaseStack:         "java",
		labels.Tunnel:            string(b.Tunnel),
		labels.BaseHost:          labelValue(host),
		corev1.LabelHostname:     labelValue(host),
		corev1.LabelTopologyZone: labelValue(name), // unique, for the anti-affinity in the Koupleless documentation
		"type":                   "virtual-kubelet",
		"kubernetes.io/role":     "agent",
	}
	for name, value := range b.Labels {
		if _, own := l[name]; !own || name == corev1.LabelTopologyZone {
			l[name] = value
		}
	}
	if b.Cluster != "" {
		l[labels.BaseCluster] = labelValue(b.Cluster)
	}
	if role := roleOf(b.HostName); b.HostName != "" && b.HostName != b.Identity &&
		len(validation.IsQualifiedName(role)) == 0 {
		l[role] = labels.Role
	}
	if b.Tunnel == tunnel.HTTP && b.Port > 0 {
		l[labels.TunnelPort] = strconv.Itoa(b.Port)
	}
	return l
}

// Taints returns the taints of every Node.
func (s Settings) Taints() []corev1.Taint {
	return []corev1.Taint{
		{Key: labels.TaintVirtualNode, Value: "True", Effect: corev1.TaintEffectNoExecute},
		{Key: labels.TaintEnv, Value: labelValue(s.Env), Effect: corev1.TaintEffectNoExecute},
	}
}

// Node converts a base into its Node. requested is the memory in bytes that the Pods on the Node request. oldNode is
// the existing Node, or nil. now is the transition time of the conditions that differ from those of oldNode.
func (s Settings) Node(b base.Snapshot, requested int64, oldNode *corev1.Node, now time.Time) *corev1.Node {
	n := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name:        Name(b.Identity),
			Labels:      s.Labels(b.Info),
			Annotations: map[string]string{labels.Identity: b.Identity},
		},
		Spec: corev1.NodeSpec{Taints: s.Taints()},
		Status: corev1.NodeStatus{
			Phase:     corev1.NodeRunning,
			Addresses: s.addresses(b.Info),
			NodeInfo: corev1.NodeSystemInfo{
				KubeletVersion:          "koupleless-" + cmp.Or(b.Version, "unknown"),
				ContainerRuntimeVersion: "arklet://" + cmp.Or(b.Name, "unknown"),
				OperatingSystem:         runtime.GOOS,
				Architecture:            runtime.GOARCH,
			},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: s.KubeletPort}},
		},
	}
	if len(b.Labels) > 0 || oldNode != nil && oldNode.Annotations[labels.ReportedLabels] != "" {
		n.Annotations[labels.ReportedLabels] = strings.Join(slices.Sorted(maps.Keys(b.Labels)), ",")
	}
	if left := releasesLeft(b); left != "" || oldNode != nil && oldNode.Annotations[labels.ReleasesLeft] != "" {
		n.Annotations[labels.ReleasesLeft] = left
	}
	n.Status.Capacity, n.Status.Allocatable = resources(b, requested)
	var old []corev1.NodeCondition
	if oldNode != nil {
		old = oldNode.Status.Conditions
	}
	n.Status.Conditions = conditions(b, old, now)
	return n
}

// noKubelet is the kubelet address in Nodes for which logs and exec are not available. It never resolves (RFC 6761).
const noKubelet = "kubelet-api-is-off.invalid"

// addresses returns the addresses of a Node. The addresses do not include a Hostname, because the API server would
// prefer it as the kubelet address, and a base could report any host name. The API server also prefers InternalDNS to
// InternalIP.
func (s Settings) addresses(b base.Info) []corev1.NodeAddress {
	kubelet := noKubelet
	if s.KubeletPort != 0 {
		kubelet = cmp.Or(s.KubeletAddress, noKubelet)
	}
	return []corev1.NodeAddress{
		{Type: corev1.NodeInternalIP, Address: cmp.Or(b.IP, "127.0.0.1")},
		{Type: corev1.NodeInternalDNS, Address: kubelet},
	}
}

// mebibyte is the unit to which allocatable memory is rounded.
const mebibyte = 1 << 20

// resources returns the capacity and the allocatable resources of a Node: the CPUs of the base, its metaspace as
// memory, and storage without an effective limit. Allocatable memory excludes the metaspace that the base uses in
// excess of requested, because the scheduler subtracts the requests itself.
func resources(b base.Snapshot, requested int64) (capacity, allocatable corev1.ResourceList) {
	pods := resource.MustParse(maxPods)
	disk := *resource.NewQuantity(storage, resource.BinarySI)
	capacity = corev1.ResourceList{corev1.ResourcePods: pods, corev1.ResourceEphemeralStorage: disk}
	allocatable = corev1.ResourceList{corev1.ResourcePods: pods, corev1.ResourceEphemeralStorage: disk}
	if b.Health.CPUs > 0 { // without CPUs, kubectl describe divides by zero
		cpus := *resource.NewQuantity(int64(b.Health.CPUs), resource.DecimalSI)
		capacity[corev1.ResourceCPU], allocatable[corev1.ResourceCPU] = cpus, cpus
	}
	if b.HealthAt.IsZero() {
		return capacity, allocatable
	}
	limit := b.Health.MetaspaceMax
	if limit <= 0 { // arklet.Unlimited
		capacity[corev1.ResourceMemory] = *resource.NewQuantity(unlimited, resource.BinarySI)
		allocatable[corev1.ResourceMemory] = capacity[corev1.ResourceMemory]
		return capacity, allocatable
	}
	free := limit - max(inUse(b)-requested, 0)
	capacity[corev1.ResourceMemory] = *resource.NewQuantity(limit/1024*1024, resource.BinarySI)
	allocatable[corev1.ResourceMemory] = *resource.NewQuantity(max(free/mebibyte*mebibyte, 0), resource.BinarySI)
	return capacity, allocatable
}

// releasesLeft returns the number of releases after which the base is still not under memory pressure, if each release
// leaves as much metaspace behind as the past releases. It returns labels.Unlimited if they left nothing behind, and
// the empty string if the number is unknown. The committed metaspace includes the space for two versions during a
// release.
func releasesLeft(b base.Snapshot) string {
	limit := int64(memoryPressureAt * float64(b.Health.MetaspaceMax))
	switch g := b.Growth; {
	case limit > 0 && inUse(b) > limit:
		return "0"
	case g.Releases == 0 || limit <= 0:
		return ""
	case g.Bytes == 0:
		return labels.Unlimited
	default:
		return strconv.FormatInt((limit-inUse(b))*int64(g.Releases)/g.Bytes, 10)
	}
}

// inUse returns the committed metaspace in bytes. The metaspace limit of the JVM applies to committed memory.
func inUse(b base.Snapshot) int64 {
	if b.HealthAt.IsZero() {
		return 0
	}
	return max(b.Health.MetaspaceCommitted, b.Health.MetaspaceUsed, 0)
}

func conditions(b base.Snapshot, oldConditions []corev1.NodeCondition, now time.Time) []corev1.NodeCondition {
	ready := corev1.NodeCondition{Type: corev1.NodeReady, Status: corev1.ConditionTrue, Reason: api.ReasonBaseActivated,
		Message: "the base sends heartbeats"}
	switch {
	case b.Liveness != base.Reachable:
		ready.Status, ready.Reason = corev1.ConditionUnknown, "BaseInstanceNotReady"
		ready.Message = "no heartbeat from the base since " + b.LastSeen.UTC().Format(time.RFC3339)
	case !b.InService():
		ready.Status, ready.Reason = corev1.ConditionFalse, api.ReasonBaseDeactivated
		ready.Message = "the base reports in its health that it is deactivated"
	}
	memory := corev1.NodeCondition{Type: corev1.NodeMemoryPressure, Status: corev1.ConditionFalse,
		Reason: "MetaspaceSufficient"}
	if limit := b.Health.MetaspaceMax; !b.HealthAt.IsZero() && limit > 0 &&
		float64(inUse(b)) > memoryPressureAt*float64(limit) {
		memory.Status, memory.Reason = corev1.ConditionTrue, api.ReasonMetaspacePressure
		memory.Message = fmt.Sprintf("more than %.0f%% of the metaspace is committed", memoryPressureAt*100)
	}
	list := []corev1.NodeCondition{
		ready,
		observedCondition(b),
		memory,
		{Type: corev1.NodeDiskPressure, Status: corev1.ConditionFalse, Reason: "NotReported"},
		{Type: corev1.NodePIDPressure, Status: corev1.ConditionFalse, Reason: "NotReported"},
		{Type: corev1.NodeNetworkUnavailable, Status: corev1.ConditionFalse, Reason: "TunnelConnected"},
	}
	for i := range list {
		list[i].LastTransitionTime = metav1.NewTime(now)
		list[i].LastHeartbeatTime = metav1.NewTime(now)
		for _, o := range oldConditions {
			if o.Type == list[i].Type && o.Status == list[i].Status {
				list[i].LastTransitionTime = o.LastTransitionTime
			}
		}
	}
	return list
}

func observedCondition(b base.Snapshot) corev1.NodeCondition {
	c := corev1.NodeCondition{Type: api.ConditionObserved, Status: corev1.ConditionFalse,
		Reason: string(b.Observed.Reason)}
	since := b.Observed.Since.UTC().Format(time.RFC3339)
	const unchanged = "; missed heartbeats are ignored, and its Pods stay unchanged"
	switch b.Observed.Reason {
	case base.TunnelDown:
		c.Message = "no heartbeat since the tunnel of the controller went down at " + since + unchanged
	case base.ControllerSuspended:
		c.Message = "no heartbeat since the controller was suspended at " + since + unchanged
	case base.MassOutage:
		c.Message = "no heartbeat since " + since + ", like many other bases: " +
			string(errcode.ModuleControllerOverFiftyPercentBaseInstancesUnavaliable) + unchanged
	default:
		c.Status, c.Reason, c.Message = corev1.ConditionTrue, "TunnelUp",
			"the controller can receive heartbeats of the base"
	}
	return c
}

// Info returns the data of a base from its Node, so that a restarted controller knows the base before the base sends
// its first message. ok is false for Nodes that do not represent bases. A Node of ModuleController V2 contains the
// identity only in its name, vnode.<identity>.<env>.
func Info(n *corev1.Node) (info base.Info, ok bool) {
	if n.Labels[labels.Component] != labels.Vnode {
		return base.Info{}, false
	}
	identity := n.Annotations[labels.Identity]
	if identity == "" {
		identity, ok = strings.CutSuffix(strings.TrimPrefix(n.Name, namePrefix), "."+n.Labels[labels.Env])
		if !ok || identity == "" {
			return base.Info{}, false
		}
	}
	info = base.Info{
		Identity: identity,
		Name:     n.Labels[labels.BaseName],
		Version:  n.Labels[labels.BaseVersion],
		Cluster:  n.Labels[labels.BaseCluster],
		Labels:   reportedLabels(n),
		Tunnel:   tunnel.Key(n.Labels[labels.Tunnel]),
	}
	info.Port, _ = strconv.Atoi(n.Labels[labels.TunnelPort]) // absent over MQTT
	if info.Tunnel == "" {                                   // ModuleController V2 does not set the label
		info.Tunnel = tunnel.MQTT
		if info.Port > 0 {
			info.Tunnel = tunnel.HTTP
		}
	}
	if host := n.Labels[labels.BaseHost]; host != labelValue(Name(identity)) { // default without a host name
		info.HostName = host
	}
	for _, a := range n.Status.Addresses {
		if a.Type == corev1.NodeInternalIP {
			info.IP = a.Address
		}
	}
	return info, true
}

// Check returns an error if a module controller cannot have created the Node. Any client with permission to write
// Nodes can create Nodes with these labels. networks contains the networks in which bases may report addresses. For
// an address that is not allowed, Check returns an error over HTTP; over MQTT, the returned info omits the address.
func Check(n *corev1.Node, info base.Info, networks tunnel.Networks) (base.Info, error) {
	if err := arklet.CheckIdentity(info.Identity); err != nil {
		return info, err
	}
	if n.Name != Name(info.Identity) && n.Name != namePrefix+info.Identity+"."+n.Labels[labels.Env] {
		return info, fmt.Errorf("the Node of base %q must have the name %s", info.Identity, Name(info.Identity))
	}
	if info.Tunnel != tunnel.MQTT && info.Tunnel != tunnel.HTTP {
		return info, fmt.Errorf("unknown tunnel %q", info.Tunnel)
	}
	var err error
	if info.Tunnel == tunnel.HTTP {
		// the peer address of the heartbeat was checked when it arrived
		info.IP, err = networks.Check(info.IP, netip.Addr{})
		return info, err
	}
	info.IP, _ = networks.CheckUnproven(info.IP) // empty if the address is not allowed
	return info, nil
}
