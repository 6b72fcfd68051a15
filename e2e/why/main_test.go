package why

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"time"

	"k8s.io/client-go/kubernetes"
	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// atOnce is how many situations are made at the same time: most of the time they wait.
const atOnce = "8"

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

func TestMain(m *testing.M) {
	flag.Parse()
	if err := flag.Set("test.parallel", atOnce); err != nil {
		panic(err)
	}
	os.Exit(run(m))
}

func run(m *testing.M) (code int) {
	ctx := context.Background()
	home, err := os.MkdirTemp("", "koup-e2e-") // a short path, because sockets go there
	if err != nil {
		return failed(err)
	}
	defer func() { _ = os.RemoveAll(home) }() // a folder for temporary files
	programs, err := box.FindPrograms(filepath.Join("..", ".."))
	if err != nil {
		return failed(err)
	}
	b := &box.Box{Bin: programs, Home: home, Name: envconf.RandomName("why", 10)}
	program = b
	err = bringUp(ctx, b)
	defer func() {
		if err := b.Down(ctx); err != nil {
			code = failed(err)
		}
	}()
	if err != nil {
		return failed(err)
	}
	defer up.Close()
	return m.Run()
}

func failed(err error) int {
	fmt.Fprintf(os.Stderr, "e2e/why: %v\n", err)
	return 1
}

// bringUp starts the sandbox. Situations bring bases of their own; the sandbox has one at least.
func bringUp(ctx context.Context, b *box.Box) error {
	one, start := 1, time.Now()
	err := b.Up(ctx, v1alpha1.Spec{Bases: v1alpha1.Bases{Count: &one, Name: "unused"}, Controller: v1alpha1.Controller{Env: settings}})
	if err != nil {
		return err
	}
	fmt.Printf("sandbox %s is up after %.1fs\n", b.Name, time.Since(start).Seconds())
	config, err := b.REST()
	if err != nil {
		return err
	}
	var errs [2]error
	client, errs[0] = kubernetes.NewForConfig(config)
	up, errs[1] = b.Open(ctx)
	return errors.Join(errs[:]...)
}
