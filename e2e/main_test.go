package e2e

import (
	"context"
	"errors"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// The sandbox that all tests of the package share, its Go API, and a client of its Kubernetes API.
var (
	shared *box.Box
	up     *sandbox.Sandbox
	client kubernetes.Interface

	must       = check.Must
	eventually = check.Soon
)

func TestMain(m *testing.M) { os.Exit(box.Main(m, "e2e", 0, bringUp)) }

// bringUp starts the shared sandbox. Its controller has short timeouts. INSTALL_ATTEMPTS and VNODE_WORKER_NUM are set
// for cases of TestWhy that last until all install attempts or workers are used.
func bringUp(ctx context.Context, b *box.Box) error {
	shared, b.Name = b, b.Name+"-1"
	err := b.Up(ctx, v1alpha1.Spec{Controller: v1alpha1.Controller{Env: map[string]string{
		"BASE_UNREACHABLE_AFTER": "5s",
		"HEALTH_INTERVAL":        "1s",
		"LIST_INTERVAL":          "2s",
		"INSTALL_TIMEOUT":        "6s",
		"UNINSTALL_TIMEOUT":      "2s",
		"INSTALL_ATTEMPTS":       "4",
		"MODULE_DRAIN":           "4s",
		"VNODE_WORKER_NUM":       "2",
	}}})
	if err != nil {
		return err
	}
	var errs [2]error
	up, errs[0] = b.Open(ctx)
	client, errs[1] = b.Client()
	return errors.Join(errs[:]...)
}
