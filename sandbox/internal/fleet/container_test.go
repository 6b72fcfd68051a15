package fleet_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/remote"
	"github.com/koupleless/koupsandbox/fakebase/stdio"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/fleet"
)

// engine starts what stands for containers: each is a server in this process.
type engine struct {
	mu      sync.Mutex
	running map[string]*container // by host name
	started int
	most    int // that were being started at once
	now     int
	refuse  string // the host name whose container does not start
}

type container struct {
	http.RoundTripper
	ip    string
	close func()
}

func (c *container) IP() string { return c.ip }

func (c *container) Close() error {
	c.close()
	return nil
}

func (e *engine) run(ctx context.Context, hostName string) (fleet.Container, error) {
	e.mu.Lock()
	e.now++
	e.most = max(e.most, e.now)
	e.mu.Unlock()
	defer func() {
		e.mu.Lock()
		e.now--
		e.mu.Unlock()
	}()
	here, there := net.Pipe()
	served := make(chan struct{})
	go func() {
		defer close(served)
		remote.Serve(context.WithoutCancel(ctx), there, "dev", slog.New(slog.DiscardHandler), 0)
	}()
	client, err := stdio.Dial(here)
	if err != nil {
		return nil, err
	}
	end := func() {
		_ = client.Close()
		<-served
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.running, hostName)
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.started++
	c := &container{RoundTripper: client, ip: fmt.Sprintf("172.18.0.%d", e.started), close: end}
	if hostName == e.refuse {
		go end()
		return nil, errors.New("the engine refuses")
	}
	e.running[hostName] = c
	return c, nil
}

func (e *engine) names() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	var names []string
	for name := range e.running {
		names = append(names, name)
	}
	return names
}

// kill ends a container as its engine would when told by others.
func (e *engine) kill(hostName string) {
	e.mu.Lock()
	c := e.running[hostName]
	e.mu.Unlock()
	c.close()
}

// newContainerBench is a fleet whose own bases are in containers.
func newContainerBench(t *testing.T) (*bench, *engine) {
	t.Helper()
	e := &engine{running: map[string]*container{}}
	t.Cleanup(func() { // after the end of the fleet
		if left := e.names(); len(left) > 0 {
			t.Errorf("containers are left: %v", left)
		}
	})
	var b *bench
	hearts := http.NewServeMux()
	hearts.HandleFunc("POST /{host}/heartbeat", func(w http.ResponseWriter, r *http.Request) {
		to, err := b.fleet.Beat(r.PathValue("host"))
		if err == nil {
			_, err = to.RoundTrip(r)
		}
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadGateway)
		}
	})
	server := httptest.NewServer(hearts)
	t.Cleanup(server.Close)
	b = newBenchWith(t, func(o *fleet.Options, brokerAddr string) {
		o.Own.Runtime = v1alpha1.RuntimeContainer
		o.Runtimes = map[v1alpha1.BaseRuntime]fleet.Runtime{v1alpha1.RuntimeContainer: &fleet.Containers{Run: e.run, Broker: "tcp://" + brokerAddr, Heartbeats: server.URL,
			Web: "127.0.0.1:0", Arklet: "127.0.0.1:0"}}
	})
	return b, e
}

func TestBasesInContainers(t *testing.T) {
	b, e := newContainerBench(t)
	own := b.add(t, 9)
	b.addSet(t, fleet.Set{Group: "run", Spec: v1alpha1.BaseSet{Runtime: v1alpha1.RuntimeProcess}}, 1)
	if e.most > 4 || e.started != 9 {
		t.Errorf("%d containers were started, %d at once", e.started, e.most)
	}
	for _, m := range own {
		found, ok := b.fleet.ByIP(m.IP)
		if s := m.Base.Status(); !ok || found != m || s.IP != m.IP || s.HostName != m.HostName || s.Name != "shop" || !s.Connected {
			t.Errorf("%s is %+v, behind its address is %v", m.HostName, s, found)
		}
	}
	if other := b.fleet.Group("run")[0]; other.IP != "198.18.0.1" || other.Runtime != v1alpha1.RuntimeProcess {
		t.Errorf("the base of this process: %+v", other)
	}
	if _, err := b.fleet.Remove(t.Context(), fleet.Selection{Names: []string{"base-2", "base-3"}}); err != nil {
		t.Fatal(err)
	}
	if left := e.names(); len(left) != 7 {
		t.Errorf("left are %v", left)
	}
	before := own[0].Base.Identity()
	m, err := b.fleet.Restart(t.Context(), "base-1", true)
	if err != nil || m.Base.Identity() == before || e.started != 9 {
		t.Errorf("restarted: %v, identity %s after %s", err, m.Base.Identity(), before)
	}
}

