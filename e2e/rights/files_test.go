package rights

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

// Nobody but its user reads anything of a sandbox, although its folder lies where everybody may look
// and the user's umask takes nothing away.
func TestFilesAreTheUsersOwn(t *testing.T) {
	private(t, shared, "kubeconfig", "module-controller.kubeconfig", "module-controller.view.kubeconfig", "broker.json", "kubelet.key", "pki/ca.key",
		"etcd/member/snap/db", "logs/daemon.log")
}

// The same is so of a sandbox that uses a cluster of the user's: here it is that of the other sandbox, whose
// mark is put aside.
func TestFilesWithAnExistingCluster(t *testing.T) {
	b, spec := theirs(t)
	marks := client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
	umask := syscall.Umask(0)
	defer syscall.Umask(umask)
	must(t, b.Up(t.Context(), spec))
	private(t, b, "kubeconfig", "broker.json", "logs/daemon.log", "logs/module-controller.log")

	// Somebody else on the same cluster, whose sandbox has the same name, as most have.
	another := &box.Box{Bin: b.Bin, Home: t.TempDir(), Name: b.Name, Provider: b.Provider}
	t.Cleanup(func() { must(t, another.Down(context.Background())) })
	its, err := marks.Get(t.Context(), "koupsandbox", metav1.GetOptions{})
	must(t, err)
	if err := another.Up(t.Context(), spec); err == nil || !strings.Contains(err.Error(), fmt.Sprintf("belongs to sandbox %q of %s;", b.Name, its.Data["place"])) {
		t.Errorf("up of another sandbox of that name: %v", err)
	}
	must(t, another.Down(t.Context()))
	now, err := marks.Get(t.Context(), "koupsandbox", metav1.GetOptions{})
	must(t, err)
	if diff := cmp.Diff(its, now); diff != "" {
		t.Errorf("the mark (-before +after):\n%s", diff)
	}
}

// private looks at all files of a sandbox; some must be there.
func private(t *testing.T, b *box.Box, some ...string) {
	t.Helper()
	t.Logf("%d files and folders", check.Private(t, b.Folder()))
	for _, file := range some {
		if _, err := os.Stat(filepath.Join(b.Folder(), file)); err != nil {
			t.Errorf("the test looks in the wrong place: %v", err)
		}
	}
}
