package shipped

import (
	"context"
	"fmt"
	"io"
	"net"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
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