func TestContainerThatDoesNotStart(t *testing.T) {
	b, e := newContainerBench(t)
	b.add(t, 1)
	e.refuse = "base-3"
	if _, err := b.fleet.Add(t.Context(), fleet.Set{}, 3); err == nil || !strings.Contains(err.Error(), "the engine refuses") {
		t.Errorf("added: %v", err)
	}
	if diff := cmp.Diff([]string{"base-1"}, e.names()); diff != "" {
		t.Errorf("containers (-want +got):\n%s", diff)
	}
	e.refuse = ""
	if added := b.add(t, 1); added[0].HostName != "base-2" {
		t.Errorf("the next is %s", added[0].HostName)
	}
}

func TestContainerThatIsKilled(t *testing.T) {
	b, e := newContainerBench(t)
	own := b.add(t, 2)
	down := make(chan struct{})
	_, stop := own[0].Base.Watch(func(e fakebase.Event) {
		if e.Kind == fakebase.EventDown {
			close(down)
		}
	})
	defer stop()
	e.kill("base-1")
	<-down
	for limit := time.Now().Add(patience); b.fleet.Failure(own[0]) == nil; runtime.Gosched() {
		if time.Now().After(limit) {
			t.Fatal("its end is not noticed")
		}
	}
	if diff := cmp.Diff(fleet.Counts{Own: 2, OwnConnected: 1}, b.fleet.Count()); diff != "" {
		t.Errorf("count (-want +got):\n%s", diff)
	}
	if _, err := b.fleet.Restart(t.Context(), "base-1", false); err == nil || !strings.Contains(err.Error(), "remove it and add another") {
		t.Errorf("restarted: %v", err)
	}
	if _, err := b.fleet.Remove(t.Context(), fleet.Selection{Names: []string{"base-1"}}); err != nil {
		t.Error(err)
	}
}

func TestContainersHaveALimit(t *testing.T) {
	b, e := newContainerBench(t)
	_, err := b.fleet.Add(t.Context(), fleet.Set{}, v1alpha1.MaxContainers+1)
	if !errors.Is(err, fleet.ErrInvalid) || !strings.Contains(err.Error(), "at most 50; use the runtime process for more") || e.started > 0 {
		t.Errorf("added: %v, %d containers started", err, e.started)
	}
}

func TestNoContainers(t *testing.T) {
	b := newBench(t)
	_, err := b.fleet.Add(t.Context(), fleet.Set{Group: "run", Spec: v1alpha1.BaseSet{Runtime: v1alpha1.RuntimeContainer}}, 1)
	if !errors.Is(err, fleet.ErrInvalid) || !strings.Contains(err.Error(), "--provider kind --base-runtime container") {
		t.Error(err)
	}
}

// A base in a container sends its heartbeats over HTTP to where the fleet sees
// whether they are answered.
func TestHeartbeatsFromContainers(t *testing.T) {
	b, _ := newContainerBench(t)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	added, err := b.fleet.Add(ctx, fleet.Set{Group: "run", Spec: v1alpha1.BaseSet{Tunnel: v1alpha1.TunnelHTTP}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if err := b.fleet.WaitConnected(ctx, added...); err != nil {
		t.Fatal(err)
	}
	if s := added[0].Base.HTTPAddr(); !strings.HasPrefix(s, "127.0.0.1:") {
		t.Errorf("arklet listens at %q", s)
	}
}
