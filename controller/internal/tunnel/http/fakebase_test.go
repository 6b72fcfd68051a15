package httptunnel

import (
	"context"
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/fakebase"
)

// TestWithFakeBase checks that a simulated base can register with the tunnel, and that a module can then be installed
// on it, switched and uninstalled.
func TestWithFakeBase(t *testing.T) {
	h := newHandler()
	tn := serve(t, Options{Networks: everywhere,
		Dial: func(ctx context.Context, network, addr string) (net.Conn, error) {
			_, port, err := net.SplitHostPort(addr)
			if err != nil {
				return nil, err
			}
			return (&net.Dialer{}).DialContext(ctx, network, net.JoinHostPort("127.0.0.1", port))
		}}, h)
	b, err := fakebase.New(fakebase.Options{
		Identity: "a", HTTP: &fakebase.HTTPOptions{Addr: "127.0.0.1:0", HeartbeatEndpoint: "http://" + tn.Addr()},
	})
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Start(ctx) }()
	defer func() {
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	}()

	beat := (<-h.told).Heartbeat
	if diff := cmp.Diff(arklet.Heartbeat{Identity: "a", Name: "base", Version: "1.0.0", Cluster: "default",
		IP: "198.18.0.1", HostName: "a", Active: true}, beat, cmpopts.IgnoreFields(beat, "Port")); diff != "" {
		t.Errorf("heartbeat (-want +got):\n%s", diff)
	}
	to := tunnel.Address{Identity: "a", IP: beat.IP, Port: beat.Port}
	ask := func(command arklet.Command, m arklet.Module) event {
		t.Helper()
		if err := tn.Send(t.Context(), to, arklet.Request{Command: command, Module: m}); err != nil {
			t.Fatal(err)
		}
		for e := range h.told {
			if e.Heartbeat.Identity == "" {
				return e
			}
		}
		return event{}
	}
	m := arklet.Module{Name: "biz1", Version: "1.0.0", URL: "http://nowhere.invalid/biz1-1.0.0.jar"}
	if e := ask(arklet.CommandInstallBiz, m); !e.Answer.Succeeded() || !e.Answer.PublishedAt.Equal(e.From.At) {
		t.Errorf("install: %+v", e)
	}
	if e := ask(arklet.CommandInstallBiz, m); !e.Answer.AlreadyInstalled() {
		t.Errorf("install again: %+v", e)
	}
	list := ask(arklet.CommandQueryAllBiz, arklet.Module{}).List
	want := []arklet.Biz{{Name: "biz1", Version: "1.0.0", State: arklet.StateActivated}}
	if diff := cmp.Diff(want, list,
		cmpopts.IgnoreFields(arklet.Biz{}, "Latest", "Records", "WebContextPath")); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
	if e := ask(arklet.CommandHealth, arklet.Module{}); e.Health.State != arklet.StateActivated ||
		e.Health.MetaspaceUsed <= 0 {
		t.Errorf("health: %+v", e)
	}
	if e := ask(arklet.CommandSwitchBiz, m); !e.Answer.Succeeded() {
		t.Errorf("switch: %+v", e)
	}
	if e := ask(arklet.CommandUninstallBiz, m); !e.Answer.Succeeded() {
		t.Errorf("uninstall: %+v", e)
	}
	if e := ask(arklet.CommandUninstallBiz, m); !e.Answer.NotInstalled() {
		t.Errorf("uninstall again: %+v", e)
	}
}
