package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"

	"golang.org/x/sync/errgroup"

	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
	"github.com/koupleless/koupsandbox/sandbox/internal/version"
)

// Versions contains the versions of the binaries of a sandbox. An unknown version is empty.
type Versions struct {
	// Koupsandbox is the version of this binary. Commit is the commit from which this binary was built.
	Koupsandbox string `json:"koupsandbox"`
	Commit      string `json:"commit,omitempty"`
	// Kubernetes and Etcd are the versions of Kubernetes and etcd in koup-controlplane.
	Kubernetes string `json:"kubernetes,omitempty"`
	Etcd       string `json:"etcd,omitempty"`
	Controller string `json:"moduleController,omitempty"`
	Base       string `json:"fakebase,omitempty"`
}

// Regular expressions for the version output of the binaries.
var (
	controlPlaneVersion = regexp.MustCompile(`^kubernetes (\S+)\netcd (\S+)\n$`)
	ownVersion          = regexp.MustCompile(`^\S+ version (\S+)\n$`)
)

// VersionsOf runs the binaries concurrently to read their versions. The version of a missing or failing binary is
// empty.
func VersionsOf(ctx context.Context, p Binaries) Versions {
	v := Versions{Koupsandbox: cmp.Or(version.String(), version.ModuleVersion()), Commit: version.Commit()}
	ask := func(path, argument string, pattern *regexp.Regexp, into ...*string) func() error {
		return func() error {
			if path == "" {
				return nil
			}
			cmd := exec.CommandContext(ctx, path, argument)
			cmd.Env = supervise.ComponentEnviron(os.Environ())
			out, _ := cmd.Output() // on an error, the version is empty
			if m := pattern.FindStringSubmatch(string(out)); m != nil {
				for i, to := range into {
					*to = m[i+1]
				}
			}
			return nil
		}
	}
	var all errgroup.Group
	all.Go(ask(p.ControlPlane, "version", controlPlaneVersion, &v.Kubernetes, &v.Etcd))
	all.Go(ask(p.Controller, "--version", ownVersion, &v.Controller))
	all.Go(ask(p.Base, "--version", ownVersion, &v.Base))
	_ = all.Wait() // the functions return no error
	return v
}

// checkVersions returns an error if a binary is not compatible with this version of koupsandbox.
func checkVersions(ctx context.Context, p Binaries) error {
	if version.String() == "" {
		return nil // this build has no version
	}
	v := VersionsOf(ctx, p)
	err := errors.Join(
		version.CheckCompatible(p.ControlPlane, v.Kubernetes, version.Kubernetes()),
		version.CheckCompatible(p.Controller, v.Controller, v.Koupsandbox),
		version.CheckCompatible(p.Base, v.Base, v.Koupsandbox),
	)
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s; install all binaries of one version, or build them with: make build",
		strings.ReplaceAll(err.Error(), "\n", "; "))
}

// checkVersion returns an error if the daemon of a running sandbox has an incompatible version. s is the status of
// the sandbox.
func checkVersion(name string, s *Status) error {
	if version.CheckCompatible("", s.Koupsandbox, version.String()) == nil {
		return nil
	}
	return fmt.Errorf("sandbox %q was created by koupsandbox %s, but this koupsandbox is %s; remove the sandbox "+
		"with: koupsandbox down --name %s, and create it again",
		name, s.Koupsandbox, version.String(), name)
}
