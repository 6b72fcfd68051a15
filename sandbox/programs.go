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
	ControlPlaneBinary = "koup-controlplane"
	ControllerBinary   = "module-controller"
	BaseBinary         = "fakebase"
)

// Programs are the paths of the programs of a sandbox.
type Binaries = daemon.Binaries

// FindBinaries looks for the programs in bin (empty = nowhere), then beside self, the
// path of koupsandbox, and beside the file that self links to, then in $PATH. What it
// does not find stays empty.
func FindBinaries(self, bin string) Binaries {
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
			path, err = filepath.Abs(path)
			if err == nil {
				return path
			}
		}
		return ""
	}
	return Binaries{Daemon: self, ControlPlane: find(ControlPlaneBinary), Controller: find(ControllerBinary),
		Base: find(BaseBinary)}
}

func executable(path string) bool {
	info, err := os.Stat(path)
	return err == nil && !info.IsDir() && info.Mode()&0o111 != 0
}

func checkPrograms(p Binaries, config *v1alpha1.Sandbox) error {
	provider, bases := daemon.EffectiveProvider(config), config.Spec.Bases
	for _, needed := range []struct {
		name, path string
		by         bool
	}{
		{"koupsandbox", p.Daemon, true},
		{ControlPlaneBinary, p.ControlPlane, provider == v1alpha1.ProviderEmbedded},
		{ControllerBinary, p.Controller, true},
		{BaseBinary, p.Base, bases.Runtime == v1alpha1.RuntimeCluster && bases.Image == ""},
	} {
		switch {
		case !needed.by || executable(needed.path):
		case needed.path == "":
			return fmt.Errorf(
				"the program %s is missing: put it beside koupsandbox, or name its folder in $KOUPSANDBOX_BIN",
				needed.name)
		default:
			return fmt.Errorf(
				"%s cannot be run as the program %s: build it again, or name another folder in $KOUPSANDBOX_BIN",
				needed.path, needed.name)
		}
	}
	return nil
}
