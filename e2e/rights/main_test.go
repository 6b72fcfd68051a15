package rights

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/clientcmd"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/audit"
	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// patience is how long anything may take on a busy machine.
const patience = 90 * time.Second

// repository is where it is from here.
var repository = filepath.Join("..", "..")

// What all tests use; run sets it.
var (
	shared *box.Box
	up     *sandbox.Sandbox // the Go API of shared
	config *rest.Config
	client kubernetes.Interface
	must   = check.Must
)

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctx := context.Background()
	home, err := os.MkdirTemp("", "koup-e2e-") // a short path, because sockets go there
	if err == nil {
		err = os.Chmod(home, 0o777) //nolint:gosec // the worst place for a sandbox: everybody may look
	}
	if err != nil {
		return failed(err)
	}
	defer func() { _ = os.RemoveAll(home) }() // a folder for temporary files
	err = bringUp(ctx, home)
	if shared != nil {
		defer func() {
			if err := shared.Down(ctx); err != nil {
				code = failed(err)
			}
		}()
	}
	if err != nil {
		return failed(err)
	}
	defer up.Close()
	return m.Run()
}

func failed(err error) int {
	fmt.Fprintf(os.Stderr, "e2e/rights: %v\n", err)
	return 1
}

// bringUp starts a sandbox as somebody whose umask takes nothing away.
func bringUp(ctx context.Context, home string) error {
	programs, err := box.FindPrograms(repository)
	if err != nil {
		return err
	}
	instead := filepath.Join(home, ".audited")
	if err := audit.Wrap(programs, instead, "kubelet-preferred-address-types"); err != nil {
		return err
	}
	umask := syscall.Umask(0)
	defer syscall.Umask(umask)
	shared = &box.Box{Bin: programs, Instead: instead, Home: home, Name: envconf.RandomName("rights", 12)}
	two := 2
	err = shared.Up(ctx, v1alpha1.Spec{
		Durable: true, Bases: v1alpha1.Bases{Count: &two},
		Controller: v1alpha1.Controller{APIView: true, Env: map[string]string{
			"ENABLE_MODULE_VIEW": "true", "ENABLE_MODULE_DEPLOYMENT_CONTROLLER": "true",
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

// contextOf is the context of the shared sandbox's kubeconfig.
func contextOf(t *testing.T) string {
	t.Helper()
	kubeconfig, err := clientcmd.LoadFromFile(filepath.Join(shared.Folder(), "kubeconfig"))
	must(t, err)
	return kubeconfig.CurrentContext
}

// eventually waits until look finds nothing wrong.
func eventually(t *testing.T, what string, look func(context.Context) error) {
	t.Helper()
	check.Eventually(t.Context(), t, patience, what, look)
}
