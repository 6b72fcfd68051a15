package rights

import (
	"bytes"
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/e2e-framework/klient/k8s/resources"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase"
)

// What bases of the tests name as their host and their address. The tests listen there, where the API
// server would look for a kubelet.
const (
	trapHost = "127.9.8.7"
	trapIP   = "127.9.8.8"
)

// kubeletPort is where the API server looks for a kubelet whose Node names no port.
const kubeletPort = "10250"

// The API server, with its default order of addresses, dials the controller for logs and exec of a
// module, and never a host or an address that the base has named.
func TestLogsAndExecReachTheController(t *testing.T) {
	ns := namespace(t)
	pod := onHostileBase(t, ns, overMQTT(t))
	port := fmt.Sprint(nodeOf(t, pod).Status.DaemonEndpoints.KubeletEndpoint.Port)
	dialled := traps(t, port)
	logs, err := client.CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{}).DoRaw(t.Context())
	if err != nil || !strings.Contains(string(logs), "installBiz answered: SUCCESS") {
		t.Errorf("kubectl logs prints %q: %v", logs, err)
	}
	api, err := resources.New(config)
	must(t, err)
	var out, complaints bytes.Buffer
	err = api.ExecInPod(t.Context(), ns, pod.Name, pod.Name, []string{"ark", "health"}, &out, &complaints)
	if err != nil || !strings.Contains(out.String(), "METASPACE") {
		t.Errorf("kubectl exec prints %q: %v", out.String()+complaints.String(), err)
	}
	nobody(t, dialled)
}

// Where a controller serves neither, the API server looks for a name that does not resolve, and dials
// nobody.
func TestLogsReachNobodyWhereNobodyServesThem(t *testing.T) {
	const env = "off"
	heartbeats := controllerWithoutKubelet(t, env)
	ns := namespace(t)
	pod := onHostileBase(t, ns, fakebase.Options{
		Env:  env,
		HTTP: &fakebase.HTTPOptions{Addr: net.JoinHostPort(trapIP, "0"), HeartbeatEndpoint: "http://" + heartbeats},
	})
	dialled := traps(t, kubeletPort)
	const nowhere = "https://kubelet-api-is-off.invalid:" + kubeletPort
	answer, err := client.CoreV1().Pods(ns).GetLogs(pod.Name, &corev1.PodLogOptions{}).Do(t.Context()).Raw()
	if err == nil || !strings.Contains(string(answer), nowhere) {
		t.Errorf("the API server does not look for a kubelet at %s: %q, %v", nowhere, answer, err)
	}
	nobody(t, dialled)
}

// overMQTT are the options of a base at the sandbox's broker.
func overMQTT(t *testing.T) fakebase.Options {
	t.Helper()
	broker, err := shared.Broker()
	must(t, err)
	return fakebase.Options{Env: broker.Env, MQTT: &fakebase.MQTTOptions{
		Broker: "tcp://" + broker.Addr, Username: "base", Password: broker.Passwords.Base, ClientPrefix: broker.ClientPrefix,
	}}
}

// onHostileBase starts a base that names the traps as its own, and returns a Ready Pod on it.
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
			t.Errorf("the base ended with: %v", err)
		}
	})
	template := module.Template(name, module.Container(name, "1.0.0"))
	template.Spec.NodeSelector[module.LabelBaseName] = name
	_, err = client.CoreV1().Pods(ns).Create(t.Context(), module.Pod(ns, name, template), metav1.CreateOptions{})
	must(t, err)
	pod := podOf(t, ns, name)
	if n := nodeOf(t, pod); n.Labels[corev1.LabelHostname] != trapHost || n.Status.Addresses[0].Address != trapIP {
		t.Fatalf("the traps are not the Node's: %v %v", n.Labels, n.Status.Addresses)
	}
	return pod
}

func nodeOf(t *testing.T, pod *corev1.Pod) *corev1.Node {
	t.Helper()
	n, err := client.CoreV1().Nodes().Get(t.Context(), pod.Spec.NodeName, metav1.GetOptions{})
	must(t, err)
	return n
}

// controllerWithoutKubelet starts a controller of an environment of its own, as the manifests have it by
// default, and returns where it takes heartbeats over HTTP.
func controllerWithoutKubelet(t *testing.T, env string) (heartbeats string) {
	t.Helper()
	cmd := exec.Command(filepath.Join(shared.Bin, box.ControllerProgram))
	cmd.Env = []string{
		"KUBECONFIG=" + filepath.Join(shared.Folder(), "module-controller.kubeconfig"), "METRICS_ADDR=", "HEALTH_ADDR=127.0.0.1:0", "CLIENT_ID=off", "ENV=" + env,
		"ENABLE_HTTP_TUNNEL=true", "HTTP_TUNNEL_LISTEN_HOST=127.0.0.1", "HTTP_TUNNEL_LISTEN_PORT=0", "BASE_NETWORKS=127.0.0.0/8",
	}
	log, err := os.Create(filepath.Join(t.TempDir(), "controller.log"))
	must(t, err)
	cmd.Stdout, cmd.Stderr = log, log
	must(t, cmd.Start())
	must(t, log.Close())
	t.Cleanup(func() {
		must(t, cmd.Process.Signal(syscall.SIGTERM)) // it gives up its Lease
		if err := cmd.Wait(); err != nil {
			t.Errorf("the controller ended with: %v", err)
		}
	})
	eventually(t, "the controller takes heartbeats", func(context.Context) (err error) {
		heartbeats, err = box.Logged(log.Name(), heartbeatsOver)
		return err
	})
	return heartbeats
}

// traps listens where bases say they are, and counts who comes.
func traps(t *testing.T, port string) map[string]*atomic.Int32 {
	t.Helper()
	counts := map[string]*atomic.Int32{}
	for _, host := range []string{trapHost, trapIP} {
		addr := net.JoinHostPort(host, port)
		counts[addr] = listen(t, addr)
	}
	return counts
}

func nobody(t *testing.T, dialled map[string]*atomic.Int32) {
	t.Helper()
	for addr, n := range dialled {
		if n.Load() != 0 {
			t.Errorf("the API server has dialled %s %d times", addr, n.Load())
		}
	}
}

// listen counts connections, and closes them.
func listen(t *testing.T, addr string) *atomic.Int32 {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	must(t, err)
	var n atomic.Int32
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			n.Add(1)
			_ = c.Close() // that it came is enough
		}
	}()
	t.Cleanup(func() {
		_ = l.Close()
		<-ended
	})
	return &n
}
