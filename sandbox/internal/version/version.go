// Package version tells of which version this program is. The linker of make build sets it.
package version

import (
	"fmt"
	"regexp"
	"runtime/debug"
)

// What the linker sets; empty in other builds.
var koupsandbox, commit, kubernetes string

// String is the version of koupsandbox, such as "v1.2.3".
func String() string { return koupsandbox }

// ModuleVersion is the version of the module that go install or go build found; empty if they found none.
func ModuleVersion() string {
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

// released is the version of a release, and nothing that git describes between two.
var released = regexp.MustCompile(`^v\d+\.\d+\.\d+(-(alpha|beta|rc)[.0-9]*)?$`)

// Released reports whether a version is that of a release.
func Released(version string) bool { return released.MatchString(version) }

// CheckCompatible says in a sentence why the thing called what, which is of the version theirs, does not go together
// with what is of the version ours. Versions of builds between releases go together with all: who builds
// programs one by one knows what goes together.
func CheckCompatible(what, theirs, ours string) error {
	if !Released(theirs) || !Released(ours) || theirs == ours {
		return nil
	}
	return fmt.Errorf("%s is of version %s, and this koupsandbox needs %s", what, theirs, ours)
}
