package fuzz

import (
	"os"
	"path/filepath"
	"testing"

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

// schedules is the maximum number of schedules per controller. The limit is a number and not a duration, so that it
// does not depend on the speed of the machine.
const schedules = 120

var root = filepath.Join("..", "..")

// TestFuzzerDetectsMutations checks that the fuzzer detects each mutation that is not rare, with a random seed.
func TestFuzzerDetectsMutations(t *testing.T) {
	binaries := prepare(t)
	for _, m := range mutate.All {
		t.Run(m.Name, func(t *testing.T) {
			if m.Rare != "" {
				t.Skip("only a scenario detects this mutation: " + m.Rare)
			}
			binaries := binaries
			binaries.Controller = filepath.Join(t.TempDir(), box.ControllerBinary)
			check.Must(t, m.Build(t.Context(), root, binaries.Controller))
			if run(t, binaries) == nil {
				t.Error("the fuzzer did not detect the mutation")
			}
		})
	}
}

// TestControllerPasses checks that the fuzzer finds no failure of the controller without mutations.
func TestControllerPasses(t *testing.T) {
	if f := run(t, prepare(t)); f != nil {
		t.Errorf("%s: %s\nrepeat with: koupsandbox fuzz --replay %d", f.Invariant, f.Seen, f.Seed)
	}
}

// prepare returns the path of the binaries. It skips the test unless E2E_FUZZ is set.
func prepare(t *testing.T) sandbox.Binaries {
	t.Helper()
	if os.Getenv("E2E_FUZZ") == "" {
		t.Skip("takes half an hour; run make fuzz-proof")
	}
	bin, err := box.FindBinaries(root)
	check.Must(t, err)
	klog.SetLogger(logr.Discard()) // client-go logs every watch that breaks
	return sandbox.FindBinaries(filepath.Join(bin, box.Binary), bin)
}

// run runs the fuzzer and returns the first failure. It returns nil if the fuzzer finds no failure.
func run(t *testing.T, binaries sandbox.Binaries) *fuzz.Failure {
	t.Helper()
	home, err := os.MkdirTemp("", "fz") // the path of a socket must be short
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) }) // a directory for temporary files
	config := &v1alpha1.Sandbox{Metadata: v1alpha1.Metadata{Name: "f"}}
	config.APIVersion, config.Kind = v1alpha1.APIVersion, v1alpha1.Kind
	config.Spec.Bases.Count, config.Spec.Speed = ptr.To(1), fuzz.Speed // schedules have their own bases
	check.Must(t, v1alpha1.Complete(config, &v1alpha1.Origins{}, nil))
	r, err := fuzz.Run(t.Context(), fuzz.Options{
		Home: home, Config: config, Binaries: binaries, Name: "f", Corpus: t.TempDir(), Count: schedules, Parallel: 5,
		MaxFailures: 1, ShrinkFor: -1,
	})
	check.Must(t, err)
	t.Logf("seed %d: %d schedules in %.0f s, %d runs were inconclusive", r.Seed, r.Schedules, r.Elapsed.Seconds(),
		r.Inconclusive)
	if len(r.Failures) == 0 {
		return nil
	}
	f := r.Failures[0]
	t.Logf("schedule %d: %s: %s\nmoves: %s", f.Seed, f.Invariant, f.Seen, f.Smallest)
	return f
}
