package cli_test

import (
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

// The files of the first version are there as they were. They are never changed: a later version reads
// them as they are (docs/en/reference/versions.md).
func TestFilesOfTheFirstVersionAreRead(t *testing.T) {
	const folder = "testdata/first-version"
	if diff := cmp.Diff(result{0, "", ""}, run(t, t.TempDir(), "scenario", "lint", folder+"/scenarios")); diff != "" {
		t.Errorf("scenarios (-want +got):\n%s", diff)
	}
	text, err := os.ReadFile(folder + "/sandbox.yaml")
	check.Must(t, err)
	config, origins, err := v1alpha1.Decode("sandbox.yaml", text)
	if err := v1alpha1.Complete(config, origins, err); err != nil {
		t.Fatalf("configuration: %v", err)
	}
	if diff := cmp.Diff("kind-demo", config.Spec.Cluster.Context); diff != "" {
		t.Errorf("its context (-want +got):\n%s", diff)
	}
}
