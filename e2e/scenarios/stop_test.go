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

// inTheMiddle starts the scenario interrupted and returns when its requests go to
// its bases, its namespace and the directory of its markers.
func inTheMiddle(t *testing.T) (s *started, namespace, marks string) {
	t.Helper()
	marks = t.TempDir()
	s = begin(t, nil, "--var", "marks="+marks, testdata("interrupted"))
	eventually(t, "the scenario waits", func(context.Context) error {
		text, err := os.ReadFile(filepath.Join(marks, "began"))
		namespace = strings.TrimSpace(string(text))
		return err
	})
	if n := basesOf(t.Context(), t, namespace); n != 2 {
		t.Fatalf("%d bases, want 2", n)
	}
	eventually(t, "requests are sent", func(ctx context.Context) error { return sending(ctx, namespace) })
	return s, namespace, marks
}

func sending(ctx context.Context, group string) error {
	streams, err := up.Traffic(ctx, group)
	if err != nil {
		return err
	}
	if len(streams) != 1 || streams[0].Sent == 0 {
		return fmt.Errorf("there are %d streams, or nothing was sent", len(streams))
	}
	return nil
}

// Ctrl-C ends a run: it does its finally, is cleaned up, and reported.
func TestInterrupt(t *testing.T) {
	t.Parallel()
	s, namespace, marks := inTheMiddle(t)
	must(t, s.cmd.Process.Signal(os.Interrupt))
	result, report := s.end(t)
	if result.Status != 1 {
		t.Errorf("exit status %d, want 1", result.Status)
	}
	if report == nil {
		t.Fatalf("no report was written:\n%s%s", result.Out, result.Err)
	}
	of := report.Runs[0]
	if of.Verdict != scenario.Errored || of.Namespace != namespace || !strings.Contains(of.Failure, "stopped") {
		t.Errorf("the run in %s is reported as %s in %s: %s", namespace, of.Verdict, of.Namespace, of.Failure)
	}
	if len(of.Traffic) != 1 || of.Traffic[0].Sent == 0 {
		t.Errorf("its requests are reported as %+v", of.Traffic)
	}
	if _, err := os.Stat(filepath.Join(marks, "finally")); err != nil {
		t.Errorf("its finally was not done: %v", err)
	}
	if n := basesOf(t.Context(), t, namespace); n != 0 {
		t.Errorf("%d bases are left", n)
	}
	if err := sending(t.Context(), namespace); err == nil {
		t.Error("requests are still being sent")
	}
	namespaceGone(t, namespace)
}

// When the client is killed, the daemon removes the objects that the client created.
func TestClientDies(t *testing.T) {
	t.Parallel()
	s, namespace, _ := inTheMiddle(t)
	must(t, s.cmd.Process.Kill())
	t.Cleanup(func() { // no other code does it
		if err := api(t).CoreV1().Namespaces().Delete(context.Background(), namespace,
			metav1.DeleteOptions{}); err != nil {
			t.Error(err)
		}
	})
	if result, _ := s.end(t); result.Status != -1 {
		t.Fatalf("it was not killed but ended with status %d:\n%s%s", result.Status, result.Out, result.Err)
	}
	eventually(t, "its bases are gone", func(ctx context.Context) error {
		if n := basesOf(ctx, t, namespace); n != 0 {
			return fmt.Errorf("%d are left", n)
		}
		return nil
	})
	eventually(t, "its traffic has ended", func(ctx context.Context) error {
		if err := sending(ctx, namespace); err == nil {
			return errors.New("requests are still being sent")
		}
		return nil
	})
}

// What is kept can be looked at, and the command that is printed removes it.
func TestKeep(t *testing.T) {
	t.Parallel()
	result, report := play(t, 0, nil, "--keep", testdata("small"))
	namespace := report.Runs[0].Namespace
	if n := basesOf(t.Context(), t, namespace); n != 1 {
		t.Errorf("%d bases are kept, want 1", n)
	}
	pod, err := api(t).CoreV1().Pods(namespace).Get(t.Context(), "stock", metav1.GetOptions{})
	if err != nil || pod.DeletionTimestamp != nil {
		t.Errorf("its Pod is not kept: %v", err)
	}
	_, command, found := strings.Cut(result.Err, "kept: namespace "+namespace+" and its bases; remove them with: ")
	if !found {
		t.Fatalf("it does not say how to remove what is kept:\n%s", result.Err)
	}
	if _, err := exec.LookPath("kubectl"); err != nil {
		t.Skipf("the command cannot be tried without kubectl: %v", err)
	}
	shell(t, nil, strings.TrimSpace(command), 0)
	if n := basesOf(t.Context(), t, namespace); n != 0 {
		t.Errorf("%d bases are left", n)
	}
	namespaceGone(t, namespace)
}

// shell runs a command that koupsandbox has printed.
func shell(t *testing.T, env []string, command string, status int) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "sh", "-c", command)
	cmd.Env = append(shared.Command(t.Context()).Env, "PATH="+programs+string(os.PathListSeparator)+os.Getenv("PATH"))
	cmd.Env = append(cmd.Env, env...)
	out, err := cmd.CombinedOutput()
	if cmd.ProcessState == nil || cmd.ProcessState.ExitCode() != status {
		t.Fatalf("%s: %v, want exit status %d:\n%s", command, err, status, out)
	}
	return string(out)
}

// A scenario that hangs is stopped by its timeout, and reports the last observed state.
func TestHangs(t *testing.T) {
	t.Parallel()
	result, report := play(t, 1, nil, testdata("hangs"))
	const why = `step "wait for rollout of Deployment/stock": `
	of := report.Runs[0]
	if of.Verdict != scenario.Failed || !strings.HasPrefix(of.Failure, why) || !strings.Contains(of.Failure, " 4s: ") {
		t.Errorf("it has %s: %s", of.Verdict, of.Failure)
	}
	for _, want := range []string{of.Failure, "Deployment stock, last seen", "unavailableReplicas: 1"} {
		if !strings.Contains(result.Out, want) {
			t.Errorf("it does not say %q:\n%s", want, result.Out)
		}
	}
	if n := basesOf(t.Context(), t, of.Namespace); n != 0 {
		t.Errorf("%d bases are left", n)
	}
}
