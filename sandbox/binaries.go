package sandbox

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/daemon"
)

// The file names of the binaries.
const (
	ControlPlaneBinary = "koup-controlplane"
	ControllerBinary   = "module-controller"
	BaseBinary         = "fakebase"
)

// Binaries holds the paths of the binaries that a sandbox runs.
type Binaries = daemon.Binaries

// FindBinaries looks for the binaries in the directory bin (if not empty), then in the directory of self (the path of
// koupsandbox), then in the directory of the file to which self is a symbolic link, and finally in $PATH. The path of
// a binary that was not found is empty.
func FindBinaries(self, bin string) Binaries {
	if abs, err := filepath.Abs(bin); bin != "" && err == nil {
		bin = abs // the binaries run in other working directories
	}
	linked, err := filepath.EvalSymlinks(self)
	if err != nil {
		linked = self // the file was removed after its start
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

func checkBinaries(p Binaries, config *v1alpha1.Sandbox) error {
	provider, pods := daemon.EffectiveProvider(config), config.Spec.Fleet
	for _, needed := range []struct {
		name, path string
		by         bool
	}{
		{"koupsandbox", p.Daemon, true},
		{ControlPlaneBinary, p.ControlPlane, provider == v1alpha1.ProviderEmbedded},
		{ControllerBinary, p.Controller, true},
		{BaseBinary, p.Base, pods.Runtime == v1alpha1.RuntimeCluster && pods.Image == ""},
	} {
		switch {
		case !needed.by || executable(needed.path):
		case needed.path == "":
			return fmt.Errorf(
				"the binary %s is missing; put it next to koupsandbox, or set $KOUPSANDBOX_BIN to its directory",
				needed.name)
		default:
			return fmt.Errorf("%s is not executable; build %s again, or set $KOUPSANDBOX_BIN to another directory",
				needed.path, needed.name)
		}
	}
	return nil
}
