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

	"github.com/shirou/gopsutil/v4/process"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// bases is the number of bases of a sandbox of ownBox, and of replicas in it.
const bases = 2

func spec(durable bool) v1alpha1.Spec {
	count := bases
	return v1alpha1.Spec{Durable: durable, Bases: v1alpha1.Bases{Count: &count}}
}

// ownBox returns a sandbox that only this test uses. It is not up yet. When the test ends, nothing of it may be left.
func ownBox(t *testing.T) *box.Box {
	t.Helper()
	b, err := box.New("own")
	must(t, err)
	t.Cleanup(func() {
		ctx := context.Background()
		if t.Failed() {
			b.Keep(t.Name())
		}
		must(t, b.Down(ctx))
		must(t, nothingLeft(ctx, b))
		must(t, b.Remove(ctx))
	})
	return b
}

// deploy creates a Deployment of a module in a sandbox.
func deploy(t *testing.T, b *box.Box) {
	t.Helper()
	c, err := b.Client()
	must(t, err)
	d := module.Deployment(metav1.NamespaceDefault, "survivor", bases,
		module.Template("survivor", module.Container("survivor", "1.0.0")))
	_, err = c.AppsV1().Deployments(d.Namespace).Create(t.Context(), d, metav1.CreateOptions{})
	must(t, err)
}

// survives waits until the Deployment is Ready, and the base of each of its Pods has the module.
func survives(t *testing.T, b *box.Box) {
	t.Helper()
	eventually(t, "the Deployment is Ready", func(ctx context.Context) error {
		c, err := b.Client()
		if err != nil {
			return err
		}
		s, err := b.Open(ctx)
		if err != nil {
			return err
		}
		defer s.Close()
		list, err := s.Bases(ctx, "")
		if err != nil {
			return err
		}
		installed := map[string]bool{} // by address
		for _, base := range list {
			installed[base.IP] = slices.Contains(base.Modules, "survivor:1.0.0 ACTIVATED")
		}
		pods, err := c.CoreV1().Pods(metav1.NamespaceDefault).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		for i := range pods.Items {
			if p := &pods.Items[i]; !module.IsReady(p) || !installed[p.Status.PodIP] {
				return fmt.Errorf("pod %s is %s, deleted at %v; bases with the module: %v", p.Name, p.Status.Phase,
					p.DeletionTimestamp, installed)
			}
		}
		if len(pods.Items) != bases {
			return fmt.Errorf("there are %d Pods", len(pods.Items))
		}
		return nil
	})
}

// nothingLeft returns an error if a sandbox has left its directory, or a process that works in it or names it.
func nothingLeft(ctx context.Context, b *box.Box) error {
	if _, err := os.Stat(b.Folder()); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the directory %s is left (%w)", b.Folder(), err)
	}
	all, err := process.ProcessesWithContext(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		command, _ := p.CmdlineWithContext(ctx) // a process that has ended has none
		directory, _ := p.CwdWithContext(ctx)
		if int(p.Pid) != os.Getpid() &&
			(strings.Contains(command, b.Folder()) || strings.HasPrefix(directory, b.Folder())) {
			return fmt.Errorf("process %d is left: %s", p.Pid, command)
		}
	}
	return nil
}

// kill kills the process of a component, and waits until status reports the problem.
func kill(t *testing.T, b *box.Box, component, problem string) {
	t.Helper()
	list, err := b.Processes(t.Context())
	must(t, err)
	p, err := box.Find(list, component)
	must(t, err)
	must(t, p.Kill(t.Context()))
	reports(t, b, problem)
}

func reports(t *testing.T, b *box.Box, problem string) {
	t.Helper()
	eventually(t, "status reports that "+problem, func(ctx context.Context) error {
		r, err := b.Run(ctx, "status")
		if err != nil {
			return err
		}
		reported := slices.ContainsFunc(strings.Split(r.Out, "\n"), func(line string) bool {
			return strings.HasPrefix(line, "✗ ") && strings.Contains(line, problem)
		})
		if r.Status != 1 || !reported {
			return fmt.Errorf("status ends with %d:\n%s%s", r.Status, r.Out, r.Err)
		}
		return nil
	})
}

const daemonGone = "its daemon is gone"

// After a crash of a component or of the daemon of a durable sandbox, up starts it again, and the objects of the cluster
// are still there. An up that fails before that loses nothing.
func TestCrashes(t *testing.T) {
	b := ownBox(t)
	must(t, b.Up(t.Context(), spec(true)))
	deploy(t, b)
	survives(t, b)
	for _, component := range []string{"module-controller", "etcd"} {
		kill(t, b, component, component+" is exited: exited: signal: killed")
		r, err := b.Run(t.Context(), "up")
		must(t, err)
		if r.Status != 0 || !strings.Contains(r.Out, "started "+component+" again") {
			t.Fatalf("up ends with %d:\n%s%s", r.Status, r.Out, r.Err)
		}
		survives(t, b)
	}
	kill(t, b, "daemon", daemonGone)

	broken := spec(true)
	broken.Broker.URL = "mqtt://" + check.ClosedPort(t)
	file, err := b.WriteConfig(broken)
	must(t, err)
	r, err := b.Run(t.Context(), "up", "--config", file)
	must(t, err)
	if want := b.Folder(); r.Status != 1 || !strings.Contains(r.Err, want) {
		t.Errorf("up without a broker ends with %d, want 1 and %q:\n%s", r.Status, want, r.Err)
	}
	reports(t, b, daemonGone)

	must(t, b.Up(t.Context(), spec(true)))
	eventually(t, "status reports no problem", func(ctx context.Context) error { return b.Must(ctx, "status") })
	survives(t, b)
}

