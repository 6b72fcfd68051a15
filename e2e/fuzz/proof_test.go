package fuzz

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/go-logr/logr"
	"k8s.io/klog/v2"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/mutate"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fuzz"
)

const (
	// within is how long the fuzzer may look.
	within = time.Minute
	// chances is how often it looks, each time with another seed: what it draws is chance.
	chances = 2
	// sandboxes keep two processors busy.
	sandboxes = 5
)

var root = filepath.Join("..", "..")

// Each mutation that is not rare is found within a minute, with a random seed or with the next one.
func TestMutationsAreFound(t *testing.T) {
	programs := prepare(t)
	var found, missed []string
	for _, m := range mutate.All {
		t.Run(m.Name, func(t *testing.T) {
			if m.Rare != "" {
				t.Skip("a scenario finds it, and not the fuzzer: " + m.Rare)
			}
			programs := programs
			programs.Controller = filepath.Join(t.TempDir(), box.ControllerProgram)
			check.Must(t, m.Build(t.Context(), root, programs.Controller))
			var f *fuzz.Failure
			var after time.Duration
			for i := 0; i < chances && f == nil; i++ {
				f, after = look(t, programs, v1alpha1.Controller{})
			}
			if f == nil {
				missed = append(missed, m.Name)
				return
			}
			found = append(found, fmt.Sprintf("| %s | %s | %.0f |", m.What, f.Invariant, after.Seconds()))
		})
	}
	t.Logf("%d were found:\n| What is broken | Found by | After, s |\n|---|---|---|\n%s", len(found), strings.Join(found, "\n"))
	if len(missed) > 0 {
		t.Errorf("nothing was found in %d times %s: %s", chances, within, strings.Join(missed, ", "))
	}
}

// A controller that never looks at what a base answers is found out in seconds.
func TestTheNaiveControllerIsFound(t *testing.T) {
	programs := prepare(t)
	naive := filepath.Join(t.TempDir(), "naive")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", naive, "../own/naive")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the naive controller: %v\n%s", err, out)
	}
	f, _ := look(t, programs, v1alpha1.Controller{
		Command: []string{naive}, Ready: &v1alpha1.ControllerReady{Log: "I am ready$"},
		Env: map[string]string{"KUBECONFIG": "{{.Kubeconfig}}", "BROKER": "tcp://{{.BrokerHost}}:{{.BrokerPort}}", "BROKER_USER": "{{.BrokerUser}}",
			"BROKER_PASSWORD": "{{.BrokerPassword}}", "ENVIRONMENT": "{{.Env}}", "INSTANCE": "{{.ClientPrefix}}@@@{{.ClientID}}", "HEALTH": "{{.HealthAddr}}"},
	})
	if f == nil {
		t.Error("nothing was found")
	}
}

// Nothing is found in the controller as it is, in the same time.
func TestNothingIsFoundInTheSoundController(t *testing.T) {
	if f, _ := look(t, prepare(t), v1alpha1.Controller{}); f != nil {
		t.Errorf("%s: %s\nRepeat it: koupsandbox fuzz --replay %d", f.Invariant, f.Seen, f.Seed)
	}
}

// prepare finds the programs, or skips the test.
func prepare(t *testing.T) sandbox.Programs {
	t.Helper()
	if os.Getenv("E2E_FUZZ") == "" {
		t.Skip("it takes half an hour: make fuzz-proof")
	}
	bin, err := box.FindPrograms(root)
	check.Must(t, err)
	klog.SetLogger(logr.Discard()) // what Kubernetes' own library tells of broken watches
	return sandbox.FindPrograms(filepath.Join(bin, box.Program), bin)
}

// look fuzzes a controller until something fails, and tells after how long it did. It returns nil if
// nothing fails in time.
func look(t *testing.T, programs sandbox.Programs, c v1alpha1.Controller) (_ *fuzz.Failure, after time.Duration) {
	t.Helper()
	home, err := os.MkdirTemp("", "fz") // a socket's path must be short
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) }) // a folder for temporary files
	config := &v1alpha1.Sandbox{Metadata: v1alpha1.Metadata{Name: "f"}, Spec: v1alpha1.Spec{Controller: c}}
	config.APIVersion, config.Kind = v1alpha1.APIVersion, v1alpha1.Kind
	config.Spec.Bases.Count, config.Spec.Speed = ptr.To(1), fuzz.Speed // schedules bring their own bases
	check.Must(t, v1alpha1.Complete(config, &v1alpha1.Origins{}, nil))
	r, err := fuzz.Run(t.Context(), fuzz.Options{
		Home: home, Config: config, Programs: programs, Name: "f", Corpus: t.TempDir(), For: within, Parallel: sandboxes, MostFailures: 1, ShrinkFor: -1,
		Progress: func(p fuzz.Progress) {
			if p.Failure != nil && after == 0 {
				after = p.Elapsed
			}
		},
	})
	check.Must(t, err)
	if len(r.Failures) == 0 {
		t.Logf("seed %d: nothing in %.0f s, %d schedules, %d of them unclear", r.Seed, r.Elapsed.Seconds(), r.Schedules, r.Unclear)
		return nil, 0
	}
	f := r.Failures[0]
	t.Logf("seed %d: %s after %.0f s, %d schedules; this one is %d\n%s\nmoves: %s", r.Seed, f.Invariant, after.Seconds(), r.Schedules, f.Seed, f.Seen, f.Smallest)
	return f, after
}
