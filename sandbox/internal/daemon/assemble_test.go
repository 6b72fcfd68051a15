package daemon

import (
	"net"
	"path/filepath"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/heartbeat"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

// What an assembly has opened when it fails is closed with it, and may have been closed before.
func TestAssemblyClosesItsPorts(t *testing.T) {
	replicas := 1
	config := &v1alpha1.Sandbox{}
	config.Spec.Controller = v1alpha1.Controller{Location: v1alpha1.LocationCluster, Replicas: &replicas}
	noFolder := state.Home(filepath.Join(t.TempDir(), "missing")).Dir("test") // so the runner has no log
	a := &assembly{
		firstUp: &firstUp{d: New(Options{Dir: noFolder}), cluster: &fakeCluster{}, topology: Topology{Controllers: ownNodes}, request: control.UpRequest{Config: config}},
		config:  config, relay: heartbeat.New(nil),
	}
	if r, _, err := a.runner(&running{}, nil); err == nil {
		t.Fatalf("there is the runner %v", r)
	}
	if len(a.opened) != 1 {
		t.Fatalf("%d things are to be closed, not the port for commands alone", len(a.opened))
	}
	l, ok := a.opened[0].(port)
	if !ok {
		t.Fatalf("a %T was opened", a.opened[0])
	}
	for range 2 {
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
	if c, err := net.Dial("tcp", l.Addr().String()); err == nil {
		_ = c.Close()
		t.Error("somebody listens")
	}
}
