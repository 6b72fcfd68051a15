package rights

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

// TestFilesArePrivate checks that only the user can read the files of a sandbox, even if any user can access its home
// directory and the umask is 0.
func TestFilesArePrivate(t *testing.T) {
	requirePrivate(t, shared, "kubeconfig", "module-controller.kubeconfig", "module-controller.view.kubeconfig",
		"broker.json",
		"kubelet.key", "pki/ca.key",
		"etcd/member/snap/db", "logs/daemon.log")
}

// requirePrivate fails the test unless all files of a sandbox are private. It also fails the test if a file in some
// does not exist.
func requirePrivate(t *testing.T, b *box.Box, some ...string) {
	t.Helper()
	t.Logf("%d files and directories", check.Private(t, b.Dir()))
	for _, file := range some {
		if _, err := os.Stat(filepath.Join(b.Dir(), file)); err != nil {
			t.Error(err)
		}
	}
}
