package scenarios

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// startInterrupted starts the scenario testdata/interrupted.yaml, and waits until it sends requests. It returns the
// namespace of the run, and the directory to which the run writes marker files.
func startInterrupted(t *testing.T) (s *command, namespace, marks string) {
	t.Helper()
	marks = t.TempDir()
	s = startRun(t, nil, "--var", "marks="+marks, testdata("interrupted"))
	eventually(t, "the scenario has started its requests", func(context.Context) error {
		text, err := os.ReadFile(filepath.Join(marks, "began"))
		namespace = strings.TrimSpace(string(text))
		return err
	})
	if n := countBases(t.Context(), t, namespace); n != 2 {
		t.Fatalf("%d bases, want 2", n)
	}
	eventually(t, "requests are sent", func(ctx context.Context) error { return checkSending(ctx, namespace) })
	return s, namespace, marks
}

// checkSending returns an error unless the run has sent requests.
func checkSending(ctx context.Context, group string) error {
	streams, err := up.Traffic(ctx, group)
	if err != nil {
		return err
	}
	if len(streams) != 1 || streams[0].Sent == 0 {
		return fmt.Errorf("%d streams, or no requests were sent", len(streams))
	}
	return nil
}

// TestInterrupt checks that after Ctrl-C, a run executes its finally steps, cleans up, and writes its report.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	s, namespace, marks := startInterrupted(t)
	must(t, s.cmd.Process.Signal(os.Interrupt))
	result, report := s.wait(t)
	if result.Status != 1 {
		t.Errorf("exit status %d, want 1", result.Status)
	}
	if report == nil {
		t.Fatalf("no report was written:\n%s%s", result.Out, result.Err)
	}
	of := report.Runs[0]
	if of.Result != scenario.Errored || of.Namespace != namespace || !strings.Contains(of.Failure, "stopped") {
		t.Errorf("run in %s: reported as %s in %s: %s", namespace, of.Result, of.Namespace, of.Failure)
	}
	if len(of.Traffic) != 1 || of.Traffic[0].Sent == 0 {
		t.Errorf("reported requests: %+v", of.Traffic)
	}
	if _, err := os.Stat(filepath.Join(marks, "finally")); err != nil {
		t.Errorf("the finally steps were not executed: %v", err)
	}
	if n := countBases(t.Context(), t, namespace); n != 0 {
		t.Errorf("%d bases still exist", n)
	}
	if err := checkSending(t.Context(), namespace); err == nil {
		t.Error("requests are still being sent")
	}
	waitNamespaceDeleted(t, namespace)
}

// TestKilledClient checks that the daemon removes the bases and the request streams of a run when the client process
// of the run is killed.
func TestKilledClient(t *testing.T) {
	t.Parallel()
	s, namespace, _ := startInterrupted(t)
	must(t, s.cmd.Process.Kill())
	t.Cleanup(func() { // the daemon does not delete the namespace
		if err := api(t).CoreV1().Namespaces().Delete(context.Background(), namespace,
			metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	if result, _ := s.wait(t); result.Status != -1 {
		t.Fatalf("exit status %d, want -1 (killed):\n%s%s", result.Status, result.Out, result.Err)
	}
	eventually(t, "the bases of the run are removed", func(ctx context.Context) error {
		if n := countBases(ctx, t, namespace); n != 0 {
			return fmt.Errorf("%d bases still exist", n)
		}
		return nil
	})
	eventually(t, "the traffic of the run has stopped", func(ctx context.Context) error {
		if err := checkSending(ctx, namespace); err == nil {
			return errors.New("requests are still being sent")
		}
		return nil
	})
}

// TestKeep checks that with --keep, the bases and Pods of a run still exist after the run, and that the printed
// command removes them.
func TestKeep(t *testing.T) {
	t.Parallel()
	result, report := run(t, 0, nil, "--keep", testdata("small"))
	namespace := report.Runs[0].Namespace
	if n := countBases(t.Context(), t, namespace); n != 1 {
		t.Errorf("%d bases exist after the run, want 1", n)
	}
	pod, err := api(t).CoreV1().Pods(namespace).Get(t.Context(), "stock", metav1.GetOptions{})
	if err != nil || pod.DeletionTimestamp != nil {
		t.Errorf("the Pod does not exist after the run: %v", err)
	}
	_, command, found := strings.Cut(result.Err, "kept: namespace "+namespace+" and its bases; remove them with: ")
	if !found {
		t.Fatalf("the command that removes the bases is not printed:\n%s", result.Err)
	}
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skipf("the printed command needs kubectl: %v", err)
	}
	shell(t, nil, strings.TrimSpace(command), 0)
	if n := countBases(t.Context(), t, namespace); n != 0 {
		t.Errorf("%d bases still exist", n)
	}
	waitNamespaceDeleted(t, namespace)
}

// shell runs a command that koupsandbox has printed. It fails the test if the exit status differs from status.
func shell(t *testing.T, env []string, command string, status int) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Env = append(shared.Command(t.Context()).Env, "PATH="+binDir+string(os.PathListSeparator)+os.Getenv("PATH"))
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status {
		t.Fatalf("%s: %v, want exit status %d:\n%s", command, err, status, out)
	}
	return string(out)
}

// TestScenarioTimeout checks that a scenario that waits indefinitely ends at its timeout, and that its report
// contains the last observed state.
func TestScenarioTimeout(t *testing.T) {
	t.Parallel()
	result, report := run(t, 1, nil, testdata("hangs"))
	const why = `step "wait for rollout of Deployment/stock": `
	of := report.Runs[0]
	if of.Result != scenario.Failed || !strings.HasPrefix(of.Failure, why) || !strings.Contains(of.Failure, " 4s: ") {
		t.Errorf("result %s: %s", of.Result, of.Failure)
	}
	for _, want := range []string{of.Failure, "Deployment stock, last observed", "unavailableReplicas: 1"} {
		if !strings.Contains(result.Out, want) {
			t.Errorf("the output does not contain %q:\n%s", want, result.Out)
		}
	}
	if n := countBases(t.Context(), t, of.Namespace); n != 0 {
		t.Errorf("%d bases still exist", n)
	}
}
