package scenarios

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

const (
	patience = check.Patience
	// runLabel marks the namespace of a run, with the name of its scenario.
	runLabel = "sandbox.koupleless.io/scenario"
)

var eventually = check.Soon

// must fails the test on an error.
var must = check.Must

// testdata is the path of a scenario of these tests.
func testdata(name string) string { return filepath.Join("testdata", name+".yaml") }

// started is a running koupsandbox scenario run.
type started struct {
	cmd      *exec.Cmd
	out, err bytes.Buffer
	report   string // its file
}

// begin starts koupsandbox scenario run in the shared sandbox.
func begin(t *testing.T, env []string, args ...string) *started {
	t.Helper()
	s := &started{report: filepath.Join(t.TempDir(), "report.json")}
	s.cmd = shared.Command(t.Context(), append([]string{"scenario", "run", "--json", s.report}, args...)...)
	s.cmd.Env = append(s.cmd.Env, env...)
	s.cmd.Stdout, s.cmd.Stderr = &s.out, &s.err
	must(t, s.cmd.Start())
	return s
}

// end waits for its end and returns what it has printed, and its report; nil if it
// has written none.
func (s *started) end(t *testing.T) (box.Result, *scenario.Report) {
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
		t.Fatalf("the report is no JSON of a report: %v", err)
	}
	return result, report
}

// play is begin and end. The test fails unless the exit status is as wanted.
func play(t *testing.T, status int, env []string, args ...string) (box.Result, *scenario.Report) {
	t.Helper()
	result, report := begin(t, env, args...).end(t)
	if result.Status != status {
		t.Fatalf("scenario run %v ends with status %d instead of %d:\n%s%s", args, result.Status, status, result.Out,
			result.Err)
	}
	return result, report
}

// api is a client of the shared sandbox.
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

// namespaces lists those of the runs of a scenario.
func namespaces(t *testing.T, name string) []string {
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

// namespaceGone waits until the namespace of a run is gone.
func namespaceGone(t *testing.T, name string) {
	t.Helper()
	client := api(t)
	eventually(t, "namespace "+name+" is gone", func(ctx context.Context) error {
		_, err := client.CoreV1().Namespaces().Get(ctx, name, metav1.GetOptions{})
		switch {
		case apierrors.IsNotFound(err):
			return nil
		case err == nil:
			return errors.New("it is there")
		}
		return err
	})
}

// basesOf counts the bases of a run.
func basesOf(ctx context.Context, t *testing.T, group string) int {
	t.Helper()
	bases, err := up.Bases(ctx, group)
	must(t, err)
	return len(bases)
}
