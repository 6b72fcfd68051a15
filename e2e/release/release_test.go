package release

import (
	"context"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

const repository = "../.."

// build runs make in the repository. It takes seconds if Kubernetes is already compiled.
func build(ctx context.Context, t *testing.T, folder string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, "make", append([]string{"-C", folder}, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(),
		func(v string) bool { return strings.HasPrefix(v, "MAKEFLAGS=") || strings.HasPrefix(v, "MFLAGS=") })
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make %v: %v\n%s", args, err, out)
	}
}

// copyBinary copies a binary. Its modification time prevents make from rebuilding the copy.
func copyBinary(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	check.Must(t, err)
	check.Must(t, os.MkdirAll(filepath.Dir(to), 0o755))
	check.Must(t, os.WriteFile(to, text, 0o755))
	soon := time.Now().Add(time.Hour)
	check.Must(t, os.Chtimes(to, soon, soon))
}

func read(t *testing.T, folder, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	check.Must(t, err)
	return string(text)
}
