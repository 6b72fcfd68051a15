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

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// A cluster of the sandbox's name that somebody else has made is refused in one sentence, and stays.
func TestForeignClusterIsNotTouched(t *testing.T) {
	b := newBox("alien")
	nodes, err := client.CoreV1().Nodes().List(t.Context(), metav1.ListOptions{LabelSelector: "node-role.kubernetes.io/control-plane"})
	if err != nil || len(nodes.Items) != 1 {
		t.Fatalf("%d control planes, error %v", len(nodes.Items), err)
	}
	image, err := exec.CommandContext(t.Context(), engine, "inspect", "--format", "{{.Config.Image}}", nodes.Items[0].Name).Output()
	if err != nil {
		t.Fatal(err)
	}
	name := "koup-" + b.Name + "-control-plane"
	out, err := exec.CommandContext(t.Context(), engine, "create", "--name", name, "--label", "io.x-k8s.kind.cluster=koup-"+b.Name,
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
	if err != nil {
		t.Fatal(err)
	}
	r, err := b.Run(t.Context(), "up", "--config", file)
	if err != nil {
		t.Fatal(err)
	}
	if want := "there is a kind cluster koup-" + b.Name + " that no sandbox has made"; r.Status != 1 || !strings.Contains(r.Err, want) {
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

// The cluster of a sandbox whose daemon was killed is used as it is, with what is in it.
func TestClusterIsAdoptedAfterACrash(t *testing.T) {
	kept := deploy(t, "kept")
	adopt(t, spec())
	again, err := client.CoreV1().Pods(kept.Namespace).Get(t.Context(), kept.Name, metav1.GetOptions{})
	if err != nil || again.UID != kept.UID {
		t.Errorf("what was in the cluster is gone: %v", err)
	}
	forgotten(t)
}

// forgotten waits until the bases that ended with a daemon that was killed have no Nodes any more.
func forgotten(t *testing.T) {
	t.Helper()
	eventually(t, "the Nodes of the bases that ended with the daemon are gone", func(ctx context.Context) error {
		nodes, err := vnodes(ctx)
		if err == nil && len(nodes) != bases {
			err = fmt.Errorf("%d Nodes of bases, want %d", len(nodes), bases)
		}
		return err
	})
}

// adopt kills the daemon of the shared sandbox, and brings the sandbox up again with other settings on the cluster that is left.
func adopt(t *testing.T, with v1alpha1.Spec) {
	t.Helper()
	list, err := shared.Processes(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	daemon, err := box.Find(list, "daemon")
	if err == nil {
		err = daemon.Kill(t.Context())
	}
	if err != nil {
		t.Fatal(err)
	}
	file, err := shared.WriteConfig(with)
	if err != nil {
		t.Fatal(err)
	}
	r, err := shared.Run(t.Context(), "up", "--config", file)
	if err != nil || r.Status != 0 || !strings.Contains(r.Err, "is used as it is") {
		t.Fatalf("status %d, error %v:\n%s%s", r.Status, err, r.Out, r.Err)
	}
	if err := open(t.Context()); err != nil {
		t.Fatal(err)
	}
}

// Ctrl-C while the cluster is made leaves nothing behind.
func TestInterruptedCreation(t *testing.T) {
	b := newBox("half")
	file, err := b.WriteConfig(spec())
	if err != nil {
		t.Fatal(err)
	}
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
