package scenarios

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// TestSpeed checks that a scenario is rejected if the sandbox does not have the speed that the scenario requires.
func TestSpeed(t *testing.T) {
	all := loadLong(t)
	_, err := scenario.Execute(t.Context(), scenario.Options{Sandbox: up, Scenarios: all[:1]})
	if err == nil || !strings.Contains(err.Error(), "requires speed 10") {
		t.Errorf("error in a sandbox with speed 1: %v", err)
	}
}

// TestLongOutages checks that scenarios with outages of several minutes pass. Each scenario runs in its own sandbox
// at a higher speed.
func TestLongOutages(t *testing.T) {
	needsLong(t)
	for _, s := range loadLong(t) {
		t.Run(s.Scenario.Metadata.Name, func(t *testing.T) {
			t.Parallel()
			fast, _ := startSandbox(t, binDir, nil, s.Scenario.Spec.Speed)
			requirePassed(t.Context(), t, fast, s)
		})
	}
}

// TestNoPodIsEvicted checks that module Pods are not evicted during a long controller outage, because the controller
// adds tolerations to them, and that they are evicted without these tolerations. Each base is its own zone.
// Kubernetes evicts Pods from Nodes whose Lease is not renewed only if another zone has a healthy Node, so the test
// adds one.
func TestNoPodIsEvicted(t *testing.T) {
	needsLong(t)
	for name, c := range map[string]struct {
		env  map[string]string
		want scenario.Result
	}{
		"with the tolerations of the controller": {nil, scenario.Passed},
		"without tolerations": {map[string]string{"LEAVE_POD_TOLERATIONS": "true"},
			scenario.Failed},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := load(t, filepath.Join("testdata", "controller-away-10m.yaml"))
			fast, client := startSandbox(t, binDir, c.env, s.Scenario.Spec.Speed)
			addHealthyNode(t, client)
			r := execute(t.Context(), t, fast.up, s, parallelCells)
			if r.Result() != c.want {
				t.Error(text(t, r))
			}
		})
	}
}

// addHealthyNode creates a Node, and renews its Lease until the test ends.
func addHealthyNode(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	n, err := client.CoreV1().Nodes().Create(t.Context(), &corev1.Node{ObjectMeta: metav1.ObjectMeta{
		Name: "ordinary", Labels: map[string]string{corev1.LabelTopologyZone: "ordinary"},
	}}, metav1.CreateOptions{})
	must(t, err)
	status := `{"status": {"conditions": [{"type": "Ready", "status": "True", "reason": "Test"}]}}`
	_, err = client.CoreV1().Nodes().Patch(t.Context(), n.Name, types.StrategicMergePatchType, []byte(status),
		metav1.PatchOptions{}, "status")
	must(t, err)
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	lease, err := leases.Create(t.Context(), &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: n.Name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &n.Name, RenewTime: ptr.To(metav1.NowMicro())},
	}, metav1.CreateOptions{})
	must(t, err)
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		tick := time.NewTicker(500 * time.Millisecond)
		defer tick.Stop()
		for {
			select {
			case <-ctx.Done():
				done <- nil
				return
			case <-tick.C:
			}
			lease.Spec.RenewTime = ptr.To(metav1.NowMicro())
			next, err := leases.Update(ctx, lease, metav1.UpdateOptions{})
			if err != nil && ctx.Err() == nil {
				done <- err
				return
			}
			lease = next
		}
	}()
	t.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			t.Errorf("renewing the Lease of the Node: %v", err)
		}
	})
}

// needsLong skips the test unless E2E_LONG is set.
func needsLong(t *testing.T) {
	t.Helper()
	if os.Getenv("E2E_LONG") == "" {
		t.Skip("run this long test with: make e2e-long")
	}
}

func loadLong(t *testing.T) []*source.Scenario {
	t.Helper()
	all, err := source.Load([]string{filepath.Join(catalogue, "long")}, source.Options{})
	must(t, err)
	if len(all) == 0 {
		t.Fatal("no long scenarios found")
	}
	return all
}

func load(t *testing.T, file string) *source.Scenario {
	t.Helper()
	all, err := source.Load([]string{file}, source.Options{})
	must(t, err)
	return all[0]
}

// startSandbox starts a sandbox with the given speed. env contains environment variables of the controller. The
// sandbox is removed when the test ends.
func startSandbox(t *testing.T, bin string, env map[string]string, speed int) (runningSandbox, kubernetes.Interface) {
	t.Helper()
	b := &box.Box{Bin: bin, Home: home, Name: envconf.RandomName("own", 12)}
	t.Cleanup(func() {
		if err := b.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	spec := v1alpha1.Spec{Bases: []v1alpha1.BaseSet{{Count: ptr.To(1), BaseName: "unused"}}, Speed: speed}
	spec.Controller.Env = env
	must(t, b.Up(t.Context(), spec))
	s, err := b.Open(t.Context())
	must(t, err)
	t.Cleanup(s.Close)
	return runningSandbox{b, s}, apiOf(t, b)
}
