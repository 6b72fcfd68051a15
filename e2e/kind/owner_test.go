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

// up refuses a cluster with the name of the sandbox that no sandbox has created, and does not change it.
func TestForeignClusterIsNotTouched(t *testing.T) {
	b := newBox("alien")
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
			t.Errorf("removing the container: %v: %s", err, out)
		}
	})
	file, err := b.WriteConfig(spec())
	must(t, err)
	r, err := b.Run(t.Context(), "up", "--config", file)
	must(t, err)
	if want := "kind delete cluster --name koup-" + b.Name; r.Status != 1 || !strings.Contains(r.Err, want) {
		t.Errorf("status %d, want 1 and %q:\n%s", r.Status, want, r.Err)
	}
	untouched := func(command string) {
		t.Helper()
		if got := containers(t, b.Name); !slices.Equal(got, []string{name}) {
			t.Errorf("after %s the containers are %v, want %s alone", command, got, name)
		}
	}
	untouched("up")
	if err := b.Down(t.Context()); err != nil {
		t.Error(err)
	}
	untouched("down")
}

// After the daemon was killed, the next up that succeeds uses the cluster with its objects.
func TestClusterIsAdoptedAfterACrash(t *testing.T) {
	kept, err := client.AppsV1().Deployments("default").Create(t.Context(),
		module.Deployment("default", "kept", 1, module.Template("kept", module.Container("kept", "1.0.0"))),
		metav1.CreateOptions{})
	must(t, err)
	t.Cleanup(func() {
		must(t, client.AppsV1().Deployments(kept.Namespace).Delete(context.Background(), kept.Name,
			metav1.DeleteOptions{}))
	})
	serves := func(ctx context.Context) error {
		d, err := client.AppsV1().Deployments(kept.Namespace).Get(ctx, kept.Name, metav1.GetOptions{})
		if err == nil && (d.UID != kept.UID || d.Status.ReadyReplicas != 1) {
			err = fmt.Errorf("Deployment %s, which was %s, has %d Pods that are Ready", d.UID, kept.UID,
				d.Status.ReadyReplicas)
		}
		return err
	}
	eventually(t, "the module is on a base", serves)
	killDaemon(t)

	broken := spec()
	broken.Broker.URL = "mqtt://" + check.ClosedPort(t)
	before := containers(t, shared.Name)
	r := upWith(t, broken)
	if want := "what was there before is kept"; r.Status != 1 || !strings.Contains(r.Err, want) {
		t.Errorf("without a broker: status %d, want 1 and %q:\n%s", r.Status, want, r.Err)
	}
	if after := containers(t, shared.Name); !slices.Equal(before, after) {
		t.Errorf("an up that failed has made %v of the containers %v", after, before)
	}

	upAgain(t, spec())
	onlyLivingNodes(t)
	eventually(t, "the module is on one of the bases that came", serves)
}

// onlyLivingNodes checks that only the present bases have Nodes.
func onlyLivingNodes(t *testing.T) {
	t.Helper()
	list, err := up.Bases(t.Context(), "")
	must(t, err)
	want := map[string]bool{}
	for _, b := range list {
		want["vnode."+b.Identity] = true
	}
	got, err := vnodes(t.Context())
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

// upWith runs up for the shared sandbox.
func upWith(t *testing.T, with v1alpha1.Spec) box.Result {
	t.Helper()
	file, err := shared.WriteConfig(with)
	must(t, err)
	r, err := shared.Run(t.Context(), "up", "--config", file)
	must(t, err)
	return r
}

// adopt kills the daemon of the shared sandbox, and brings the sandbox up again with other settings.
func adopt(t *testing.T, with v1alpha1.Spec) {
	t.Helper()
	killDaemon(t)
	upAgain(t, with)
}

// upAgain brings the shared sandbox up on its existing cluster.
func upAgain(t *testing.T, with v1alpha1.Spec) {
	t.Helper()
	if r := upWith(t, with); r.Status != 0 || !strings.Contains(r.Err, "is used as it is") {
		t.Fatalf("status %d:\n%s%s", r.Status, r.Out, r.Err)
	}
	if err := open(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Ctrl-C during the creation of the cluster leaves nothing.
func TestInterruptedCreation(t *testing.T) {
	b := newBox("half")
	file, err := b.WriteConfig(spec())
	must(t, err)
	command := b.Command(t.Context(), "up", "--config", file)
	var said strings.Builder
	command.Stdout, command.Stderr = &said, &said
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the creation has begun", func(ctx context.Context) error {
		list, err := listContainers(ctx, b.Name)
		if err == nil && len(list) == 0 {
			err = errors.New("there is no container")
		}
		return err
	})
	if err := command.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err == nil || !strings.Contains(said.String(), "koupsandbox: stopped") {
		t.Errorf("up ended with %v:\n%s", err, said.String())
	}
	if left := containers(t, b.Name); len(left) > 0 {
		t.Errorf("the containers %v are left", left)
	}
	if left, err := filepath.Glob(filepath.Join(b.Folder(), "*")); err != nil || len(left) > 0 {
		t.Errorf("%v is left, error %v", left, err)
	}
}
