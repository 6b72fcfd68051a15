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
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

const (
	// pods is the number of Pods that run bases.
	pods = 3
	// killedPod is the name of the Pod that the test kills.
	killedPod = "koupsandbox-bases-1"
)

// fleet is a sandbox whose bases run in Pods.
type fleet struct {
	*box.Box
	bases  int
	up     *sandbox.Sandbox
	client kubernetes.Interface
}

// newFleet returns a fleet that is not running yet. It skips the test unless E2E_FLEET is set.
func newFleet(t *testing.T) *fleet {
	t.Helper()
	if os.Getenv("E2E_FLEET") == "" {
		t.Skip("run it with: make e2e-fleet")
	}
	f := &fleet{bases: 60}
	if n := os.Getenv("E2E_FLEET_BASES"); n != "" {
		var err error
		f.bases, err = strconv.Atoi(n)
		if err != nil || f.bases < pods {
			t.Fatalf("E2E_FLEET_BASES %q: must be a number of at least %d", n, pods)
		}
	}
	binDir, err := box.FindBinaries(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "koup-e2e-") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	f.Box = &box.Box{Bin: binDir, Home: home, Name: envconf.RandomName("fleet", 10), Provider: v1alpha1.ProviderKind}
	t.Cleanup(func() { check.Must(t, f.Down(context.Background())) })
	return f
}

// identities returns the identities of all bases, sorted. It returns an error unless every base is running, is
// connected, and has a Ready Node.
func (f *fleet) identities(ctx context.Context) ([]string, error) {
	list, err := f.up.Bases(ctx, "")
	if err != nil {
		return nil, err
	}
	var ids []string
	for _, b := range list {
		if !b.Running || !b.Connected || !b.NodeReady {
			return nil, fmt.Errorf("%s: running %t, connected %t, Node Ready %t", b.HostName, b.Running, b.Connected,
				b.NodeReady)
		}
		ids = append(ids, b.Identity)
	}
	slices.Sort(ids)
	return ids, nil
}

// waitHealthy waits until all bases and components are healthy. It then fails the test if the identities of the bases
// differ from want.
func (f *fleet) waitHealthy(t *testing.T, want []string) {
	t.Helper()
	var got []string
	check.Soon(t, "the fleet is healthy", func(ctx context.Context) (err error) {
		got, err = f.identities(ctx)
		if err != nil {
			return err
		}
		status, err := f.up.Status(ctx, false)
		if err == nil && !status.Healthy {
			err = errors.New(strings.Join(status.Problems, "; "))
		}
		return err
	})
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("identities of the bases (-before +after):\n%s", d)
	}
}

// rollingUpdate runs the rolling-update scenario, which sends requests from within the cluster, and fails the test if
// a request is lost.
func (f *fleet) rollingUpdate(t *testing.T) {
	r, err := f.Run(t.Context(), "scenario", "run", "testdata/rolling-update.yaml")
	if err != nil || r.Status != 0 || !strings.Contains(r.Out, " from within the cluster, 0 lost") {
		t.Errorf("error %v, status %d:\n%s%s", err, r.Status, r.Out, r.Err)
	}
}

// killPod deletes a Pod of the sandbox without a grace period. It waits until the replacement of the Pod runs and the
// fleet has the same base identities as before.
func (f *fleet) killPod(t *testing.T, name string, before []string) {
	pods := f.client.CoreV1().Pods("default")
	was, err := pods.Get(t.Context(), name, metav1.GetOptions{})
	check.Must(t, err)
	check.Must(t, pods.Delete(t.Context(), name, metav1.DeleteOptions{GracePeriodSeconds: ptr.To[int64](0)}))
	check.Soon(t, "the replacement of the Pod runs", func(ctx context.Context) error {
		is, err := pods.Get(ctx, name, metav1.GetOptions{})
		if err == nil && (is.UID == was.UID || is.Status.Phase != corev1.PodRunning) {
			err = fmt.Errorf("the Pod is %s and has the UID %s", is.Status.Phase, is.UID)
		}
		return err
	})
	f.waitHealthy(t, before)
}
