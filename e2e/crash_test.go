package e2e

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/shirou/gopsutil/v4/process"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

const (
	crashBases = 2
	crashApp   = "survivor"
)

// crashBox is a small sandbox of its own that is up, with a Deployment that is
// Ready. It is down after the test whatever happens.
func crashBox(t *testing.T, spec v1alpha1.Spec) *box.Box {
	t.Helper()
	ctx := t.Context()
	b := ownBox(t)
	must(t, b.Up(ctx, spec))
	c, err := b.Client()
	must(t, err)
	d := module.Deployment(metav1.NamespaceDefault, crashApp, crashBases, module.Template(crashApp, module.Container(crashApp, "1.0.0")))
	_, err = c.AppsV1().Deployments(metav1.NamespaceDefault).Create(ctx, d, metav1.CreateOptions{})
	must(t, err)
	survives(t, b)
	return b
}

// ownBox is a sandbox of the test's own, not up yet.
func ownBox(t *testing.T) *box.Box {
	t.Helper()
	b := newBox("own")
	t.Cleanup(func() {
		ctx := context.Background()
		if t.Failed() {
			dump(ctx, t, b)
		}
		must(t, races(b))
		must(t, b.Down(ctx))
		must(t, nothingLeft(ctx, b))
	})
	return b
}

// survives waits until the Deployment is Ready on bases that really have its module.
func survives(t *testing.T, b *box.Box) {
	t.Helper()
	eventually(t.Context(), t, "the Deployment is Ready", func(ctx context.Context) error {
		return serving(ctx, b, metav1.NamespaceDefault, crashBases)
	})
}

// nothingLeft checks that a sandbox has left no folder, and no process that
// works in its folder or names it.
func nothingLeft(ctx context.Context, b *box.Box) error {
	if _, err := os.Stat(b.Folder()); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the folder %s is left (%w)", b.Folder(), err)
	}
	all, err := process.ProcessesWithContext(ctx)
	if err != nil {
		return fmt.Errorf("listing processes: %w", err)
	}
	for _, p := range all {
		command, _ := p.CmdlineWithContext(ctx) // one that ends meanwhile has none
		folder, _ := p.CwdWithContext(ctx)
		if int(p.Pid) != os.Getpid() && (strings.Contains(command, b.Folder()) || strings.HasPrefix(folder, b.Folder())) {
			return fmt.Errorf("process %d is left: %s", p.Pid, command)
		}
	}
	return nil
}

// kill ends the process of a component as a crash would, and waits until it is gone.
func kill(t *testing.T, b *box.Box, component string) {
	t.Helper()
	list, err := b.Processes(t.Context())
	must(t, err)
	p, err := box.Find(list, component)
	must(t, err)
	must(t, p.Kill(t.Context()))
	eventually(t.Context(), t, component+" is gone", func(ctx context.Context) error {
		if p.Alive(ctx) {
			return fmt.Errorf("process %d still runs", p.PID)
		}
		return nil
	})
}

// complains waits until status fails and says what is wrong, in a line that
// begins with a cross.
func complains(t *testing.T, b *box.Box, what string) {
	t.Helper()
	eventually(t.Context(), t, "status complains", func(ctx context.Context) error {
		r, err := b.Run(ctx, "status")
		if err != nil {
			return err
		}
		told := slices.ContainsFunc(strings.Split(r.Out, "\n"), func(l string) bool {
			return strings.HasPrefix(l, "✗ ") && strings.Contains(l, what)
		})
		if r.Status != 1 || !told {
			return fmt.Errorf("status ends with %d and does not say that %q:\n%s%s", r.Status, what, r.Out, r.Err)
		}
		return nil
	})
}

// A part of a running sandbox crashes: status says so, another up starts it
// again, and what was in the cluster is there and works.
func TestPartCrashes(t *testing.T) {
	for component, problem := range map[string]string{
		"module-controller": "module-controller is exited: exited: signal: killed",
		"etcd":              "etcd is exited: exited: signal: killed",
	} {
		t.Run(component, func(t *testing.T) {
			b := crashBox(t, spec(crashBases))
			kill(t, b, component)
			complains(t, b, problem)
			r, err := b.Run(t.Context(), "up")
			must(t, err)
			if r.Status != 0 || !strings.Contains(r.Out, "started "+component+" again") {
				t.Fatalf("up ends with %d and says:\n%s%s", r.Status, r.Out, r.Err)
			}
			eventually(t.Context(), t, "status is content", func(ctx context.Context) error { return b.Must(ctx, "status") })
			survives(t, b)
		})
	}
}

