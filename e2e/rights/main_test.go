package rights

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"syscall"
	"testing"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/e2e/internal/audit"
	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

const timeout = check.Timeout

// repository is the path of the repository.
var repository = filepath.Join("..", "..")

// The sandbox that all tests share, its Go API, and clients of its Kubernetes API.
var (
	shared *box.Box
	up     *sandbox.Sandbox // the Go API of shared
	config *rest.Config
	client kubernetes.Interface
	must   = check.Must
)

func TestMain(m *testing.M) { os.Exit(box.Main(m, "rights", 0, bringUp)) }

// bringUp starts the shared sandbox with the umask 0 and with audit logs.
func bringUp(ctx context.Context, b *box.Box) error {
	shared, b.Instead = b, filepath.Join(b.Home, ".audited")
	if err := os.Chmod(b.Home,
		0o777); err != nil { //nolint:gosec // a directory that every user can write to
		return err
	}
	if err := audit.Wrap(b.Bin, b.Instead, "kubelet-preferred-address-types"); err != nil {
		return err
	}
	umask := syscall.Umask(0)
	defer syscall.Umask(umask)
	two := 2
	err := shared.Up(ctx, v1alpha1.Spec{
		Durable: true, Bases: []v1alpha1.BaseSet{{Count: &two}},
		Controller: v1alpha1.Controller{APIView: true, Env: map[string]string{
			"BASE_UNREACHABLE_AFTER": "10s", "BASE_DEAD_AFTER": "15s", "HEALTH_INTERVAL": "2s",
		}},
	})
	if err != nil {
		return err
	}
	var errs [3]error
	up, errs[0] = shared.Open(ctx)
	config, errs[1] = shared.REST()
	client, errs[2] = kubernetes.NewForConfig(config)
	return errors.Join(errs[:]...)
}

// contextOf returns the current context in the shared sandbox's kubeconfig.
func contextOf(t *testing.T) string {
	t.Helper()
	kubeconfig, err := clientcmd.LoadFromFile(filepath.Join(shared.Dir(), "kubeconfig"))
	must(t, err)
	return kubeconfig.CurrentContext
}

var eventually = check.Soon
