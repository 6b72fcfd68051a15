package check

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestArtifacts checks that every test gets its own empty directory, even if its name is long.
func TestArtifacts(t *testing.T) {
	e2e := t.TempDir()
	long := strings.Repeat("it waits until the base is back / ", 20)
	seen := map[string]string{}
	for _, test := range []string{"TestCatalogue/scale", long + "a", long + "b", "../..", "基座"} {
		folder, err := Artifacts(e2e, test)
		if err != nil {
			t.Fatalf("%s: %v", test, err)
		}
		if filepath.Dir(folder) != filepath.Join(e2e, "artifacts") || seen[folder] != "" {
			t.Errorf("%s and %[3]q have the same directory %[2]s", test, folder, seen[folder])
		}
		seen[folder] = test
		if err := os.WriteFile(filepath.Join(folder, "report.html"), nil, 0o600); err != nil {
			t.Fatal(err)
		}
		if again, err := Artifacts(e2e, test); err != nil || again != folder {
			t.Errorf("directory of %s: first %s, then %s (error: %v)", test, folder, again, err)
		}
		if files, err := os.ReadDir(folder); err != nil || len(files) != 0 {
			t.Errorf("files in the directory of %s: %v (error: %v)", test, files, err)
		}
	}
}
