package podstatus

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// Module is what is known of a module of a Pod on its base.
type Module struct {
	// Module is what the Pod requests.
	arklet.Module
	// Invalid is why the base cannot be asked for the module. Failure is the last failure of a command for it. Both
	// have error codes.
	Invalid, Failure error
	// Biz is the requested version in the list of the base, if it is Listed there.
	Biz    arklet.Biz
	Listed bool
	// InstalledURL is the jar of this version on the base; empty if it is not known, or does not matter.
	InstalledURL string
	// NotReadyReason is why probes keep the module from being Ready; empty if they do not.
	NotReadyReason string
	// Superseded is set if the version or the jar of a newer Pod serves on this base.
	Superseded bool
	// Replacing is set if the version is about to be replaced by another jar. Uninstalling is set while it is uninstalled.
	Replacing, Uninstalling bool
	// SwitchedAway is set if the base has switched to a version that no Pod requests any more, and the version of this Pod or
	// of a newer one will be installed.
	SwitchedAway bool
	// PreviousVersion is the version that the Pod requested before its spec was changed, while that version is active; else
	// empty.
	PreviousVersion string
	// Origin is how the module was installed: api.ReasonInstalled or api.ReasonReplacedInPlace. It is empty if this
	// controller did not install it.
	Origin string
}

// current reports whether the base has the jar that the Pod requests, as far as is known.
func (m Module) current() bool { return m.Listed && (m.InstalledURL == "" || m.InstalledURL == m.URL) }

// serving is what processes the requests to a container.
type serving int

const (
	servesNothing  serving = iota
	servesPrevious         // the version or the jar that the container had before
	servesCurrent          // the requested version
)

// state is a module and what follows from it.
type state struct {
	Module
	serving   serving
	ready     bool
	installed bool // the requested module is installed, in whatever state
	// wasReady is set if the container was Ready with the installed jar. installedForPod is set if the installed jar was
	// installed for this Pod, whatever the Pod requests now.
	wasReady, installedForPod bool
}

// evaluate decides whether a container is Ready. was is its status before, nil if there is none; alive reports whether
// the base is reachable.
//
// A container is Ready if the base lists the requested version as active, no newer Pod serves in its place, and its
// probes succeed. A Pod whose spec was changed stays Ready with the version or the jar that it had until that is
// replaced, or until the requested one fails. So does a Pod whose base has switched to another version that no Pod
// requests, while a requested one is installed.
func evaluate(m Module, was *corev1.ContainerStatus, alive bool) state {
	s := state{Module: m, installed: m.current() && !m.Uninstalling && !m.Biz.Installing()}
	valid := m.Invalid == nil && !m.Superseded
	if was != nil {
		version, _ := Installed(*was)
		s.installedForPod = m.Listed && m.InstalledURL != "" && was.ImageID == m.InstalledURL && version == m.Version
		s.wasReady = was.Ready && was.ImageID == m.InstalledURL
		overtaken := (was.Ready || isDeactivated(*was)) && m.SwitchedAway && version == m.Version
		changed := was.Ready && m.PreviousVersion != "" && version == m.PreviousVersion && m.Failure == nil &&
			(!m.Listed || m.Biz.State != arklet.StateActivated)
		if valid && (overtaken || changed) {
			s.serving = servesPrevious
		}
	}
	active := m.Listed && m.Biz.State == arklet.StateActivated && !m.Replacing && !m.Uninstalling
	if s.serving == servesNothing && valid && active && (m.current() || s.wasReady) {
		s.serving = servesCurrent
	}
	s.ready = alive && (s.serving == servesPrevious || s.serving == servesCurrent && m.NotReadyReason == "")
	return s
}

// Installed reads from the status of a container which version of its module was on the base, and from which jar; both are
// empty if the status does not name them.
func Installed(c corev1.ContainerStatus) (version, url string) {
	version = workload.InstalledVersion(c)
	if version != "" && strings.Contains(c.ImageID, "://") {
		url = c.ImageID
	}
	return version, url
}
