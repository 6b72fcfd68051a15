// Package version has the version of this binary. The linker sets it in make build.
package version

import (
	"fmt"
	"regexp"
	"runtime/debug"
)

// koupsandbox and the following variables are set by the linker; they are empty in other builds.
var koupsandbox, commit, kubernetes string

// String returns the version of koupsandbox, such as "v1.2.3".
func String() string { return koupsandbox }

// ModuleVersion returns the module version that go install or go build has recorded in the binary; empty if there is
// none.
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

// released matches release versions, but not the output of git describe for commits between two releases.
var released = regexp.MustCompile(`^v\d+\.\d+\.\d+(-(alpha|beta|rc)[.0-9]*)?$`)

// Released reports whether version is a release version.
func Released(version string) bool { return released.MatchString(version) }

// CheckCompatible returns an error if a component with the version theirs is incompatible with the version ours. Two
// versions are incompatible if both are releases and they differ. Versions of builds between releases are compatible
// with all versions, because developers build binaries individually.
func CheckCompatible(name, theirs, ours string) error {
	if !Released(theirs) || !Released(ours) || theirs == ours {
		return nil
	}
	return fmt.Errorf("%s has version %s, but this koupsandbox requires %s", name, theirs, ours)
}
