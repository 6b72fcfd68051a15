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

// Versions are those of the programs of a sandbox. Empty = the program is not there, or does not tell.
type Versions struct {
	// Koupsandbox is the version of this program, Commit what it was built from.
	Koupsandbox string `json:"koupsandbox"`
	Commit      string `json:"commit,omitempty"`
	// Kubernetes and Etcd are those in koup-controlplane.
	Kubernetes string `json:"kubernetes,omitempty"`
	Etcd       string `json:"etcd,omitempty"`
	Controller string `json:"moduleController,omitempty"`
	Base       string `json:"fakebase,omitempty"`
}

// toldBy are what the programs print when they are asked for their versions.
var (
	toldByControlPlane = regexp.MustCompile(`^kubernetes (\S+)\netcd (\S+)\n$`)
	toldByOurs         = regexp.MustCompile(`^\S+ version (\S+)\n$`)
)

// VersionsOf asks the programs for their versions, concurrently, and blocks until they have answered.
func VersionsOf(ctx context.Context, p Binaries) Versions {
	v := Versions{Koupsandbox: cmp.Or(version.String(), version.ModuleVersion()), Commit: version.Commit()}
	ask := func(path, argument string, pattern *regexp.Regexp, into ...*string) func() error {
		return func() error {
			if path == "" {
				return nil
			}
			cmd := exec.CommandContext(ctx, path, argument)
			cmd.Env = supervise.ComponentEnviron(os.Environ())
			out, _ := cmd.Output() // an error is ignored: the version stays empty
			if m := pattern.FindStringSubmatch(string(out)); m != nil {
				for i, to := range into {
					*to = m[i+1]
				}
			}
			return nil
		}
	}
	var all errgroup.Group
	all.Go(ask(p.ControlPlane, "version", toldByControlPlane, &v.Kubernetes, &v.Etcd))
	all.Go(ask(p.Controller, "--version", toldByOurs, &v.Controller))
	all.Go(ask(p.Base, "--version", toldByOurs, &v.Base))
	_ = all.Wait() // none of them returns an error
	return v
}

// checkVersions fails if programs of other versions were found beside this one.
func checkVersions(ctx context.Context, p Binaries) error {
	if version.String() == "" {
		return nil // nothing to compare with
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
	return fmt.Errorf("%s: install one version whole, or build all programs with: make build",
		strings.ReplaceAll(err.Error(), "\n", "; "))
}

// fits fails if the daemon of a sandbox that is up is of another version.
func fits(name string, s *Status) error {
	if version.CheckCompatible("", s.Koupsandbox, version.String()) == nil {
		return nil
	}
	return fmt.Errorf("sandbox %q was brought up by koupsandbox %s, and this is %s: take it down with: koupsandbox "+
		"down --name %s, and bring it up again",
		name, s.Koupsandbox, version.String(), name)
}
