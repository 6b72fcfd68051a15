package fleet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/mosquitto"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

const (
	// patience is how long anything may take on a busy machine.
	patience = 3 * time.Minute
	// pods that the bases are spread over.
	pods = 3
	// victim is the Pod that is killed.
	victim = "koupsandbox-bases-1"
)

// fleet is a sandbox whose bases run in Pods.
type fleet struct {
	*box.Box
	bases  int
	up     *sandbox.Sandbox
	client kubernetes.Interface
}

func skipUnlessEnabled(t *testing.T) {
	t.Helper()
	if os.Getenv("E2E_FLEET") == "" {
		t.Skip("run it with: make e2e-fleet")
	}
}

// newFleet is a fleet that is not up yet.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	skipUnlessEnabled(t)
	f := &fleet{bases: 60}
	if n := os.Getenv("E2E_FLEET_BASES"); n != "" {
		var err error
		if f.bases, err = strconv.Atoi(n); err != nil || f.bases < pods {
			t.Fatalf("E2E_FLEET_BASES %q: must be a number of at least %d", n, pods)
		}
	}
	programs, err := box.FindPrograms(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "koup-e2e-") // a short path, because sockets go there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	f.Box = &box.Box{Bin: programs, Home: home, Name: envconf.RandomName("fleet", 10), Provider: v1alpha1.ProviderKind}
	t.Cleanup(func() { check.Must(t, f.Down(context.Background())) })
	return f
}

// start brings a fleet up; the test says how long that took.
func start(t *testing.T, theirs *container) *fleet {
	t.Helper()
	f := newFleet(t)
	began := time.Now()
	err := f.Up(t.Context(), v1alpha1.Spec{
		Kind:       v1alpha1.KindCluster{Nodes: 3},
		Bases:      v1alpha1.Bases{Count: &f.bases, Runtime: v1alpha1.RuntimeCluster, PerPod: (f.bases + pods - 1) / pods},
		Controller: v1alpha1.Controller{Location: v1alpha1.LocationCluster, Replicas: ptr.To(2)},
		Broker:     v1alpha1.Broker{URL: theirs.URL(), CAFile: theirs.CAFile, Username: mosquitto.User, PasswordFile: theirs.Passwords[mosquitto.User]},
		Wait:       &metav1.Duration{Duration: 10 * time.Minute},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Logf("%d bases in %d Pods are up after %.1fs", f.bases, pods, time.Since(began).Seconds())
	if f.up, err = f.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	config, err := f.REST()
	if err == nil {
		f.client, err = kubernetes.NewForConfig(config)
	}
	if err != nil {
		t.Fatal(err)
	}
	return f
}

// identities are those of all bases, if each runs and has a Ready Node.
func (f *fleet) identities(ctx context.Context) ([]string, error) {
	list, err := f.up.Bases(ctx, "")
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, b := range list {
		if !b.Running || !b.Connected || !b.NodeReady {
			return nil, fmt.Errorf("%s: running %t, connected %t, Node Ready %t", b.HostName, b.Running, b.Connected, b.NodeReady)
		}
		ids = append(ids, b.Identity)
	}
	slices.Sort(ids)
	return ids, nil
}

// well waits until all bases and components are well, and compares who the bases are.
func (f *fleet) well(t *testing.T, want []string) {
	t.Helper()
	var got []string
	check.Eventually(t.Context(), t, patience, "the fleet is well", func(ctx context.Context) (err error) {
		if got, err = f.identities(ctx); err != nil {
			return err
		}
		status, err := f.up.Status(ctx, false)
		if err == nil && !status.Healthy {
			err = errors.New(strings.Join(status.Problems, "; "))
		}
		return err
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("the bases have become others (-before +after):\n%s", d)
	}
}

// told collects what happens to the victim and to its bases, until the test ends.
func (f *fleet) told(t *testing.T) (pod func() []string, down func() int) {
	t.Helper()
	var mu sync.Mutex
	var states []string
	crashed := 0
	ctx, cancel := context.WithCancel(t.Context())
	synced, ended := make(chan struct{}), make(chan error, 1)
	go func() {
		now := false
		ended <- f.up.Watch(ctx, sandbox.WatchRequest{}, func(e events.Event) {
			mu.Lock()
			defer mu.Unlock()
			switch {
			case e.Synced:
				now = true
				close(synced)
			case now && e.Component != nil && e.Component.Name == victim:
				states = append(states, string(e.Component.State))
			case now && e.Base != nil && e.Base.Change == events.BaseDown:
				crashed++
			}
		})
	}()
	t.Cleanup(func() {
		cancel()
		t.Logf("the watch has ended: %v", <-ended)
	})
	select {
	case <-synced:
	case err := <-ended:
		ended <- err
		t.Fatalf("watching: %v", err)
	}
	return func() []string {
			mu.Lock()
			defer mu.Unlock()
			return slices.Clone(states)
		}, func() int {
			mu.Lock()
			defer mu.Unlock()
			return crashed
		}
}

func TestFleet(t *testing.T) {
	skipUnlessEnabled(t)
	broker := startContainer(t)
	f := start(t, broker)
	before, err := f.identities(t.Context())
	if err != nil || len(before) != f.bases {
		t.Fatalf("%d bases, error %v", len(before), err)
	}
	t.Run("rolling update", f.rollingUpdate)
	t.Run("killed Pod", func(t *testing.T) { f.killedPod(t, before) })
	t.Run("broker", func(t *testing.T) { f.brokerOutages(t, broker, before) })
	t.Run("killed controller", func(t *testing.T) {
		for _, action := range []sandbox.Action{"kill", "start"} {
			if err := f.up.Act(t.Context(), sandbox.ActRequest{Component: "module-controller", Action: action}); err != nil {
				t.Fatal(err)
			}
		}
		f.well(t, before)
	})
}

func (f *fleet) rollingUpdate(t *testing.T) {
	r, err := f.Run(t.Context(), "scenario", "run", "testdata/rolling-update.yaml")
	if err != nil || r.Status != 0 || !strings.Contains(r.Out, " from within the cluster, 0 lost") {
		t.Errorf("error %v, status %d:\n%s%s", err, r.Status, r.Out, r.Err)
	}
}

// killedPod kills a Pod of bases, and waits until all is as before.
func (f *fleet) killedPod(t *testing.T, before []string) {
	pod, down := f.told(t)
	began := time.Now()
	err := f.client.CoreV1().Pods("default").Delete(t.Context(), victim, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)})
	if err != nil {
		t.Fatal(err)
	}
	check.Eventually(t.Context(), t, patience, "its end and its return are told", func(context.Context) error {
		if d := cmp.Diff([]string{"exited", "running"}, pod()); d != "" {
			return errors.New(d)
		}
		return nil
	})
	f.well(t, before)
	t.Logf("all is well %.1fs after the kill", time.Since(began).Seconds())
	if n, want := down(), (f.bases+pods-1)/pods; n != want {
		t.Errorf("%d bases were told to be down, want the %d of the Pod", n, want)
	}
}
