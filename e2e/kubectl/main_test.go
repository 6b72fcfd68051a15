package kubectl

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// repository is where it is from here.
var repository = filepath.Join("..", "..")

// program is the sandbox; TestMain brings it up.
var program *box.Box

func TestMain(m *testing.M) {
	os.Exit(box.Main(m, "kubectl", 0, func(ctx context.Context, b *box.Box) error {
		program = b
		if _, err := exec.LookPath("kubectl"); err != nil {
			return fmt.Errorf("install kubectl first: %w", err)
		}
		return b.Up(ctx, v1alpha1.Spec{})
	}))
}
