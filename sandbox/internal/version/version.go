// Package version tells of which version this program is. The linker of make build sets it.
package version

import (
	"fmt"
	"runtime/debug"
	"slices"
)

// What the linker sets; empty in other builds.
var koupsandbox, commit, kubernetes string

// Of is the version of koupsandbox, such as "v1.2.3".
func Of() string { return koupsandbox }

// OfModule is the version of the module that go install or go build found; empty if they found none.
func OfModule() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return info.Main.Version
}

// Commit is what was built; empty if nothing tells.
func Commit() string { return commit }

// Kubernetes is the version of the control plane that belongs to this version; empty if nothing tells.
func Kubernetes() string { return kubernetes }

// Agree says in a sentence why the thing called what, which is of the version theirs, does not go together
// with what is of the version ours. A version that nobody has set goes together with all.
func Agree(what, theirs, ours string) error {
	if unset := []string{"", "dev"}; slices.Contains(unset, theirs) || slices.Contains(unset, ours) || theirs == ours {
		return nil
	}
	return fmt.Errorf("%s is of version %s, and this koupsandbox needs %s", what, theirs, ours)
}
