package host

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// helperEnv turns the test binary into a controller: its value says how it behaves.
const helperEnv = "HOST_TEST_HELPER"

func TestMain(m *testing.M) {
	if how := os.Getenv(helperEnv); how != "" {
		fmt.Fprintln(os.Stderr, "controller:", serve(how, os.Args[1]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serve answers on an address until a minute has passed. One that is "late" finds it taken by
// somebody who goes together with it.
func serve(how, addr string) error {
	if how == "broken" {
		return errors.New("disk on fire")
	}
	if how == "late" {
		if _, err := net.Listen("tcp", addr); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	time.AfterFunc(time.Minute, func() { os.Exit(9) }) // one that the test lost must not stay for ever
	server := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	return server.Serve(l)
}

// helpers is a Program whose processes behave in turn as it says, the last for ever.
type helpers struct {
	dir    string
	ways   []string
	occupy func(addr string) // called with the address of the first process

	mu      sync.Mutex
	started []Instance
}

func (h *helpers) Settings(Instance) (any, error) { return "settings", nil }

func (h *helpers) Process(i Instance) (supervise.Spec, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	how := h.ways[min(len(h.started), len(h.ways)-1)]
	if len(h.started) == 0 && h.occupy != nil {
		h.occupy(i.Health)
	}
	h.started = append(h.started, i)
	return supervise.Spec{
		Name: i.Name, Path: os.Args[0], Args: []string{i.Health},
		Env:     []string{helperEnv + "=" + how, "GORACE=atexit_sleep_ms=0"},
		LogFile: filepath.Join(h.dir, i.Name+".log"), Ready: httpReady("http://" + i.Health),
	}, nil
}

// newRunner returns a runner of processes that are noted in dir, and ended with the test.
func newRunner(t *testing.T, dir string, o Options) *Runner {
	t.Helper()
	o.Supervisor = supervise.New(supervise.Options{Dir: filepath.Join(dir, "run")})
	r := New(o)
	t.Cleanup(func() {
		if err := r.StopAll(context.Background(), true); err != nil {
			t.Error(err)
		}
	})
	return r
}

// A controller whose port is taken when it wants to listen, for good or only at that moment, starts
// again with others. One that ends for another reason does not.
func TestPortTaken(t *testing.T) {
	for name, tc := range map[string]struct {
		ways   []string
		occupy bool
		starts int
		ready  bool
	}{
		"nobody has it":            {ways: []string{"good"}, starts: 1, ready: true},
		"somebody has it":          {ways: []string{"good"}, occupy: true, starts: 2, ready: true},
		"somebody had it":          {ways: []string{"late", "good"}, starts: 2, ready: true},
		"somebody always has it":   {ways: []string{"late"}, starts: portAttempts},
		"it ends for its own ills": {ways: []string{"broken"}, starts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := &helpers{dir: t.TempDir(), ways: tc.ways}
			if tc.occupy {
				h.occupy = func(addr string) {
					l, err := net.Listen("tcp", addr)
					check.Must(t, err)
					t.Cleanup(func() { _ = l.Close() }) // nobody reads from it
				}
			}
			heartbeats := map[string]string{}
			r := newRunner(t, h.dir,
				Options{Program: h, Token: "secret",
					Heartbeats: func(controller, addr string) { heartbeats[controller] = addr }})
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			one := 1
			err := r.Ensure(ctx, v1alpha1.Controller{Replicas: &one})
			if (err == nil) != tc.ready || ctx.Err() != nil {
				t.Errorf("ready: %t, want %t: %v", err == nil, tc.ready, err)
			}
			if len(h.started) != tc.starts {
				t.Fatalf("started %d times, want %d", len(h.started), tc.starts)
			}
			last := h.started[len(h.started)-1]
			if heartbeats[last.Name] != last.Heartbeats+"/secret" {
				t.Errorf("heartbeats go to %v, not to %s", heartbeats, last.Heartbeats)
			}
		})
	}
}

// A controller that was killed gets other ports if somebody has taken one of its own meanwhile.
func TestPortTakenWhileItWasDown(t *testing.T) {
	h := &helpers{dir: t.TempDir(), ways: []string{"good"}}
	heartbeats := map[string]string{}
	r := newRunner(t, h.dir, Options{Program: h, Token: "secret",
		Heartbeats: func(controller, addr string) { heartbeats[controller] = addr }})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	one := 1
	check.Must(t, r.Ensure(ctx, v1alpha1.Controller{Replicas: &one}))
	for range 2 { // also where it was started elsewhere before
		before := h.started[len(h.started)-1]
		for _, action := range []supervise.Action{supervise.Kill, supervise.Stop} { // the second waits for its end
			check.Must(t, r.Act(ctx, before.Name, action))
		}
		l, err := net.Listen("tcp", before.Health)
		check.Must(t, err)
		t.Cleanup(func() { _ = l.Close() }) // nobody reads from it
		check.Must(t, r.Act(ctx, before.Name, supervise.Start))
		after := h.started[len(h.started)-1]
		if after.Health == before.Health || heartbeats[after.Name] != after.Heartbeats+"/secret" {
			t.Errorf("its health is at %s, was at %s; heartbeats go to %v", after.Health, before.Health, heartbeats)
		}
	}
	started := len(h.started)
	if err := r.Ensure(ctx, v1alpha1.Controller{Replicas: &one}); err != nil || len(h.started) != started {
		t.Errorf("with the same settings it was started again, error %v", err)
	}
}

// A controller with APIView is started again with the kubeconfig that leads it through the proxy, and
// again without.
func TestAPIView(t *testing.T) {
	dir := t.TempDir()
	h := &viewed{helpers: helpers{dir: dir, ways: []string{"good"}}}
	r := newRunner(t, dir, Options{
		Program: h, Heartbeats: func(string, string) {},
		ProxyKubeconfig: func(controller string, n int) (string, error) { return fmt.Sprintf("%s, %d", controller, n), nil },
	})
	two := 2
	for _, view := range []bool{false, true, true, false} {
		check.Must(t, r.Ensure(t.Context(), v1alpha1.Controller{Replicas: &two, APIView: view}))
	}
	got := map[string][]string{}
	for _, i := range h.started {
		got[i.Name] = append(got[i.Name], i.Kubeconfig)
	}
	want := map[string][]string{
		"module-controller":   {"", "module-controller, 1", ""},
		"module-controller-2": {"", "module-controller-2, 2", ""},
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("kubeconfigs (-want +got):\n%s", diff)
	}
}

// viewed are helpers whose kubeconfig makes a difference.
type viewed struct{ helpers }

func (v *viewed) Settings(i Instance) (any, error) { return i.Kubeconfig, nil }

// An MQTT client id ends with the CLIENT_ID of a controller. The module controller appends a random part.
func TestReplica(t *testing.T) {
	r := &Runner{numbers: map[string]int{"4d1c-8a": 2}}
	got := map[string]int{}
	for _, id := range []string{"4d1c-8a", "4d1c-8a-QWERTZ", "4d1c-8a-QWERTZ-1", "4d1c", "other", ""} {
		got[id] = r.ReplicaNumber(id)
	}
	if diff := cmp.Diff(map[string]int{"4d1c-8a": 2, "4d1c-8a-QWERTZ": 2, "4d1c-8a-QWERTZ-1": 0, "4d1c": 0, "other": 0,
		"": 0}, got); diff != "" {
		t.Errorf("replicas (-want +got):\n%s", diff)
	}
}
