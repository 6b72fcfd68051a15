package kind

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// TestForeignCluster checks that up fails if a kind cluster with the sandbox's cluster name exists that no sandbox
// created, and that neither up nor down changes this cluster.
func TestForeignCluster(t *testing.T) {
	b := newBox("foreign")
	nodes, err := client.CoreV1().Nodes().List(t.Context(),
		metav1.ListOptions{LabelSelector: "node-role.kubernetes.io/control-plane"})
	if err != nil || len(nodes.Items) != 1 {
		t.Fatalf("%d control planes, error %v", len(nodes.Items), err)
	}
	image, err := exec.CommandContext(t.Context(), engine, "inspect", "--format", "{{.Config.Image}}",
		nodes.Items[0].Name).Output()
	must(t, err)
	name := "koup-" + b.Name + "-control-plane"
	out, err := exec.CommandContext(t.Context(), engine, "create", "--name", name, "--label",
		"io.x-k8s.kind.cluster=koup-"+b.Name,
		"--label", "io.x-k8s.kind.role=control-plane", strings.TrimSpace(string(image))).CombinedOutput()
	if err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	t.Cleanup(func() {
		if out, err := exec.Command(engine, "rm", "--force", "--volumes", name).CombinedOutput(); err != nil {
			t.Errorf("deleting the container: %v: %s", err, out)
		}
	})
	file, err := b.WriteConfig(spec())
	must(t, err)
	r, err := b.Run(t.Context(), "up", "--config", file)
	must(t, err)
	if want := "kind delete cluster --name koup-" + b.Name; r.Status != 1 || !strings.Contains(r.Err, want) {
		t.Errorf("status %d, want 1 and %q:\n%s", r.Status, want, r.Err)
	}
	requireUnchanged := func(command string) {
		t.Helper()
		if got := containers(t, b.Name); !slices.Equal(got, []string{name}) {
			t.Errorf("containers after %s: %v, want only %s", command, got, name)
		}
	}
	requireUnchanged("up")
	if err := b.Down(t.Context()); err != nil {
		t.Error(err)
	}
	requireUnchanged("down")
}

// TestClusterAfterCrash checks that after a crash of the daemon, a failed up does not change the cluster, and the
// next successful up reuses the cluster and its objects.
func TestClusterAfterCrash(t *testing.T) {
	kept, err := client.AppsV1().Deployments("default").Create(t.Context(),
		module.Deployment("default", "kept", 1, module.Template("kept", module.Container("kept", "1.0.0"))),
		metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, client.AppsV1().Deployments(kept.Namespace).Delete(context.Background(), kept.Name,
			metav1.DeleteOptions{}))
	})
	checkReady := func(ctx context.Context) error {
		d, err := client.AppsV1().Deployments(kept.Namespace).Get(ctx, kept.Name, metav1.GetOptions{})
		if err == nil && (d.UID != kept.UID || d.Status.ReadyReplicas != 1) {
			err = fmt.Errorf("Deployment with UID %s, want %s, has %d Ready Pods", d.UID, kept.UID,
				d.Status.ReadyReplicas)
		}
		return err
	}
	eventually(t, "the Deployment is Ready", checkReady)
	killDaemon(t)

	broken := spec()
	broken.Broker.URL = "mqtt://" + check.ClosedPort(t)
	before := containers(t, shared.Name)
	r := upWith(t, broken)
	if want := "the objects of the earlier run and"; r.Status != 1 || !strings.Contains(r.Err, want) {
		t.Errorf("without a broker: status %d, want 1 and %q:\n%s", r.Status, want, r.Err)
	}
	if after := containers(t, shared.Name); !slices.Equal(before, after) {
		t.Errorf("containers after the failed up: %v, before: %v", after, before)
	}

	upAgain(t, spec())
	requireNodesOfBases(t)
	eventually(t, "the Deployment is Ready on the new bases", checkReady)
}

// requireNodesOfBases fails the test unless exactly the existing bases have a Node.
func requireNodesOfBases(t *testing.T) {
	t.Helper()
	list, err := up.Bases(t.Context(), "")
	must(t, err)
	want := map[string]bool{}
	for _, b := range list {
		want["vnode."+b.Identity] = true
	}
	got, err := baseNodes(t.Context())
	must(t, err)
	if diff := cmp.Diff(want, got); diff != "" || len(want) != bases {
		t.Errorf("Nodes of bases (-want +got):\n%s", diff)
	}
}

func killDaemon(t *testing.T) {
	t.Helper()
	list, err := shared.Processes(t.Context())
	must(t, err)
	daemon, err := box.Find(list, "daemon")
	if err == nil {
		err = daemon.Kill(t.Context())
	}
	must(t, err)
}

// upWith runs up for the shared sandbox with the given configuration.
func upWith(t *testing.T, with v1alpha1.Spec) box.Result {
	t.Helper()
	file, err := shared.WriteConfig(with)
	must(t, err)
	r, err := shared.Run(t.Context(), "up", "--config", file)
	must(t, err)
	return r
}

// recreateWith kills the daemon of the shared sandbox, and runs up with the given configuration.
func recreateWith(t *testing.T, with v1alpha1.Spec) {
	t.Helper()
	killDaemon(t)
	upAgain(t, with)
}

// upAgain runs up for the shared sandbox. It fails the test unless up reuses the existing cluster.
func upAgain(t *testing.T, with v1alpha1.Spec) {
	t.Helper()
	if r := upWith(t, with); r.Status != 0 || !strings.Contains(r.Err, "using the existing kind cluster") {
		t.Fatalf("status %d:\n%s%s", r.Status, r.Out, r.Err)
	}
	if err := open(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// TestInterruptedCreation checks that Ctrl-C while up creates the cluster deletes the containers of the cluster and
// the files of the sandbox.
func TestInterruptedCreation(t *testing.T) {
	b := newBox("half")
	file, err := b.WriteConfig(spec())
	must(t, err)
	command := b.Command(t.Context(), "up", "--config", file)
	var output strings.Builder
	command.Stdout, command.Stderr = &output, &output
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the first container exists", func(ctx context.Context) error {
		list, err := listContainers(ctx, b.Name)
		if err == nil && len(list) == 0 {
			err = errors.New("no container exists")
		}
		return err
	})
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err == nil || !strings.Contains(output.String(), "koupsandbox: stopped") {
		t.Errorf("up: %v:\n%s", err, output.String())
	}
	if left := containers(t, b.Name); len(left) > 0 {
		t.Errorf("containers after the interrupt: %v", left)
	}
	if left, err := filepath.Glob(filepath.Join(b.Dir(), "*")); err != nil || len(left) > 0 {
		t.Errorf("files after the interrupt: %v (error: %v)", left, err)
	}
}
