// Package why makes situations in which module Pods are not Ready, for real, on one embedded sandbox
// with the real controller and simulated bases, and looks whether sandbox/why tells each of them.
// Run it with make e2e.
//
// These reasons are not made here, and are in the table of sandbox/why alone:
//
//	EnvironmentTolerationMissing  the controller of the sandbox adds the toleration
//	InstalledBySomebody           somebody who asks the base himself, in the moment of an install
//	ModuleStopped                 simulated bases do not list modules that have stopped
//	BaseUnreachable               over HTTP only, and the base is silent a moment later
//	InjectedContainer             an admission policy would change the Pods of other situations
//	WebContextTaken               the modules of the sandbox are not web modules
//	VolumeUnavailable             a volume would be bound to claims of other situations
//	SchedulerRefuses              for messages of the scheduler that are not known
//	PodsNotMade                   no reason of Kubernetes is known for it: it is the last resort
//	Unknown                       the same
package why
