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

// bases is the number of bases in each sandbox of ownBox, and the number of replicas of the Deployment.
const bases = 2

func spec(durable bool) v1alpha1.Spec {
	count := bases
	return v1alpha1.Spec{Durable: durable, Bases: []v1alpha1.BaseSet{{Count: &count}}}
}

// ownBox returns a sandbox that only this test uses. The sandbox is not running. When the test ends, ownBox stops the
// sandbox, and fails the test if its files or processes remain.
func ownBox(t *testing.T) *box.Box {
	t.Helper()
	b, err := box.New("own")
	must(t, err)
	t.Cleanup(func() {
		ctx := context.Background()
		if t.Failed() {
			b.SaveLogs(t.Name())
		}
		must(t, b.Down(ctx))
		must(t, checkRemoved(ctx, b))
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

// waitDeployed waits until all Pods of the Deployment that deploy created are Ready, and the base of each Pod has the
// module.
func waitDeployed(t *testing.T, b *box.Box) {
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
				return fmt.Errorf("Pod %s is %s, deletionTimestamp %v; bases with the module: %v", p.Name,
					p.Status.Phase,
					p.DeletionTimestamp, installed)
			}
		}
		if len(pods.Items) != bases {
			return fmt.Errorf("%d Pods, want %d", len(pods.Items), bases)
		}
		return nil
	})
}

// checkRemoved returns an error if the directory of a sandbox exists, or if a process runs whose command line or
// working directory contains the path of this directory.
func checkRemoved(ctx context.Context, b *box.Box) error {
	if _, err := os.Stat(b.Dir()); !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("the directory %s still exists (%w)", b.Dir(), err)
	}
	all, err := process.ProcessesWithContext(ctx)
	if err != nil {
		return err
	}
	for _, p := range all {
		command, _ := p.CmdlineWithContext(ctx) // a process that has ended has none
		directory, _ := p.CwdWithContext(ctx)
		if int(p.Pid) != os.Getpid() &&
			(strings.Contains(command, b.Dir()) || strings.HasPrefix(directory, b.Dir())) {
			return fmt.Errorf("process %d still runs: %s", p.Pid, command)
		}
	}
	return nil
}

// kill kills the process of a component, and waits until the status command reports the given problem.
func kill(t *testing.T, b *box.Box, component, problem string) {
	t.Helper()
	list, err := b.Processes(t.Context())
	must(t, err)
	p, err := box.Find(list, component)
	must(t, err)
	must(t, p.Kill(t.Context()))
	waitProblem(t, b, problem)
}

// waitProblem waits until the status command reports the given problem.
func waitProblem(t *testing.T, b *box.Box, problem string) {
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
			return fmt.Errorf("status: exit status %d:\n%s%s", r.Status, r.Out, r.Err)
		}
		return nil
	})
}

const daemonNotRunning = "its daemon is not running"

// TestCrashes checks that up repairs a durable sandbox after a crash of a component or of the daemon, and that the
// cluster keeps its objects. A failed up between the crash and the successful up must not delete the objects.
func TestCrashes(t *testing.T) {
	b := ownBox(t)
	must(t, b.Up(t.Context(), spec(true)))
	deploy(t, b)
	waitDeployed(t, b)
	for _, component := range []string{"module-controller", "etcd"} {
		kill(t, b, component, component+" is exited: signal: killed")
		r, err := b.Run(t.Context(), "up")
		must(t, err)
		if r.Status != 0 || !strings.Contains(r.Out, "started "+component+" again") {
			t.Fatalf("up: exit status %d:\n%s%s", r.Status, r.Out, r.Err)
		}
		waitDeployed(t, b)
	}
	kill(t, b, "daemon", daemonNotRunning)

	broken := spec(true)
	broken.Broker.URL = "mqtt://" + check.ClosedPort(t)
	file, err := b.WriteConfig(broken)
	must(t, err)
	r, err := b.Run(t.Context(), "up", "--config", file)
	must(t, err)
	if want := b.Dir(); r.Status != 1 || !strings.Contains(r.Err, want) {
		t.Errorf("up without a broker: exit status %d, want 1 and %q:\n%s", r.Status, want, r.Err)
	}
	waitProblem(t, b, daemonNotRunning)

	must(t, b.Up(t.Context(), spec(true)))
	eventually(t, "status reports no problem", func(ctx context.Context) error { return b.Must(ctx, "status") })
	waitDeployed(t, b)
}

