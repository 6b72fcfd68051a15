package controller

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/fakebase"
)

// TestTunnels checks that one controller serves bases with both tunnels and with all generations of the Koupleless
// runtime. A second Pod adopts the module of the first Pod, and its deletion uninstalls the module.
func TestTunnels(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		generation fakebase.Generation
		label      string
		start      func(*testing.T, fakebase.Options) *base
	}{
		{fakebase.GenerationA, "mqtt_tunnel_provider", overMQTT},
		{fakebase.GenerationB, "mqtt_tunnel_provider", overMQTT},
		{fakebase.GenerationC, "mqtt_tunnel_provider", overMQTT},
		{fakebase.GenerationD, "mqtt_tunnel_provider", overMQTT},
		{fakebase.GenerationC, "http_tunnel_provider", startHTTPBase},
		{fakebase.GenerationD, "http_tunnel_provider", startHTTPBase},
	} {
		for _, faithful := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s %s faithful=%t", c.label, c.generation, faithful), func(t *testing.T) {
				t.Parallel()
				ns, name := namespace(t), uniqueName()
				b := c.start(t, fakebase.Options{Name: name, Generation: c.generation, Faithful: faithful})
				createPod(t, ns, "m", singleModule("m", "1.0.0", name))
				readyPod(t, ns, "m")
				n, err := client.CoreV1().Nodes().Get(t.Context(), b.node(), metav1.GetOptions{})
				must(t, err)
				if got := n.Labels["vnode.koupleless.io/tunnel"]; got != c.label {
					t.Errorf("the Node has the tunnel label %q", got)
				}
				waitModules(t, b, "m:1.0.0 ACTIVATED")
				createPod(t, ns, "adopting", singleModule("m", "1.0.0", name))
				readyPod(t, ns, "adopting")
				deletePod(t, ns, "m")
				waitDeleted(t, ns, "m")
				waitModules(t, b, "m:1.0.0 ACTIVATED")
				deletePod(t, ns, "adopting")
				waitDeleted(t, ns, "adopting")
				waitModules(t, b)
				if n := b.countChanges("m:1.0.0", fakebase.StateResolved); n != 1 {
					t.Errorf("the module was installed %d times", n)
				}
			})
		}
	}
}

// TestModuleOfAnotherController checks that the controller can uninstall a module that another controller installed
// with a bizModelVersion. A base of generation D rejects an uninstallBiz with another bizModelVersion (protocol 4.10).
func TestModuleOfAnotherController(t *testing.T) {
	t.Parallel()
	ns, name := namespace(t), uniqueName()
	b := startHTTPBase(t, fakebase.Options{Name: name, Generation: fakebase.GenerationD})
	nodesReady(t, b)
	answer, err := http.Post("http://"+b.HTTPAddr()+"/installBiz", "application/json", strings.NewReader(
		`{"bizName":"m","bizVersion":"1.0.0","bizUrl":"http://h/m.jar","bizModelVersion":"default/another-pod"}`))
	must(t, err)
	must(t, answer.Body.Close())
	waitModules(t, b, "m:1.0.0 ACTIVATED")
	createPod(t, ns, "m", singleModule("m", "1.0.0", name))
	readyPod(t, ns, "m")
	deletePod(t, ns, "m")
	waitDeleted(t, ns, "m")
	waitModules(t, b)
	if n := b.countChanges("m:1.0.0", fakebase.StateResolved); n != 1 {
		t.Errorf("the module was installed %d times", n)
	}
}

// TestBaseWithBothTunnels checks that a base that uses both tunnels has one Node, and that each module is installed
// only once.
func TestBaseWithBothTunnels(t *testing.T) {
	t.Parallel()
	ns, name := namespace(t), uniqueName()
	high, low := nextAddress()
	ip := fmt.Sprintf("127.77.%d.%d", high, low)
	b := start(t, fakebase.Options{
		Name: name, IP: ip, Env: mqtt.Env,
		HTTP: &fakebase.HTTPOptions{Addr: net.JoinHostPort(ip, "0"), HeartbeatEndpoint: heartbeatURL},
		MQTT: &fakebase.MQTTOptions{Broker: "tcp://" + mqtt.Addr, Username: "base", Password: mqtt.Passwords.Base,
			ClientPrefix: mqtt.ClientPrefix},
	})
	nodesReady(t, b)
	for i := range 5 {
		app := fmt.Sprintf("m%d", i)
		createPod(t, ns, app, singleModule(app, "1.0.0", name))
	}
	for i := range 5 {
		app := fmt.Sprintf("m%d", i)
		readyPod(t, ns, app)
		if n := b.countChanges(app+":1.0.0", fakebase.StateResolved); n != 1 {
			t.Errorf("%s was installed %d times", app, n)
		}
	}
	list, err := client.CoreV1().Nodes().List(t.Context(),
		metav1.ListOptions{LabelSelector: "base.koupleless.io/name=" + name})
	must(t, err)
	if len(list.Items) != 1 {
		t.Errorf("%d Nodes of the base, want 1", len(list.Items))
	}
	owner := list.Items[0].Labels["vnode.koupleless.io/tunnel"]
	deletePod(t, ns, "m0")
	waitDeleted(t, ns, "m0")
	eventually(t, "the tunnel of the Node has not changed", func(ctx context.Context) error {
		n, err := client.CoreV1().Nodes().Get(ctx, b.node(), metav1.GetOptions{})
		if err == nil {
			err = diffError(owner, n.Labels["vnode.koupleless.io/tunnel"])
		}
		return err
	})
}
