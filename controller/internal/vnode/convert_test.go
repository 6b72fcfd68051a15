package vnode

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/labels"
)

var (
	noon     = time.Date(2024, 7, 18, 12, 0, 0, 0, time.UTC)
	settings = Settings{Env: "dev"}
)

func aBase() base.Snapshot {
	return base.Snapshot{
		Info: base.Info{
			Identity: "2ce92dca-032e-4956-bc91-27b43406dad2", Name: "base", Version: "1.0.0", Cluster: "default",
			IP: "198.18.0.1", HostName: "base-0", Tunnel: tunnel.MQTT,
		},
		Health:   arklet.Health{MetaspaceUsed: 50 << 20, MetaspaceCommitted: 60 << 20, MetaspaceMax: 256 << 20},
		HealthAt: noon,
		LastSeen: noon,
	}
}

func TestLabelsTaintsAndAddresses(t *testing.T) {
	n := settings.Node(aBase(), 0, nil, noon)
	if n.Name != "vnode.2ce92dca-032e-4956-bc91-27b43406dad2" {
		t.Errorf("name %q", n.Name)
	}
	if diff := cmp.Diff(map[string]string{
		"base.koupleless.io/stack":                "java",
		"base.koupleless.io/name":                 "base",
		"base.koupleless.io/version":              "1.0.0",
		"base.koupleless.io/cluster-name":         "default",
		"base.koupleless.io/host-name":            "base-0",
		"vnode.koupleless.io/name":                "base",
		"vnode.koupleless.io/version":             "1.0.0",
		"vnode.koupleless.io/tunnel":              "mqtt_tunnel_provider",
		"virtual-kubelet.koupleless.io/component": "vnode",
		"virtual-kubelet.koupleless.io/env":       "dev",
		"kubernetes.io/hostname":                  "base-0",
		"kubernetes.io/role":                      "agent",
		"node-role.kubernetes.io/base-0":          "base",
		"type":                                    "virtual-kubelet",
		"topology.kubernetes.io/zone":             "vnode.2ce92dca-032e-4956-bc91-27b43406dad2",
	}, n.Labels); diff != "" {
		t.Errorf("labels (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]corev1.Taint{
		{Key: "schedule.koupleless.io/virtual-node", Value: "True", Effect: "NoExecute"},
		{Key: "schedule.koupleless.io/node-env", Value: "dev", Effect: "NoExecute"},
	}, n.Spec.Taints); diff != "" {
		t.Errorf("taints (-want +got):\n%s", diff)
	}

	b := aBase()
	b.Tunnel, b.Port = tunnel.HTTP, 1238
	overHTTP := Settings{Env: "dev", KubeletAddress: "127.0.0.1", KubeletPort: 10250}.Node(b, 0, nil, noon)
	if got := overHTTP.Labels[labels.Tunnel] + " " +
		overHTTP.Labels[labels.TunnelPort]; got != "http_tunnel_provider 1238" {
		t.Errorf("the label of an HTTP base is %q", got)
	}
}

