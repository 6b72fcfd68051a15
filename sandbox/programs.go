package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/daemon"
)

// The names of the programs.
const (
	ControlPlaneProgram = "koup-controlplane"
	ControllerProgram   = "module-controller"
	BaseProgram         = "fakebase"
)

// Programs are the paths of the programs of a sandbox.
type Programs struct {
	// Daemon is koupsandbox itself, or a program that has its hidden commands.
	Daemon string
	// ControlPlane is koup-controlplane; needed by the provider embedded. Empty = not found.
	ControlPlane string
	// Controller is module-controller. Empty = not found.
	Controller string
	// Base is fakebase; required for bases in Pods. Empty = not found.
	Base string
}

// FindPrograms looks for the programs in bin (empty = nowhere), then beside self, the
// path of koupsandbox, and beside the file that self links to, then in $PATH. What it
// does not find stays empty.
func FindPrograms(self, bin string) Programs {
	if abs, err := filepath.Abs(bin); bin != "" && err == nil {
		bin = abs // the programs start elsewhere
	}
	linked, err := filepath.EvalSymlinks(self)
	if err != nil {
		linked = self // it has been removed since it started
	}
	find := func(name string) string {
		for _, dir := range []string{bin, filepath.Dir(self), filepath.Dir(linked)} {
			if path := filepath.Join(dir, name); dir != "" && executable(path) {
				return path
			}
		}
		if path, err := exec.LookPath(name); err == nil {
			if path, err = filepath.Abs(path); err == nil {
				return path
			}
		}
		return ""
	}
	return Programs{Daemon: self, ControlPlane: find(ControlPlaneProgram), Controller: find(ControllerProgram), Base: find(BaseProgram)}
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

func (p Programs) daemon() daemon.Programs {
	return daemon.Programs{Self: p.Daemon, ControlPlane: p.ControlPlane, Controller: p.Controller, Base: p.Base}
}

func needsBase(config *v1alpha1.Sandbox) bool {
	b := config.Spec.Bases
	return b.Runtime == v1alpha1.RuntimeCluster && b.Image == ""
}

func (p Programs) check(config *v1alpha1.Sandbox) error {
	provider := daemon.EffectiveProvider(config)
	for _, needed := range []struct {
		name, path string
		by         bool
	}{
		{"koupsandbox", p.Daemon, true},
		{ControlPlaneProgram, p.ControlPlane, provider == v1alpha1.ProviderEmbedded},
		{ControllerProgram, p.Controller, true},
		{BaseProgram, p.Base, needsBase(config)},
	} {
		switch {
		case !needed.by || executable(needed.path):
		case needed.path == "":
			return fmt.Errorf("the program %s is missing: put it beside koupsandbox, or name its folder in $KOUPSANDBOX_BIN", needed.name)
		default:
			return fmt.Errorf("%s cannot be run as the program %s: build it again, or name another folder in $KOUPSANDBOX_BIN", needed.path, needed.name)
		}
	}
	return nil
}
