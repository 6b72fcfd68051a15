package shipped

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

// While the broker is unavailable, a controller with both tunnels stays ready, and bases over HTTP can start
// and end. The metrics show that bases over MQTT are not observed.
func TestBasesOverHTTPWithoutABroker(t *testing.T) {
	t.Parallel()
	env, broker := environment(), startBroker(t, "127.0.0.1:0")
	c := controller(t, "both-tunnels", broker.addr, map[string]string{
		"ENV": env, "ENABLE_HTTP_TUNNEL": "true", "BASE_NETWORKS": "127.0.0.0/8,198.18.0.0/15", "TIME_SCALE": "4",
	})
	c.ready(t)
	start(t, "over-mqtt", "fakebase", nil, "--mqtt", "tcp://"+broker.addr, "--env", env, "--identity", "over-mqtt", "--heartbeat-interval", "2s")
	eventually(t, "the base over MQTT is Ready", func(ctx context.Context) error { return allReady(ctx, env, 1) })
	broker.stop()
	eventually(t, "the base over MQTT is not observed", func(ctx context.Context) error {
		if err := c.counted(ctx, "module_controller_bases_unobserved", map[string]string{"reason": "TunnelDown"}, 1); err != nil {
			return err
		}
		return c.counted(ctx, "module_controller_blindness_total", map[string]string{"reason": "TunnelDown"}, 1)
	})
	m, err := c.metrics(t.Context())
	must(t, err)
	if n := m.Sum("module_controller_tunnel_connected", nil); n != 0 {
		t.Errorf("module_controller_tunnel_connected is %v without a broker, want 0", n)
	}
	if _, err := c.ask(t.Context(), "health", "/tunnelz"); err == nil {
		t.Error("/tunnelz answers 200 without a broker")
	}
	heart, err := c.logged(`msg="receiving heartbeats over HTTP" addr=`)
	must(t, err)
	ready := func() {
		t.Helper()
		_, err := c.ask(t.Context(), "health", "/readyz")
		must(t, err)
	}
	ready()
	over := start(t, "over-http", "fakebase", nil, "--http", "http://"+heart, "--env", env, "--identity", "over-http", "--name", "over-http",
		"--ip", "127.0.13.1", "--http-addr", "127.0.13.1:0", "--heartbeat-interval", "2s", "--activation", "new")
	eventually(t, "the base over HTTP is Ready", func(ctx context.Context) error { return nodeReady(ctx, "vnode.over-http") })
	ready()
	_, remove := deployModuleOn(t, env, "orders", "over-http", 1)
	remove()
	over.end()
	eventually(t, "the Node of the base over HTTP is deleted", func(ctx context.Context) error {
		return allReady(ctx, env, 1)
	})
	ready()

	// A controller that starts while the broker is unavailable also serves bases over HTTP.
	c.end()
	c = controller(t, "both-tunnels", broker.addr, map[string]string{
		"ENV": env, "ENABLE_HTTP_TUNNEL": "true", "BASE_NETWORKS": "127.0.0.0/8,198.18.0.0/15", "TIME_SCALE": "4",
	})
	c.ready(t)
	startBroker(t, broker.addr)
	eventually(t, "the base over MQTT is observed again", func(ctx context.Context) error {
		m, err := c.metrics(ctx)
		if err == nil && m.Sum("module_controller_bases_unobserved", nil) != 0 {
			err = fmt.Errorf("%v bases are not", m.Sum("module_controller_bases_unobserved", nil))
		}
		return err
	})
}

// While the messages of bases arrive late, module_controller_tunnel_behind is 1, and Nodes stay Ready.
func TestLateMessages(t *testing.T) {
	t.Parallel()
	env, broker := environment(), startBroker(t, "127.0.0.1:0")
	relay := startRelay(t, broker.addr)
	c := controller(t, "late", relay.addr, map[string]string{"ENV": env})
	c.ready(t)
	start(t, "heard", "fakebase", nil, "--mqtt", "tcp://"+broker.addr, "--env", env, "--identity", "heard")
	eventually(t, "the base is Ready", func(ctx context.Context) error { return allReady(ctx, env, 1) })
	behind := func(want float64) {
		t.Helper()
		eventually(t, fmt.Sprintf("module_controller_tunnel_behind is %v", want), func(ctx context.Context) error {
			m, err := c.metrics(ctx)
			if err == nil && m.Sum("module_controller_tunnel_behind", nil) != want {
				err = errors.New("it is not")
			}
			return err
		})
	}
	// The controller measures the delay by messages to itself, on the topic of baselines. The base also
	// receives an answer on this topic.
	eventually(t, "the controller hears itself", func(context.Context) error { return relay.heard("/base/baseline", 3) })
	relay.delay.Lock()
	behind(1)
	eventually(t, "the reason is counted", func(ctx context.Context) error {
		return c.counted(ctx, "module_controller_blindness_total", map[string]string{"reason": "ControllerBehind"}, 1)
	})
	relay.delay.Unlock()
	behind(0)
	must(t, allReady(t.Context(), env, 1))
}

// relay forwards connections to a broker. While delay is locked, it holds back the data from the broker.
type relay struct {
	addr  string
	delay sync.RWMutex

	mu   sync.Mutex
	from bytes.Buffer // what the broker has sent
}

