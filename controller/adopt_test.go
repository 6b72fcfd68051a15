package controller

import (
	"bytes"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/internal/vnode"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// nodeOf returns the Node that a controller of environment env creates for base b.
func nodeOf(env string, b base.Info) *corev1.Node {
	return vnode.Settings{Env: env}.Node(base.Snapshot{Info: b}, 0, nil, metav1.Now().Time)
}

// withChange applies change to n and returns n.
func withChange(n *corev1.Node, change func(n *corev1.Node)) *corev1.Node {
	change(n)
	return n
}

// TestAdopt starts a controller in a cluster with existing Nodes. The controller must adopt the base of each Node
// that a module controller created. It must log every other Node once and ignore it.
func TestAdopt(t *testing.T) {
	overMQTT := base.Info{Identity: "m", Name: "base", Version: "1.0.0", Tunnel: tunnel.MQTT, IP: "198.18.0.1"}
	overHTTP := base.Info{Identity: "h", Name: "base", Version: "1.0.0", Tunnel: tunnel.HTTP, IP: "198.18.0.2",
		Port: 1238}
	of := func(identity string, b base.Info) base.Info { b.Identity = identity; return b }
	noAddress := of("no-heartbeat", overMQTT)
	noAddress.IP = ""
	older := withChange(nodeOf("dev", of("older", overMQTT)),
		func(n *corev1.Node) { n.Name, n.Annotations = "vnode.older.dev", nil })
	// the same Node after the bundled controller started serving the base
	taken := withChange(nodeOf("dev", of("taken", overMQTT)), func(n *corev1.Node) { n.Name = "vnode.taken.dev" })
	good := []*corev1.Node{nodeOf("dev", overMQTT), nodeOf("dev", overHTTP),
		nodeOf("dev", of("A_b c.Überall", overMQTT)), nodeOf("dev", noAddress), older, taken}
	want := map[string]base.Info{"m": overMQTT, "h": overHTTP, "A_b c.Überall": of("A_b c.Überall", overMQTT),
		"no-heartbeat": noAddress, "older": of("older", overMQTT), "taken": of("taken", overMQTT)}

	others := []*corev1.Node{nodeOf("prod", of("another-environment", overMQTT)),
		{ObjectMeta: metav1.ObjectMeta{Name: "worker"}}}
	bad := map[string]*corev1.Node{ // by a part of the log line
		`\"x/+/#\"`:   nodeOf("dev", of("x/+/#", overMQTT)),
		`\"a\\x00b\"`: nodeOf("dev", of("a\x00b", overMQTT)),
		`300 bytes`:   nodeOf("dev", of(strings.Repeat("a", 300), overMQTT)),
		`vnode.victim`: withChange(nodeOf("dev", of("worker-1", overHTTP)),
			func(n *corev1.Node) { n.Annotations[labels.Identity] = "victim" }),
		`\"carrier-pigeon\"`: withChange(nodeOf("dev", of("pigeon", overMQTT)),
			func(n *corev1.Node) { n.Labels[labels.Tunnel] = "carrier-pigeon" }),
		`localIP 169.254.169.254`: withChange(nodeOf("dev", of("metadata", overHTTP)),
			func(n *corev1.Node) { n.Status.Addresses[0].Address = "169.254.169.254" }),
		`localIP \"an.address.that.is.none\"`: withChange(nodeOf("dev", of("no-ip", overHTTP)),
			func(n *corev1.Node) { n.Status.Addresses[0].Address = "an.address.that.is.none" }),
	}

	var log bytes.Buffer
	c, err := prepare(Options{Config: &rest.Config{}, ClientID: "c", MQTT: &MQTTOptions{Broker: "127.0.0.1:1"},
		Logger: slog.New(slog.NewTextHandler(&log, nil))})
	if err == nil {
		err = c.wire(fake.NewClientset(), &rest.Config{})
	}
	if err != nil {
		t.Fatal(err)
	}
	events := record.NewFakeRecorder(100)
	c.recorder = events
	for _, n := range append(append(good, others...), slices.Collect(maps.Values(bad))...) {
		if err := c.nodes.Informer().GetStore().Add(n); err != nil {
			t.Fatal(err)
		}
	}
	c.adopt()

	got := map[string]base.Info{}
	for identity := range want {
		if b, known := c.registry.Get(identity); known {
			got[identity] = b.Info
		}
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("bases (-want +got):\n%s", diff)
	}
	known := 0
	for _, n := range c.registry.Count() {
		known += n
	}
	if known != len(want) {
		t.Errorf("%d bases are registered, want %d", known, len(want))
	}
	if n := len(events.Events); n != len(bad) {
		t.Errorf("%d Events, want %d", n, len(bad))
	}
	for logged, n := range bad {
		if !strings.Contains(log.String(), fmt.Sprintf("node=%s", n.Name)) || strings.Count(log.String(), logged) != 1 {
			t.Errorf("the log does not contain one line for Node %s with %q:\n%s", n.Name, logged, log.String())
		}
	}
}