// After a crash of its daemon, a sandbox that is not durable starts with an empty cluster, because etcd may have lost
// writes. down ends the processes that the daemon has left.
func TestCrashOfAPassingSandbox(t *testing.T) {
	b := ownBox(t)
	must(t, b.Up(t.Context(), spec(false)))
	deploy(t, b)
	kill(t, b, "daemon", daemonGone)
	must(t, b.Up(t.Context(), spec(false)))
	c, err := b.Client()
	must(t, err)
	list, err := c.AppsV1().Deployments(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) > 0 {
		t.Errorf("the cluster still has the Deployment %s", list.Items[0].Name)
	}

	kill(t, b, "daemon", daemonGone)
	left, err := b.Processes(t.Context())
	must(t, err)
	if len(left) < 5 { // etcd, three of Kubernetes, the controller
		t.Errorf("only these processes survive the daemon: %v", left)
	}
	must(t, b.Must(t.Context(), "down"))
	ended(t, left)
}

func ended(t *testing.T, list []box.Process) {
	t.Helper()
	for _, p := range list {
		if p.Running(t.Context()) {
			t.Errorf("%s, process %d, is left", p.Component, p.PID)
		}
	}
}

// Ctrl-C during up leaves nothing.
func TestInterruptedUp(t *testing.T) {
	b := ownBox(t)
	file, err := b.WriteConfig(spec(false))
	must(t, err)
	cmd := b.Command(t.Context(), "up", "--config", file)
	var printed strings.Builder
	cmd.Stderr = &printed
	must(t, cmd.Start())
	var running []box.Process
	eventually(t, "the API server starts", func(ctx context.Context) error {
		running, err = b.Processes(ctx)
		if err == nil {
			_, err = box.Find(running, "kube-apiserver")
		}
		return err
	})
	must(t, cmd.Process.Signal(syscall.SIGINT))
	err = cmd.Wait()
	if cmd.ProcessState.ExitCode() != 1 || !strings.HasSuffix(printed.String(), "koupsandbox: stopped\n") {
		t.Errorf("up ends with %v:\n%s", err, printed.String())
	}
	ended(t, running)
	must(t, nothingLeft(t.Context(), b))
}

// endless kills the broker, and does not end before the test.
const endless = `apiVersion: sandbox.koupleless.io/v1alpha1
kind: Scenario
metadata: {name: endless}
spec:
  description: A run that the test ends.
  steps:
    - broker: {do: kill}
    - sleep: {for: 1h, reason: the test ends the run}
`

// runEndless starts a run of the scenario, and returns when the broker is killed.
func runEndless(t *testing.T, b *box.Box, flags ...string) *exec.Cmd {
	t.Helper()
	file := filepath.Join(t.TempDir(), "endless.yaml")
	must(t, os.WriteFile(file, []byte(endless), 0o600))
	cmd := b.Command(t.Context(), append(append([]string{"scenario", "run"}, flags...), file)...)
	must(t, cmd.Start())
	eventually(t, "the broker is killed", func(ctx context.Context) error { return brokerIs(ctx, b, "exited") })
	return cmd
}

func brokerIs(ctx context.Context, b *box.Box, want string) error {
	s, err := b.Open(ctx)
	if err != nil {
		return err
	}
	defer s.Close()
	status, err := s.Status(ctx, false)
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

// When a run is killed, a sandbox that was up before gets its components back, and a sandbox of the run is removed.
func TestKilledRun(t *testing.T) {
	t.Run("in a sandbox that was up", func(t *testing.T) {
		cmd := runEndless(t, shared)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait() // killed
		eventually(t, "the broker runs again",
			func(ctx context.Context) error { return brokerIs(ctx, shared, "running") })
		eventually(t, "status reports no problem",
			func(ctx context.Context) error { return shared.Must(ctx, "status") })
	})
	for name, signals := range map[string][]os.Signal{"killed": {syscall.SIGKILL},
		"interrupted twice": {syscall.SIGINT, syscall.SIGINT}} {
		t.Run(name+" with its own sandbox", func(t *testing.T) {
			b := ownBox(t)
			cmd := runEndless(t, b, "--up")
			for _, signal := range signals {
				must(t, cmd.Process.Signal(signal))
			}
			_ = cmd.Wait() // by a signal, or stopped
			eventually(t, "nothing is left", func(ctx context.Context) error { return nothingLeft(ctx, b) })
		})
	}
}

// fuzz refuses to use a sandbox that exists. The name of its first sandbox ends with -1.
func TestFuzzRefusesAnExistingSandbox(t *testing.T) {
	r, err := shared.Run(t.Context(), "fuzz", "--name", strings.TrimSuffix(shared.Name, "-1"), "--count", "1",
		"--corpus", t.TempDir())
	must(t, err)
	if want := "sandbox " + shared.Name + " exists already"; r.Status != 1 || !strings.Contains(r.Err, want) {
		t.Errorf("status %d, want 1 and %q:\n%s", r.Status, want, r.Err)
	}
}