// TestCrashOfNonDurableSandbox checks that after a crash of the daemon, up starts a non-durable sandbox with an empty
// cluster, because etcd may have lost writes. After a second crash, down must stop the processes that the daemon left
// running.
func TestCrashOfNonDurableSandbox(t *testing.T) {
	b := ownBox(t)
	must(t, b.Up(t.Context(), spec(false)))
	deploy(t, b)
	kill(t, b, "daemon", daemonNotRunning)
	must(t, b.Up(t.Context(), spec(false)))
	c, err := b.Client()
	must(t, err)
	list, err := c.AppsV1().Deployments(metav1.NamespaceAll).List(t.Context(), metav1.ListOptions{})
	must(t, err)
	if len(list.Items) > 0 {
		t.Errorf("the cluster still has the Deployment %s", list.Items[0].Name)
	}

	kill(t, b, "daemon", daemonNotRunning)
	left, err := b.Processes(t.Context())
	must(t, err)
	if len(left) < 5 { // etcd, three components of Kubernetes, the controller
		t.Errorf("processes after the end of the daemon: %v; want at least 5", left)
	}
	must(t, b.Must(t.Context(), "down"))
	requireEnded(t, left)
}

// requireEnded fails the test if one of the processes is still running.
func requireEnded(t *testing.T, list []box.Process) {
	t.Helper()
	for _, p := range list {
		if p.Running(t.Context()) {
			t.Errorf("%s, process %d, still runs", p.Component, p.PID)
		}
	}
}

// TestInterruptedUp checks that Ctrl-C during up stops all processes and removes the directory of the sandbox.
func TestInterruptedUp(t *testing.T) {
	b := ownBox(t)
	file, err := b.WriteConfig(spec(false))
	must(t, err)
	cmd := b.Command(t.Context(), "up", "--config", file)
	var stderr strings.Builder
	cmd.Stderr = &stderr
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
	if cmd.ProcessState.ExitCode() != 1 || !strings.HasSuffix(stderr.String(), "koupsandbox: stopped\n") {
		t.Errorf("up: %v:\n%s", err, stderr.String())
	}
	requireEnded(t, running)
	must(t, checkRemoved(t.Context(), b))
}

// endless is a scenario that kills the broker and then sleeps for an hour.
const endless = `apiVersion: sandbox.koupleless.io/v1alpha1
kind: Scenario
metadata: {name: endless}
spec:
  description: A run that the test ends.
  steps:
    - broker: {do: kill}
    - sleep: {for: 1h, reason: the test ends the run}
`

// runEndless starts a run of the endless scenario, and returns as soon as the broker is killed.
func runEndless(t *testing.T, b *box.Box, flags ...string) *exec.Cmd {
	t.Helper()
	file := filepath.Join(t.TempDir(), "endless.yaml")
	must(t, os.WriteFile(file, []byte(endless), 0o600))
	cmd := b.Command(t.Context(), append(append([]string{"scenario", "run"}, flags...), file)...)
	must(t, cmd.Start())
	eventually(t, "the broker is killed", func(ctx context.Context) error { return checkBroker(ctx, b, "exited") })
	return cmd
}

// checkBroker returns an error unless the broker is in the given state.
func checkBroker(ctx context.Context, b *box.Box, want string) error {
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
	return fmt.Errorf("the broker is not %s: %+v", want, status.Components)
}

// TestKilledRun checks that after a run is killed, the components of an already running sandbox are restored, and a
// sandbox that the run created is removed, while another run can already begin.
func TestKilledRun(t *testing.T) {
	t.Run("killed in a running sandbox", func(t *testing.T) {
		cmd := runEndless(t, shared)
		must(t, cmd.Process.Kill())
		_ = cmd.Wait() // the error of a killed process
		eventually(t, "the broker runs again",
			func(ctx context.Context) error { return checkBroker(ctx, shared, "running") })
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
			_ = cmd.Wait() // the error of a killed or interrupted command
			// must not use the sandbox that is shutting down
			must(t, b.Must(t.Context(), "scenario", "run", "--up", "../scenarios/daemonset-single-base.yaml"))
			eventually(t, "the sandbox is removed", func(ctx context.Context) error { return checkRemoved(ctx, b) })
		})
	}
}

// TestFuzzRejectsExistingSandbox checks that fuzz fails if its first sandbox, whose name ends with -1, already
// exists.
func TestFuzzRejectsExistingSandbox(t *testing.T) {
	r, err := shared.Run(t.Context(), "fuzz", "--name", strings.TrimSuffix(shared.Name, "-1"), "--count", "1",
		"--corpus", t.TempDir())
	must(t, err)
	if want := "sandbox " + shared.Name + " already exists"; r.Status != 1 || !strings.Contains(r.Err, want) {
		t.Errorf("status %d, want 1 and %q:\n%s", r.Status, want, r.Err)
	}
}
