package kubectl

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// repository is where it is from here.
var repository = filepath.Join("..", "..")

// program is the sandbox; TestMain brings it up.
var program *box.Box

func TestMain(m *testing.M) { os.Exit(run(m)) }

func run(m *testing.M) (code int) {
	ctx := context.Background()
	if _, err := exec.LookPath("kubectl"); err != nil {
		return failed(fmt.Errorf("install kubectl first: %w", err))
	}
	programs, err := box.FindPrograms(repository)
	if err != nil {
		return failed(err)
	}
	home, err := os.MkdirTemp("", "koup-e2e-") // a short path, because sockets go there
	if err != nil {
		return failed(err)
	}
	defer func() { _ = os.RemoveAll(home) }() // a folder for temporary files
	program = &box.Box{Bin: programs, Home: home, Name: envconf.RandomName("kubectl", 12)}
	defer func() {
		if err := program.Down(ctx); err != nil {
			code = failed(err)
		}
	}()
	if err := program.Up(ctx, v1alpha1.Spec{}); err != nil {
		return failed(err)
	}
	return m.Run()
}

func failed(err error) int {
	fmt.Fprintf(os.Stderr, "e2e/kubectl: %v\n", err)
	return 1
}
