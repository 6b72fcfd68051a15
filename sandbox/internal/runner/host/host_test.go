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

// helperEnv is an environment variable that makes the test binary run as a controller. Its value selects the
// behaviour of the controller.
const helperEnv = "HOST_TEST_HELPER"

func TestMain(m *testing.M) {
	if behaviour := os.Getenv(helperEnv); behaviour != "" {
		fmt.Fprintln(os.Stderr, "controller:", serve(behaviour, os.Args[1]))
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// serve serves HTTP on an address for a minute. The behaviour "broken" makes it fail. The behaviour "late" makes it
// fail because its port is in use: it opens the port twice.
func serve(behaviour, addr string) error {
	if behaviour == "broken" {
		return errors.New("disk on fire")
	}
	if behaviour == "late" {
		if _, err := net.Listen("tcp", addr); err != nil {
			return err
		}
	}
	l, err := net.Listen("tcp", addr)
	if err != nil {
		return err
	}
	time.AfterFunc(time.Minute, func() { os.Exit(9) }) // in case the test does not end the process
	server := &http.Server{ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(http.ResponseWriter, *http.Request) {})}
	return server.Serve(l)
}

// helpers is a Program whose n-th process has the n-th behaviour in behaviours. All further processes have the last
// behaviour.
type helpers struct {
	dir        string
	behaviours []string
	occupy     func(addr string) // called with the health address of the first process, before it starts

	mu      sync.Mutex
	started []Instance
}

func (h *helpers) Settings(Instance) (any, error) { return "settings", nil }

func (h *helpers) Process(i Instance) (supervise.Spec, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	behaviour := h.behaviours[min(len(h.started), len(h.behaviours)-1)]
	if len(h.started) == 0 && h.occupy != nil {
		h.occupy(i.Health)
	}
	h.started = append(h.started, i)
	return supervise.Spec{
		Name: i.Name, Path: os.Args[0], Args: []string{i.Health},
		Env:     []string{helperEnv + "=" + behaviour, "GORACE=atexit_sleep_ms=0"},
		LogFile: filepath.Join(h.dir, i.Name+".log"), Ready: httpReady("http://" + i.Health),
	}, nil
}

// newRunner returns a runner that keeps its run records in dir. Its processes are stopped at the end of the test.
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

// TestPortTaken checks that a controller that fails because its port is in use is restarted with other ports, and
// that it is not restarted after other failures.
func TestPortTaken(t *testing.T) {
	for name, tc := range map[string]struct {
		behaviours []string
		occupy     bool
		starts     int
		ready      bool
	}{
		"port free":             {behaviours: []string{"good"}, starts: 1, ready: true},
		"port in use":           {behaviours: []string{"good"}, occupy: true, starts: 2, ready: true},
		"port in use briefly":   {behaviours: []string{"late", "good"}, starts: 2, ready: true},
		"all ports in use":      {behaviours: []string{"late"}, starts: portAttempts},
		"failure without cause": {behaviours: []string{"broken"}, starts: 1},
	} {
		t.Run(name, func(t *testing.T) {
			h := &helpers{dir: t.TempDir(), behaviours: tc.behaviours}
			if tc.occupy {
				h.occupy = func(addr string) {
					l, err := net.Listen("tcp", addr)
					check.Must(t, err)
					t.Cleanup(func() { _ = l.Close() }) // it was not used
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
				t.Errorf("ready %t, want %t: %v", err == nil, tc.ready, err)
			}
			if len(h.started) != tc.starts {
				t.Fatalf("%d starts, want %d", len(h.started), tc.starts)
			}
			last := h.started[len(h.started)-1]
			if heartbeats[last.Name] != last.Heartbeats+"/secret" {
				t.Errorf("heartbeat addresses %v, want %s", heartbeats, last.Heartbeats)
			}
		})
	}
}

// TestPortTakenAfterKill checks that a killed controller can be started again with other ports if another process has
// taken one of its ports.
func TestPortTakenAfterKill(t *testing.T) {
	h := &helpers{dir: t.TempDir(), behaviours: []string{"good"}}
	heartbeats := map[string]string{}
	r := newRunner(t, h.dir, Options{Program: h, Token: "secret",
		Heartbeats: func(controller, addr string) { heartbeats[controller] = addr }})
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	one := 1
	check.Must(t, r.Ensure(ctx, v1alpha1.Controller{Replicas: &one}))
	for range 2 { // the second time with changed ports
		before := h.started[len(h.started)-1]
		for _, action := range []supervise.Action{supervise.Kill, supervise.Stop} { // the second waits for its end
			check.Must(t, r.Act(ctx, before.Name, action))
		}
		l, err := net.Listen("tcp", before.Health)
		check.Must(t, err)
		t.Cleanup(func() { _ = l.Close() }) // it was not used
		check.Must(t, r.Act(ctx, before.Name, supervise.Start))
		after := h.started[len(h.started)-1]
		if after.Health == before.Health || heartbeats[after.Name] != after.Heartbeats+"/secret" {
			t.Errorf("health address %s became %s; heartbeat addresses %v", before.Health, after.Health, heartbeats)
		}
	}
	started := len(h.started)
	if err := r.Ensure(ctx, v1alpha1.Controller{Replicas: &one}); err != nil || len(h.started) != started {
		t.Errorf("Ensure with the same settings restarted the controller, error %v", err)
	}
}

// TestAPIView checks that a change of APIView restarts the controllers, and that controllers with APIView use the
// kubeconfig of the API proxy.
func TestAPIView(t *testing.T) {
	dir := t.TempDir()
	h := &kubeconfigHelpers{helpers: helpers{dir: dir, behaviours: []string{"good"}}}
	r := newRunner(t, dir, Options{
		Program: h, Heartbeats: func(string, string) {},
		ProxyKubeconfig: func(controller string, n int) (string, error) {
			return fmt.Sprintf("%s, %d", controller, n), nil
		},
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

// kubeconfigHelpers is a Program like helpers, but the settings of an instance are the path of its kubeconfig.
type kubeconfigHelpers struct{ helpers }

func (v *kubeconfigHelpers) Settings(i Instance) (any, error) { return i.Kubeconfig, nil }

// TestReplicaNumber checks that ReplicaNumber accepts the CLIENT_ID of a controller, and an MQTT client ID that
// consists of the CLIENT_ID and a random part.
func TestReplicaNumber(t *testing.T) {
	r := &Runner{numbers: map[string]int{"4d1c-8a": 2}}
	got := map[string]int{}
	for _, id := range []string{"4d1c-8a", "4d1c-8a-QWERTZ", "4d1c-8a-QWERTZ-1", "4d1c", "other", ""} {
		got[id] = r.ReplicaNumber(id)
	}
	if diff := cmp.Diff(map[string]int{"4d1c-8a": 2, "4d1c-8a-QWERTZ": 2, "4d1c-8a-QWERTZ-1": 0, "4d1c": 0, "other": 0,
		"": 0}, got); diff != "" {
		t.Errorf("numbers (-want +got):\n%s", diff)
	}
}
