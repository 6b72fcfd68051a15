package why

import (
	"context"
	"os"
	"testing"

	"k8s.io/client-go/kubernetes"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// atOnce is how many situations are made at the same time: most of the time they wait.
const atOnce = 8

// settings have the controller wait for less: a lost command counts after seconds, and a module
// drains long enough to be seen. With two workers the third module of a base waits.
var settings = map[string]string{
	"ENABLE_MODULE_DEPLOYMENT_CONTROLLER": "true", // or nobody looks after peer Deployments
	"BASE_UNREACHABLE_AFTER":              "5s",
	"HEALTH_INTERVAL":                     "1s",
	"LIST_INTERVAL":                       "2s",
	"INSTALL_TIMEOUT":                     "6s",
	"UNINSTALL_TIMEOUT":                   "2s",
	"INSTALL_ATTEMPTS":                    "4",
	"MODULE_DRAIN":                        "4s",
	"VNODE_WORKER_NUM":                    "2",
}

// What all tests use; TestMain sets it.
var (
	program *box.Box
	up      *sandbox.Sandbox
	client  kubernetes.Interface
)

func TestMain(m *testing.M) { os.Exit(box.Main(m, "why", atOnce, bringUp)) }

// bringUp starts the sandbox. Situations bring bases of their own; the sandbox has one at least.
func bringUp(ctx context.Context, b *box.Box) error {
	program = b
	one := 1
	err := b.Up(ctx, v1alpha1.Spec{Bases: v1alpha1.Bases{Count: &one, Name: "unused"}, Controller: v1alpha1.Controller{Env: settings}})
	if err == nil {
		client, err = b.Client()
	}
	if err == nil {
		up, err = b.Open(ctx)
	}
	return err
}