const daemonGone = "its daemon is gone"

// The daemon of a durable sandbox crashes: another up ends what it left, and
// brings the cluster up again with all that was in it. One that fails before loses nothing.
func TestDaemonCrashes(t *testing.T) {
	durable := spec(crashBases)
	durable.Durable = true
	b := crashBox(t, durable)
	kill(t, b, "daemon")
	complains(t, b, daemonGone)

	broken := durable
	broken.Broker.URL = "mqtt://" + check.ClosedPort(t)
	file, err := b.WriteConfig(broken)
	must(t, err)
	r, err := b.Run(t.Context(), "up", "--config", file)
	must(t, err)
	if want := "what was there before is kept in " + b.Folder(); r.Status != 1 || !strings.Contains(r.Err, want) {
		t.Errorf("an up without a broker ends with %d and does not say %q:\n%s", r.Status, want, r.Err)
	}
	complains(t, b, daemonGone)

	must(t, b.Up(t.Context(), durable))
	eventually(t.Context(), t, "status is content", func(ctx context.Context) error { return b.Must(ctx, "status") })
	survives(t, b)
}

// A sandbox that is not durable begins anew after its daemon has crashed: what
// etcd has not written safely is not to be trusted. A down ends what is left, too.
func TestDaemonOfPassingSandboxCrashes(t *testing.T) {
	b := crashBox(t, spec(crashBases))
	kill(t, b, "daemon")
	complains(t, b, daemonGone)
	must(t, b.Up(t.Context(), spec(crashBases)))
	must(t, b.Must(t.Context(), "status"))
	c, err := b.Client()
	must(t, err)
	list, err := c.AppsV1().Deployments(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) > 0 {
		t.Errorf("a Deployment has survived: %s", list.Items[0].Name)
	}

	kill(t, b, "daemon")
	complains(t, b, daemonGone)
	left, err := b.Processes(t.Context())
	must(t, err)
	if len(left) < 5 { // etcd, three of Kubernetes, the controller
		t.Errorf("only these survive their daemon, so that this test shows little: %v", left)
	}
	must(t, b.Must(t.Context(), "down"))
	for _, p := range left {
		if p.Alive(t.Context()) {
			t.Errorf("%s, process %d, survives a down", p.Component, p.PID)
		}
	}
	must(t, nothingLeft(t.Context(), b))
}

// Ctrl-C in the middle of an up leaves nothing.
func TestInterruptedUp(t *testing.T) {
	b := ownBox(t)
	file, err := b.WriteConfig(spec(crashBases))
	must(t, err)
	cmd := b.Command(t.Context(), "up", "--config", file)
	var said strings.Builder
	cmd.Stderr = &said
	must(t, cmd.Start())
	var running []box.Process
	eventually(t.Context(), t, "the API server starts", func(ctx context.Context) error {
		running, err = b.Processes(ctx)
		if err == nil {
			_, err = box.Find(running, "kube-apiserver")
		}
		return err
	})
	must(t, cmd.Process.Signal(syscall.SIGINT))
	err = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 1 || !strings.HasSuffix(said.String(), "koupsandbox: stopped\n") {
		t.Errorf("up ends with %v and says:\n%s", err, said.String())
	}
	for _, p := range running {
		if p.Alive(t.Context()) {
			t.Errorf("%s, process %d, is left", p.Component, p.PID)
		}
	}
	must(t, nothingLeft(t.Context(), b))
}

// The scenario kills the broker and then waits, for longer than the test.
const endless = `apiVersion: sandbox.koupleless.io/v1alpha1
kind: Scenario
metadata: {name: endless}
spec:
  description: A run that somebody ends.
  steps:
    - broker: {do: kill}
    - sleep: {for: 1h, reason: somebody ends the run}
`

