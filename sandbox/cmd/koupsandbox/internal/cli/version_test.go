package cli_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

// TestFilesOfFirstVersionAreValid checks that this version can read the files that the first version wrote, as
// docs/en/reference/versions.md guarantees. Do not change these files.
func TestFilesOfFirstVersionAreValid(t *testing.T) {
	const dir = "testdata/first-version"
	if diff := cmp.Diff(result{0, "", ""}, run(t, t.TempDir(), "scenario", "lint", dir+"/scenarios")); diff != "" {
		t.Errorf("scenarios (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(dir + "/sandbox.yaml")
	check.Must(t, err)
	config, origins, err := v1alpha1.Decode("sandbox.yaml", text)
	if err := v1alpha1.Complete(config, origins, err); err != nil {
		t.Fatalf("configuration: %v", err)
	}
	if diff := cmp.Diff("kind-demo", config.Spec.Cluster.Context); diff != "" {
		t.Errorf("context (-want +got):\n%s", diff)
	}
}
