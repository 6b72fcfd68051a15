package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

const (
	timeout = check.Timeout
	// runLabel is the label of a run's namespace that contains the name of the scenario.
	runLabel = "sandbox.koupleless.io/scenario"
)

var eventually = check.Soon

// must fails the test on an error.
var must = check.Must

// testdata returns the path of a scenario in the directory testdata.
func testdata(name string) string { return filepath.Join("testdata", name+".yaml") }

// command is a running koupsandbox scenario run.
type command struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	report   string // path of the JSON report
}

// startRun starts koupsandbox scenario run in the shared sandbox, and returns without waiting for its end.
func startRun(t *testing.T, env []string, args ...string) *command {
	t.Helper()
	s := &command{report: filepath.Join(t.TempDir(), "report.json")}
	s.cmd = shared.Command(t.Context(), append([]string{"scenario", "run", "--json", s.report}, args...)...)
	s.cmd.Env = append(s.cmd.Env, env...)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.err
	must(t, s.cmd.Start())
	return s
}

// wait blocks until the command has exited. It returns the result and the report. The report is nil if the command
// did not write one.
func (s *command) wait(t *testing.T) (box.Result, *scenario.Report) {
	t.Helper()
	err := s.cmd.Wait()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	result := box.Result{Out: s.out.String(), Err: s.err.String(), Status: s.cmd.ProcessState.ExitCode()}
	text, err := os.ReadFile(s.report)
	if errors.Is(err, os.ErrNotExist) {
		return result, nil
	}
	must(t, err)
	report := &scenario.Report{}
	if err := json.Unmarshal(text, report); err != nil {
		t.Fatalf("decoding the report: %v", err)
	}
	return result, report
}

// run runs koupsandbox scenario run, and fails the test if the exit status differs from status. It repeats the command
// without parallel scenarios while the machine is too slow for a result at the first attempt.
func run(t *testing.T, status int, env []string, args ...string) (box.Result, *scenario.Report) {
	t.Helper()
	delayed := func(r *scenario.Run) bool { return r.Inconclusive() || r.FirstFailure != "" }
	exclusively := func() (box.Result, *scenario.Report) {
		exclusiveRun.Lock()
		defer exclusiveRun.Unlock()
		return startRun(t, env, args...).wait(t)
	}
	result, report := startRun(t, env, args...).wait(t)
	for n := 0; n < maxRepeats && report != nil && slices.ContainsFunc(report.Runs, delayed); n++ {
		t.Logf("repeating %v without parallel scenarios:\n%s", args, result.Out)
		result, report = exclusively()
	}
	if result.Status != status {
		t.Fatalf("scenario run %v: exit status %d, want %d:\n%s%s", args, result.Status, status, result.Out,
			result.Err)
	}
	return result, report
}

// api returns a client of the Kubernetes API of the shared sandbox.
func api(t *testing.T) kubernetes.Interface {
	t.Helper()
	return apiOf(t, shared)
}

func apiOf(t *testing.T, in *box.Box) kubernetes.Interface {
	t.Helper()
	config, err := in.REST()
	must(t, err)
	client, err := kubernetes.NewForConfig(config)
	must(t, err)
	return client
}

// runNamespaces returns the namespaces of the runs of a scenario.
func runNamespaces(t *testing.T, name string) []string {
	t.Helper()
	list, err := api(t).CoreV1().Namespaces().List(t.Context(),
		metav1.ListOptions{LabelSelector: runLabel + "=" + name})
	must(t, err)
	names := []string{}
	for _, n := range list.Items {
		names = append(names, n.Name)
	}
	return names
}

// waitNamespaceDeleted waits until the namespace of a run no longer exists.
func waitNamespaceDeleted(t *testing.T, name string) {
	t.Helper()
	client := api(t)
	eventually(t, "namespace "+name+" is deleted", func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return errors.New("the namespace exists")
		}
		return err
	})
}

// countBases returns the number of bases of a run.
func countBases(ctx context.Context, t *testing.T, group string) int {
	t.Helper()
	bases, err := up.Bases(ctx, group)
	must(t, err)
	return len(bases)
}