// running starts a run of it, and returns when it has killed the broker.
func running(t *testing.T, b *box.Box, flags ...string) *exec.Cmd {
	t.Helper()
	file := filepath.Join(t.TempDir(), "endless.yaml")
	must(t, os.WriteFile(file, []byte(endless), 0o600))
	cmd := b.Command(t.Context(), append(append([]string{"scenario", "run"}, flags...), file)...)
	must(t, cmd.Start())
	eventually(t.Context(), t, "the broker is killed", func(ctx context.Context) error { return brokerIs(ctx, b, "exited") })
	return cmd
}

func brokerIs(ctx context.Context, b *box.Box, want string) error {
	up, err := b.Open(ctx)
	if err != nil {
		return err
	}
	defer up.Close()
	status, err := up.Status(ctx, false)
	if err != nil {
		return err
	}
	for _, c := range status.Components {
		if c.Name == "broker" && string(c.State) == want {
			return nil
		}
	}
	return fmt.Errorf("no broker is %s: %+v", want, status.Components)
}

// A run that is killed leaves components as they were, and one that has brought its sandbox up leaves nothing,
// nor does one that is interrupted again while it cleans up.
func TestRunIsKilled(t *testing.T) {
	t.Run("in a sandbox that was up", func(t *testing.T) {
		b := ownBox(t)
		must(t, b.Up(t.Context(), spec(1)))
		cmd := running(t, b)
		must(t, cmd.Process.Kill())
		eventually(t.Context(), t, "the broker runs again", func(ctx context.Context) error { return brokerIs(ctx, b, "running") })
		_ = cmd.Wait() // killed
		eventually(t.Context(), t, "all is well", func(ctx context.Context) error { return b.Must(ctx, "status") })
	})
	for name, end := range map[string][]os.Signal{"killed": {syscall.SIGKILL}, "interrupted twice": {syscall.SIGINT, syscall.SIGINT}} {
		t.Run(name+" with a sandbox of its own", func(t *testing.T) {
			b := ownBox(t)
			cmd := running(t, b, "--up")
			for _, signal := range end {
				must(t, cmd.Process.Signal(signal))
			}
			_ = cmd.Wait() // by a signal, or stopped
			eventually(t.Context(), t, "nothing is left", func(ctx context.Context) error { return nothingLeft(ctx, b) })
		})
	}
}

// Two sandboxes run side by side: the second is independent of the first, and its end does not affect the first. A
// second up of a sandbox changes nothing, and an up with fewer bases deletes the Nodes of the removed bases.
func TestSideBySide(t *testing.T) {
	ctx := t.Context()
	b := crashBox(t, spec(crashBases))
	must(t, matching(ctx))
	c, err := b.Client()
	must(t, err)
	nodes, err := c.CoreV1().Nodes().List(ctx, metav1.ListOptions{})
	must(t, err)
	if len(nodes.Items) != crashBases {
		t.Errorf("the second sandbox has %d Nodes for %d bases", len(nodes.Items), crashBases)
	}
	before, err := b.Processes(ctx)
	must(t, err)
	r, err := b.Run(ctx, "up")
	must(t, err)
	if want := fmt.Sprintf("Sandbox %q was up already; nothing had to be done", b.Name); r.Status != 0 || !strings.HasPrefix(r.Out, want) {
		t.Errorf("a second up ends with %d and says:\n%s%s", r.Status, r.Out, r.Err)
	}
	after, err := b.Processes(ctx)
	must(t, err)
	if diff := cmp.Diff(before, after, cmp.AllowUnexported(box.Process{})); diff != "" {
		t.Errorf("processes (-before +after the second up):\n%s", diff)
	}
	must(t, b.Must(ctx, "up", "--bases", "1"))
	if nodes, err = c.CoreV1().Nodes().List(ctx, metav1.ListOptions{}); err != nil || len(nodes.Items) != 1 {
		t.Errorf("after an up with one base there are %d Nodes, error %v", len(nodes.Items), err)
	}
	must(t, b.Must(ctx, "down"))
	must(t, nothingLeft(ctx, b))
	must(t, shared.Must(ctx, "status"))
}
