package rights

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/klient/k8s/resources"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
)

// trapHost and trapIP are the host name and the IP address that a hostile base reports. A request to either of them
// reaches a listener of the test.
const (
	trapHost = "127.9.8.7"
	trapIP   = "127.9.8.8"
)

// TestLogsAndExecReachTheController checks that for logs and exec of a module, the API server connects to the
// controller, and never to a host name or an address that the base reports. The API server uses its default
// kubelet-preferred-address-types.
func TestLogsAndExecReachTheController(t *testing.T) {
	ns := namespace(t)
	pod := onHostileBase(t, ns, overMQTT(t))
	port := fmt.Sprint(nodeOf(t, pod).Status.DaemonEndpoints.KubeletEndpoint.Port)
	var listeners []*net.TCPListener
	for _, host := range []string{trapHost, trapIP} {
		l, err := net.Listen("tcp", net.JoinHostPort(host, port))
		must(t, err)
		t.Cleanup(func() { must(t, l.Close()) })
		listeners = append(listeners, l.(*net.TCPListener)) //nolint:forcetypeassert // the network is tcp
	}
	logs, err := client.CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(logs), "installBiz answered: SUCCESS") {
		t.Errorf("kubectl logs prints %q: %v", logs, err)
	}
	api, err := resources.New(config)
	must(t, err)
	var out, errOut bytes.Buffer
	err = api.ExecInPod(t.Context(), ns, pod.Name, pod.Name, []string{"ark", "health"}, &out, &errOut)
	if err != nil || !strings.Contains(out.String(), "METASPACE") {
		t.Errorf("kubectl exec prints %q: %v", out.String()+errOut.String(), err)
	}
	for _, l := range listeners {
		must(t, l.SetDeadline(time.Now().Add(100*time.Millisecond))) // a connection would already be pending
		if _, err := l.Accept(); !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("the API server connected to %s (%v)", l.Addr(), err)
		}
	}
}

// overMQTT returns the options of a base that connects to the sandbox's broker.
func overMQTT(t *testing.T) fakebase.Options {
	t.Helper()
	broker, err := shared.Broker()
	must(t, err)
	return fakebase.Options{Env: broker.Env, MQTT: &fakebase.MQTTOptions{
		Broker: "tcp://" + broker.Addr, Username: "base", Password: broker.Passwords.Base,
		ClientPrefix: broker.ClientPrefix,
	}}
}

// onHostileBase starts a base that reports trapHost and trapIP, and returns a Ready Pod on this base.
func onHostileBase(t *testing.T, ns string, o fakebase.Options) *corev1.Pod {
	t.Helper()
	name := envconf.RandomName("hostile", 14)
	o.Identity, o.Name, o.HostName, o.IP = name, name, trapHost, trapIP
	base, err := fakebase.New(o)
	must(t, err)
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- base.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		if err := <-ended; err != nil {
			t.Errorf("the base failed: %v", err)
		}
	})
	template := module.Template(name, module.Container(name, "1.0.0"))
	template.Spec.NodeSelector[module.LabelBaseName] = name
	_, err = client.CoreV1().Pods(ns).Create(t.Context(), module.Pod(ns, name, template), metav1.CreateOptions{})
	must(t, err)
	pod := readyPod(t, ns, name)
	if n := nodeOf(t, pod); n.Labels[corev1.LabelHostname] != trapHost || n.Status.Addresses[0].Address != trapIP {
		t.Fatalf("the Node does not have the addresses of the traps: %v %v", n.Labels, n.Status.Addresses)
	}
	return pod
}

func nodeOf(t *testing.T, pod *corev1.Pod) *corev1.Node {
	t.Helper()
	n, err := client.CoreV1().Nodes().Get(t.Context(), pod.Spec.NodeName, metav1.GetOptions{})
	must(t, err)
	return n
}
