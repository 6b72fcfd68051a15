package controller

import (
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/record"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// TestCompareBaselines checks that a base that lacks a module of its baseline gets an Event and is counted at the
// second comparison, and is no longer counted after the module is active.
func TestCompareBaselines(t *testing.T) {
	c, err := prepare(Options{Config: &rest.Config{}, ClientID: "c", MQTT: &MQTTOptions{Broker: "127.0.0.1:1"},
		Deployments: true})
	if err == nil {
		err = c.wire(fake.NewClientset(), &rest.Config{})
	}
	if err != nil {
		t.Fatal(err)
	}
	events := record.NewFakeRecorder(10)
	c.recorder = events
	tolerations := []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
	peer := &appsv1.Deployment{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stock",
		Labels: map[string]string{labels.Component: labels.ModuleDeployment, labels.Strategy: labels.Peer}}}
	peer.Spec.Template.Labels = map[string]string{labels.Component: "module"}
	peer.Spec.Template.Spec = corev1.PodSpec{Tolerations: tolerations, Containers: []corev1.Container{{Name: "stock",
		Image: "file:///stock.jar", Env: []corev1.EnvVar{{Name: "BIZ_VERSION", Value: "1.0.0"}}}}}
	if err := c.workloads.Apps().V1().Deployments().Informer().GetStore().Add(peer); err != nil {
		t.Fatal(err)
	}
	origin := tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "a"}
	list := func(state arklet.State) {
		origin.At = origin.At.Add(time.Second)
		c.registry.SetModules(origin, []arklet.Biz{{Name: "stock", Version: "1.0.0", State: state}})
	}
	node := nodeOf("dev", base.Info{Identity: "a", Tunnel: tunnel.MQTT})
	if err := c.nodes.Informer().GetStore().Add(node); err != nil {
		t.Fatal(err)
	}
	listener{c}.Heartbeat(origin, arklet.Heartbeat{Name: "base", Active: true})

	for _, step := range []struct {
		name  string
		do    func()
		count int64
		event bool
	}{
		{"the module list is unknown", func() { c.provider.Serve("a", "vnode.a", "") }, 0, false},
		{"the module is broken", func() { list(arklet.StateBroken) }, 0, false},
		{"the module is still broken", func() {}, 1, true},
		{"another controller serves the base", func() { c.provider.StopServing("a", "vnode.a") }, 0, false},
		{"served again", func() { c.provider.Serve("a", "vnode.a", "") }, 0, false},
		{"served and broken", func() {}, 1, true},
		{"the module is active", func() { list(arklet.StateActivated) }, 0, false},
	} {
		step.do()
		c.compareBaselines()
		if n := c.inconsistent.Load(); n != step.count {
			t.Errorf("%s: %d inconsistent bases, want %d", step.name, n, step.count)
		}
		event := ""
		select {
		case event = <-events.Events:
		default:
		}
		is := strings.Contains(event, "BaselineInconsistency") && strings.Contains(event, "stock:1.0.0")
		if is != step.event {
			t.Errorf("%s: Event %q, want one: %t", step.name, event, step.event)
		}
	}
}
