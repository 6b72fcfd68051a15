package kubectl

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

// In the PATH, as krew puts it there, koupsandbox is a kubectl command.
func TestPlugin(t *testing.T) {
	folder := t.TempDir()
	program, err := filepath.Abs(filepath.Join(repository, "bin/koupsandbox"))
	check.Must(t, err)
	check.Must(t, os.Symlink(program, filepath.Join(folder, "kubectl-koupsandbox")))
	t.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
	for command, want := range map[string]string{
		"koupsandbox why node/base-1":             "✓",
		"koupsandbox why pod/nobody -n kube-node": "koupsandbox: pod/nobody is not found in namespace kube-node",
		"koupsandbox why node/base-1 --context x": `koupsandbox: the kubeconfig has no context "x"`,
	} {
		if _, out := typed(t.Context(), t, strings.Fields(command)...); !strings.HasPrefix(out, want) {
			t.Errorf("kubectl %s printed, without %q:\n%s", command, want, out)
		}
	}
}
