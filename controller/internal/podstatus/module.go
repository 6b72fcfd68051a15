package podstatus

import (
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// Module is the state of a module of a Pod on the base of the Pod.
type Module struct {
	// Module is the module that the Pod requests.
	arklet.Module
	// Invalid is the reason why the module cannot be installed; nil if it can be installed. Failure is the last
	// failure of a command for the module; nil if no command failed. Both errors have error codes.
	Invalid, Failure error
	// Biz is the requested version in the module list of the base. It is valid only if Listed is true.
	Biz    arklet.Biz
	Listed bool
	// InstalledURL is the URL of the jar from which the version was installed; empty if the URL is unknown or
	// irrelevant.
	InstalledURL string
	// NotReadyReason is the reason why the probes of the module fail; empty if they succeed.
	NotReadyReason string
	// Superseded is true if the version or the jar that a newer Pod requests is active on this base.
	Superseded bool
	// Replacing is true if the jar of the version is about to be replaced. Uninstalling is true while the version is
	// being uninstalled.
	Replacing, Uninstalling bool
	// ReplacedBy is the identity of the module for whose install the base uninstalls all versions of this module (the
	// install strategy uninstallThenInstall); empty if there is none.
	ReplacedBy string
	// SwitchedAway is true if the base has switched to a version that no Pod requests any more, and the version of
	// this Pod or of a newer Pod is expected to become active.
	SwitchedAway bool
	// PreviousVersion is the version that the Pod requested before its spec was changed. It is empty unless this
	// version is active.
	PreviousVersion string
	// Origin is api.ReasonInstalled or api.ReasonReplacedInPlace. It is empty if this controller did not install the
	// module.
	Origin string
}

// hasRequestedJar reports whether the base lists the requested version, unless it is known that the version was
// installed from another jar.
func (m Module) hasRequestedJar() bool {
	return m.Listed && (m.InstalledURL == "" || m.InstalledURL == m.URL)
}

// servedVersion is the version that processes the requests to a container.
type servedVersion int

const (
	servesNothing  servedVersion = iota
	servesPrevious               // the version or the jar from before the change of the Pod spec
	servesCurrent                // the requested version
)

// moduleState is a Module together with the values that evaluate computes from it.
type moduleState struct {
	Module
	serving   servedVersion
	ready     bool
	installed bool // whether the requested module is installed, active or not
	// wasReady is true if the container was Ready with the installed jar. installedForPod is true if the installed
	// jar was installed for this Pod, even if the Pod now requests another jar.
	wasReady, installedForPod bool
}

// evaluate decides whether a container is Ready. oldStatus is the previous status of the container; nil if there is
// none. inService reports whether the base can serve requests; see base.Snapshot.
//
// A container is Ready if three conditions are met: the base lists the requested version as active, no newer Pod has
// replaced the Pod, and the probes of the container succeed. A Pod whose spec was changed stays Ready with its
// previous version or jar until the new one replaces it or fails. A Pod whose base has switched to a version that no
// Pod requests stays Ready while a requested version is being installed.
func evaluate(m Module, oldStatus *corev1.ContainerStatus, inService bool) moduleState {
	s := moduleState{Module: m, installed: m.hasRequestedJar() && !m.Uninstalling && !m.Biz.Installing()}
	valid := m.Invalid == nil && !m.Superseded && m.ReplacedBy == ""
	if oldStatus != nil {
		version, _ := Installed(*oldStatus)
		s.installedForPod = m.Listed && m.InstalledURL != "" && oldStatus.ImageID == m.InstalledURL &&
			version == m.Version
		s.wasReady = oldStatus.Ready && oldStatus.ImageID == m.InstalledURL
		overtaken := (oldStatus.Ready || isDeactivated(*oldStatus)) && m.SwitchedAway && version == m.Version
		changed := oldStatus.Ready && m.PreviousVersion != "" && version == m.PreviousVersion && m.Failure == nil &&
			(!m.Listed || m.Biz.State != arklet.StateActivated)
		if valid && (overtaken || changed) {
			s.serving = servesPrevious
		}
	}
	active := m.Listed && m.Biz.State == arklet.StateActivated && !m.Replacing && !m.Uninstalling
	if s.serving == servesNothing && valid && active && (m.hasRequestedJar() || s.wasReady) {
		s.serving = servesCurrent
	}
	s.ready = inService && (s.serving == servesPrevious || s.serving == servesCurrent && m.NotReadyReason == "")
	return s
}

// Installed returns the installed version of a module and the URL of its jar, as recorded in the container status.
// Each value is empty if the status does not contain it.
func Installed(c corev1.ContainerStatus) (version, url string) {
	version = workload.InstalledVersion(c)
	if version != "" && strings.Contains(c.ImageID, "://") {
		url = c.ImageID
	}
	return version, url
}