// TestAddresses checks that a Node has no address that its base has reported among the address types that the API
// server prefers for kubelets (by default Hostname, then InternalDNS).
func TestAddresses(t *testing.T) {
	for name, tc := range map[string]struct {
		in   Settings
		want string
	}{
		"served":         {Settings{KubeletAddress: "controller.example", KubeletPort: 10250}, "controller.example"},
		"not served":     {Settings{}, "kubelet-api-is-off.invalid"},
		"served nowhere": {Settings{KubeletPort: 10250}, "kubelet-api-is-off.invalid"},
		"without a port": {Settings{KubeletAddress: "controller.example"}, "kubelet-api-is-off.invalid"},
	} {
		t.Run(name, func(t *testing.T) {
			want := []corev1.NodeAddress{{Type: "InternalIP", Address: "198.18.0.1"},
				{Type: "InternalDNS", Address: tc.want}}
			if diff := cmp.Diff(want, tc.in.Node(aBase(), 0, nil, noon).Status.Addresses); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}

// TestRoles checks that the role label of a Node, which contains the host name that the base reports, never becomes a
// role that other components use.
func TestRoles(t *testing.T) {
	for host, want := range map[string][]string{
		"base-1":                  {"node-role.kubernetes.io/base-1"},
		"stock-7d9f.prod.example": {"node-role.kubernetes.io/base.stock-7d9f.prod.example"},
		"Laptop_1":                {"node-role.kubernetes.io/base.Laptop_1"},
		"":                        nil,
		"a host":                  nil,
		"a/b":                     nil,
		"a-":                      nil,
		strings.Repeat("a", 64):   nil,
		"the-identity":            nil, // the name of the Node contains it
		"control-plane":           {"node-role.kubernetes.io/base.control-plane"},
		"ingress":                 {"node-role.kubernetes.io/base.ingress"},
		"base":                    {"node-role.kubernetes.io/base.base"},
	} {
		var roles []string
		for key := range settings.Labels(base.Info{Identity: "the-identity", HostName: host}) {
			if strings.HasPrefix(key, "node-role.") {
				roles = append(roles, key)
			}
		}
		if diff := cmp.Diff(want, roles); diff != "" {
			t.Errorf("roles by the host name %q (-want +got):\n%s", host, diff)
		}
	}
}

func TestMemory(t *testing.T) {
	const mb = 1 << 20
	cases := []struct {
		name                           string
		used, committed, limit, wanted int64
		capacity, allocatable          string
	}{
		{"a base without modules: the metaspace of the base is excluded", 50 * mb, 60 * mb, 256 * mb, 0, "256Mi",
			"196Mi"},
		{"modules that request as much as is used take nothing twice", 150 * mb, 160 * mb, 256 * mb, 160 * mb, "256Mi",
			"256Mi"},
		{"requests above the use count alone", 50 * mb, 60 * mb, 256 * mb, 200 * mb, "256Mi", "256Mi"},
		{"use above the requests counts beyond them", 190 * mb, 200 * mb, 256 * mb, 100 * mb, "256Mi", "156Mi"},
		{"no limit: room for any Pod", 50 * mb, 60 * mb, -1, 0, "1Ti", "1Ti"},
		{"more in use than there is", 300 * mb, 300 * mb, 256 * mb, 0, "256Mi", "0"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := aBase()
			b.Health = arklet.Health{CPUs: 4, MetaspaceUsed: c.used, MetaspaceCommitted: c.committed,
				MetaspaceMax: c.limit}
			n := settings.Node(b, c.wanted, nil, noon)
			if got := n.Status.Capacity.Memory().String(); got != c.capacity {
				t.Errorf("capacity %s, want %s", got, c.capacity)
			}
			if got := n.Status.Allocatable.Memory().String(); got != c.allocatable {
				t.Errorf("allocatable %s, want %s", got, c.allocatable)
			}
			if got := n.Status.Allocatable.Cpu().String(); got != "4" {
				t.Errorf("allocatable CPUs %s, want 4", got)
			}
		})
	}
}

// TestReleasesLeft checks the forecast that the Node of a base shows.
func TestReleasesLeft(t *testing.T) {
	const mb = 1 << 20
	old := settings.Node(aBase(), 0, nil, noon)
	old.Annotations[labels.ReleasesLeft] = "9"
	for _, c := range []struct {
		name             string
		growth           base.Growth
		committed, limit int64
		want             string
	}{
		{"no history", base.Growth{}, 60 * mb, 100 * mb, ""},
		{"nothing left behind", base.Growth{Releases: 3}, 60 * mb, 100 * mb, labels.Unlimited},
		{"4 MiB for each release", base.Growth{Bytes: 8 * mb, Releases: 2}, 60 * mb, 100 * mb, "7"}, // 88 MiB
		{"under pressure", base.Growth{Bytes: 8 * mb, Releases: 2}, 91 * mb, 100 * mb, "0"},
		{"under pressure, without a history", base.Growth{}, 91 * mb, 100 * mb, "0"},
		{"no limit", base.Growth{Bytes: 8 * mb, Releases: 2}, 60 * mb, -1, ""},
	} {
		b := aBase()
		b.Growth = c.growth
		b.Health = arklet.Health{MetaspaceUsed: 50 * mb, MetaspaceCommitted: c.committed, MetaspaceMax: c.limit}
		if got := settings.Node(b, 0, old, noon).Annotations[labels.ReleasesLeft]; got != c.want {
			t.Errorf("%s: releases left %q, want %q", c.name, got, c.want)
		}
	}
	if got, shown := settings.Node(aBase(), 0, nil, noon).Annotations[labels.ReleasesLeft]; shown {
		t.Errorf("a Node without a forecast has the annotation %q", got)
	}
}

func TestConditions(t *testing.T) {
	cases := []struct {
		name                    string
		change                  func(*base.Snapshot)
		ready, memory, observed corev1.ConditionStatus
	}{
		{"reachable", func(*base.Snapshot) {}, "True", "False", "True"},
		{"unreachable", func(b *base.Snapshot) { b.Liveness = base.Unreachable }, "Unknown", "False", "True"},
		{"not observed", func(b *base.Snapshot) { b.Observed.Reason = base.TunnelDown }, "True", "False", "False"},
		{"metaspace nearly full", func(b *base.Snapshot) { b.Health.MetaspaceCommitted = 250 << 20 }, "True", "True",
			"True"},
		{"no limit", func(b *base.Snapshot) { b.Health.MetaspaceMax = -1 }, "True", "False", "True"},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			b := aBase()
			c.change(&b)
			n := settings.Node(b, 0, nil, noon)
			got := map[corev1.NodeConditionType]corev1.ConditionStatus{}
			for _, cond := range n.Status.Conditions {
				got[cond.Type] = cond.Status
				if cond.LastTransitionTime.IsZero() || cond.LastHeartbeatTime.IsZero() {
					t.Errorf("%s has no timestamps", cond.Type)
				}
			}
			want := map[corev1.NodeConditionType]corev1.ConditionStatus{
				"Ready": c.ready, "Observed": c.observed, "MemoryPressure": c.memory, "DiskPressure": "False",
				"PIDPressure": "False", "NetworkUnavailable": "False",
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("conditions (-want +got):\n%s", diff)
			}
		})
	}
}