func startRelay(t *testing.T, broker string) *relay {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	r := &relay{addr: l.Addr().String()}
	t.Cleanup(func() { _ = l.Close() }) // the connections end with the controller
	go func() {
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			to, err := net.Dial("tcp", broker)
			if err != nil {
				_ = conn.Close() // the controller connects again
				continue
			}
			go func() { _, _ = io.Copy(to, conn); _ = to.Close() }() // either side may end first
			go func() { _, _ = io.Copy(io.MultiWriter(r, conn), to); _ = conn.Close() }()
		}
	}()
	return r
}

// Write receives the data from the broker, and blocks while the data is held back.
func (r *relay) Write(p []byte) (int, error) {
	r.delay.RLock()
	defer r.delay.RUnlock()
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.from.Write(p)
}

// heard reports an error unless the broker has sent a text n times.
func (r *relay) heard(text string, n int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := bytes.Count(r.from.Bytes(), []byte(text)); found < n {
		return fmt.Errorf("the broker has sent %q %d times", text, found)
	}
	return nil
}

// A connection that sends nothing is closed.
func TestSilentConnectionsAreClosed(t *testing.T) {
	t.Parallel()
	c := controller(t, "silent", "", map[string]string{"ENV": environment(), "ENABLE_MQTT_TUNNEL": "false", "ENABLE_HTTP_TUNNEL": "true"})
	c.ready(t)
	var group errgroup.Group
	for _, listener := range []string{`msg="receiving heartbeats over HTTP" addr=`, "msg=serving what=health addr=", "msg=serving what=metrics addr="} {
		addr, err := c.logged(listener)
		must(t, err)
		group.Go(func() error {
			conn, err := net.Dial("tcp", addr)
			if err != nil {
				return err
			}
			defer func() { _ = conn.Close() }() // the controller closes it
			if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
				return err
			}
			_, err = io.Copy(io.Discard, conn)
			return err
		})
	}
	must(t, group.Wait())
}

// Readiness probes that hang on one base do not delay those of other bases.
func TestHangingProbes(t *testing.T) {
	t.Parallel()
	const hanging = 70 // more than the controller sends at the same time
	env, broker := environment(), startBroker(t, "127.0.0.1:0")
	c := controller(t, "probes", broker.addr, map[string]string{"ENV": env})
	c.ready(t)
	for i, name := range []string{"hangs", "works"} {
		start(t, name, "fakebase", nil, "--mqtt", "tcp://"+broker.addr, "--env", env, "--identity", name, "--name", name,
			"--ip", fmt.Sprintf("198.18.78.%d", i+1), "--activation", "new", "--metaspace-max", "-1")
		eventually(t, "base "+name+" is Ready", func(ctx context.Context) error { return nodeReady(ctx, "vnode."+name) })
	}
	silent, err := net.Listen("tcp", "127.0.0.1:0") // accepts connections, and never answers
	must(t, err)
	t.Cleanup(func() { _ = silent.Close() })
	var probes atomic.Int64
	answers := httptest.NewServer(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { probes.Add(1) }))
	t.Cleanup(answers.Close)

	ns, _ := deployModuleOn(t, env, "first", "works", 1)
	running := func(base, addr string, timeout int32, names ...string) {
		t.Helper()
		var containers []corev1.Container
		for _, name := range names {
			container := module.Container(name, "1.0.0")
			container.ReadinessProbe = &corev1.Probe{TimeoutSeconds: timeout, PeriodSeconds: 1, ProbeHandler: corev1.ProbeHandler{
				HTTPGet: &corev1.HTTPGetAction{Host: "127.0.0.1", Port: intstr.Parse(portOf(t, addr)), Path: "/"},
			}}
			containers = append(containers, container)
		}
		template := module.Template(base, containers...)
		template.Spec.NodeSelector[labels.Env], template.Spec.NodeSelector[labels.BaseName] = env, base
		_, err := client.CoreV1().Pods(ns).Create(t.Context(), module.Pod(ns, base, template), metav1.CreateOptions{})
		must(t, err)
		eventually(t, "the modules of Pod "+base+" are installed", func(ctx context.Context) error {
			p, err := client.CoreV1().Pods(ns).Get(ctx, base, metav1.GetOptions{})
			if err != nil {
				return err
			}
			n := 0
			for _, s := range p.Status.ContainerStatuses {
				if s.State.Running != nil {
					n++
				}
			}
			if n != len(names) {
				return fmt.Errorf("%d are", n)
			}
			return nil
		})
	}
	running("works", answers.Listener.Addr().String(), 1, "works")
	hang := make([]string, hanging)
	for i := range hang {
		hang[i] = fmt.Sprintf("hang-%d", i)
	}
	running("hangs", silent.Addr().String(), 100_000, hang...)
	before := probes.Load()
	eventually(t, "the module on the other base is probed every second", func(context.Context) error {
		if n := probes.Load() - before; n < 6 {
			return fmt.Errorf("it was probed %d times", n)
		}
		return nil
	})
}

func portOf(t *testing.T, addr string) string {
	t.Helper()
	_, port, err := net.SplitHostPort(addr)
	must(t, err)
	return port
}
