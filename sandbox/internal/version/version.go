// Package version has the version of this binary. The linker sets it in make build.
package version

import (
	"fmt"
	"regexp"
	"runtime/debug"
)

// koupsandbox and the following variables are set by the linker. They are empty in builds without these linker flags.
var koupsandbox, commit, kubernetes string

// String returns the version of koupsandbox, such as "v1.2.3".
func String() string { return koupsandbox }

// ModuleVersion returns the version of the Go module that go install or go build has recorded in the binary. It
// returns an empty string if there is none.
func ModuleVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return ""
	}
	return info.Main.Version
}

// Commit returns the Git commit of the build; empty if unknown.
func Commit() string { return commit }

// Kubernetes returns the Kubernetes version of the control plane in this build; empty if unknown.
func Kubernetes() string { return kubernetes }

// released matches release versions. It does not match the output of git describe for a commit between two releases.
var released = regexp.MustCompile(`^v\d+\.\d+\.\d+(-(alpha|beta|rc)[.0-9]*)?$`)

// Released reports whether version is a release version.
func Released(version string) bool { return released.MatchString(version) }

// CheckCompatible returns an error if a component of the version theirs is not compatible with the version ours. Two
// versions are incompatible if they differ and both are releases. A build that is not a release is compatible with
// all versions, because developers build binaries individually.
func CheckCompatible(name, theirs, ours string) error {
	if !Released(theirs) || !Released(ours) || theirs == ours {
		return nil
	}
	return fmt.Errorf("%s has version %s, but this koupsandbox requires %s", name, theirs, ours)
}