func TestTransitionTimes(t *testing.T) {
	first := settings.Node(aBase(), 0, nil, noon)
	unreachable := aBase()
	unreachable.Liveness = base.Unreachable
	later := settings.Node(unreachable, 0, first, noon.Add(time.Minute))
	got := map[corev1.NodeConditionType]metav1.Time{}
	for _, c := range later.Status.Conditions {
		got[c.Type] = c.LastTransitionTime
	}
	if !got[corev1.NodeReady].Time.Equal(noon.Add(time.Minute)) {
		t.Errorf("Ready changed at %s", got[corev1.NodeReady])
	}
	if !got[corev1.NodeDiskPressure].Time.Equal(noon) {
		t.Errorf("the transition time of DiskPressure changed to %s", got[corev1.NodeDiskPressure])
	}
}

func TestNamesAreValidAndUnique(t *testing.T) {
	identities := []string{"10.1.2.3", "Base_A", "base-a", "BASE-A", "a/b", "a b", "中台", strings.Repeat("x", 300),
		"unknown-x1y2z", "", "-", "."}
	names := map[string]string{}
	for _, id := range identities {
		name := Name(id)
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("identity %q results in the name %q: %v", id, name, problems)
		}
		if other, taken := names[name]; taken {
			t.Errorf("identities %q and %q share the name %q", id, other, name)
		}
		names[name] = id
		for key, value := range settings.Labels(base.Info{Identity: id, Name: id, Version: id, HostName: id}) {
			if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
				t.Errorf("identity %q results in the label %s=%q: %v", id, key, value, problems)
			}
		}
	}
}

func TestInfoWithoutHostName(t *testing.T) {
	b := aBase()
	b.HostName = ""
	info, ok := Info(settings.Node(b, 0, nil, noon))
	if !ok || info.HostName != "" {
		t.Errorf("host name %q, ok %t", info.HostName, ok)
	}
}

func TestInfoOfNode(t *testing.T) {
	b := aBase()
	b.Tunnel, b.Port = tunnel.HTTP, 1239
	info, ok := Info(settings.Node(b, 0, nil, noon))
	if !ok {
		t.Fatal("a vnode is not recognised")
	}
	if diff := cmp.Diff(b.Info, info); diff != "" {
		t.Errorf("info (-want +got):\n%s", diff)
	}
	theirs := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "vnode.10.0.0.1.dev", Labels: map[string]string{
		"virtual-kubelet.koupleless.io/component": "vnode", "virtual-kubelet.koupleless.io/env": "dev",
		"base.koupleless.io/name": "base",
	}}}
	if diff := cmp.Diff(base.Info{Identity: "10.0.0.1", Name: "base", Tunnel: tunnel.MQTT},
		must(Info(theirs))); diff != "" {
		t.Errorf("info of a Node of ModuleController V2 (-want +got):\n%s", diff)
	}
	if _, ok := Info(&corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}); ok {
		t.Error("an ordinary node is taken for a vnode")
	}
}

// TestReportedLabels checks that a Node has the labels that its base reports, but not in place of the controller's own
// labels; that a restarted controller reads them from the Node; and that they are removed when the base no longer
// reports them.
func TestReportedLabels(t *testing.T) {
	b := aBase()
	b.Labels = map[string]string{"topology.kubernetes.io/zone": "z1", "rack": "7", "base.koupleless.io/name": "x"}
	n := settings.Node(b, 0, nil, noon)
	if n.Labels["topology.kubernetes.io/zone"] != "z1" || n.Labels["rack"] != "7" ||
		n.Labels["base.koupleless.io/name"] != "base" {
		t.Errorf("labels %v", n.Labels)
	}
	info, _ := Info(n)
	if diff := cmp.Diff(map[string]string{"topology.kubernetes.io/zone": "z1", "rack": "7"}, info.Labels); diff != "" {
		t.Errorf("labels of the Node (-want +got):\n%s", diff)
	}
	b.Labels = nil
	if again := settings.Node(b, 0, n, noon); again.Annotations["vnode.koupleless.io/reported-labels"] != "" ||
		again.Labels["topology.kubernetes.io/zone"] != n.Name {
		t.Errorf("without labels: %v %v", again.Labels, again.Annotations)
	}
}

func must[V any](v V, _ bool) V { return v }
