package api

// Condition types of a module Pod.
const (
	// ConditionInstalled and ConditionReady are set only on Pods that list them as readiness gates.
	ConditionInstalled = "module.koupleless.io/installed"
	ConditionReady     = "module.koupleless.io/ready"
	// ConditionCurrent is True if the base runs the jars that the Pod requests. Its reason states how the jars were
	// installed. Every module Pod that was Ready at least once has this condition.
	ConditionCurrent = "module.koupleless.io/current"
)

// Reasons of the Node conditions other than Observed. If a base sends no heartbeats, the reason is the type of an
// error code (package errcode).
const (
	// ReasonBaseActivated means that the base sends heartbeats.
	ReasonBaseActivated = "BaseActivated"
	// ReasonBaseDeactivated means that the base reports in its health that it is deactivated.
	ReasonBaseDeactivated = "BaseDeactivated"
	// ReasonMetaspacePressure means that the base has committed most of its metaspace.
	ReasonMetaspacePressure = "MetaspaceAboveThreshold"
)

// ConditionObserved is the type of a Node condition. It is False while missed heartbeats of the base are ignored.
const ConditionObserved = "Observed"

// Reasons for waiting containers and for the conditions of their Pod. If a command failed, the reason is the type of
// its error code (package errcode).
const (
	// ReasonContainerCreating means that the module is not installed yet.
	ReasonContainerCreating = "ContainerCreating"
	// ReasonResolved means that the base is installing the module.
	ReasonResolved = "BizResolved"
	// ReasonDeactivated means that a newer version on the same base deactivated the module. The Koupleless
	// documentation defines this reason (document 5.2 of Module Controller V2, section "batch update").
	ReasonDeactivated = "BizDeactivate"
	// ReasonNotActivated means that the base has installed the new version, but keeps it deactivated while the old
	// version is active.
	ReasonNotActivated = "BizNotActivated"
	// ReasonReplacing means that the module is being replaced, because its image changed and its version did not.
	ReasonReplacing = "ReplacingSameVersion"
	// ReasonUninstalledFirst means that the base uninstalls the module, or has uninstalled it, to install the version
	// of a newer Pod. The Pod has the install strategy uninstallThenInstall.
	ReasonUninstalledFirst = "UninstallThenInstall"
	// ReasonBroken means that the base reports the module as BROKEN.
	ReasonBroken = "BizBroken"
	// ReasonContainersNotReady means that the module is active, but its probe does not succeed.
	ReasonContainersNotReady = "ContainersNotReady"
)

// Other reasons for Pod conditions.
const (
	// ReasonReadinessGates means that the containers of the Pod are ready, but its readiness gates are not.
	ReasonReadinessGates = "ReadinessGatesNotReady"
	// ReasonPodCompleted means that the Pod was deleted and that its modules have been uninstalled.
	ReasonPodCompleted = "PodCompleted"
)

// ReasonGone is the termination reason in lastState.terminated of a container whose module is no longer on the base,
// or is being installed again.
const ReasonGone = "BizGone"

// Reasons of ConditionCurrent, in addition to ReasonReplacing.
const (
	// ReasonInstalled means that the module was installed for this Pod.
	ReasonInstalled = "Installed"
	// ReasonReplacedInPlace means that the module was uninstalled and installed again, because its image changed and
	// its version did not.
	ReasonReplacedInPlace = "ReplacedInPlace"
	// ReasonUnchanged means that the module was already on the base, so that it was not installed for this Pod.
	ReasonUnchanged = "Unchanged"
)

// Reasons of ConditionObserved when its status is False.
const (
	// ReasonTunnelDown means that the tunnel to the base is disconnected.
	ReasonTunnelDown = "TunnelDown"
	// ReasonControllerSuspended means that the controller process was suspended.
	ReasonControllerSuspended = "ControllerSuspended"
	// ReasonMassOutage means that many bases became unreachable at the same time; see the function MassOutage. The
	// value is an error code from the Koupleless documentation and keeps the documented spelling.
	ReasonMassOutage = "OverFiftyPercentBaseInstancesUnavaliable"
)

// Reasons of Events.
const (
	// ReasonReplaced means that a replacement of the same version has succeeded; see ReasonReplacing.
	ReasonReplaced = "SameVersionReplaced"
	// ReasonNotAModule means that a Pod on a base lacks the module label.
	ReasonNotAModule = "NotAModule"
	// ReasonUnsupported means that a Pod has fields that have no effect on a module.
	ReasonUnsupported = "Unsupported"
	// ReasonEnvironmentNotTolerated means that the Pod template of a DaemonSet tolerates the taint of bases, but no
	// environment taint.
	ReasonEnvironmentNotTolerated = "EnvironmentNotTolerated"
	// ReasonNoPeerStrategy means that a Deployment has the component label of a peer Deployment, but no strategy label.
	ReasonNoPeerStrategy = "NoPeerStrategy"
	// ReasonUnhealthy means that a probe failed or cannot be sent. The kubelet uses the same reason.
	ReasonUnhealthy = "Unhealthy"
	// ReasonLivenessFailed means that a module is installed again because its liveness probe failed. The kubelet uses
	// the same reason.
	ReasonLivenessFailed = "Killing"
	// ReasonForeignEnvironment means that a Node belongs to another environment.
	ReasonForeignEnvironment = "ForeignEnvironment"
	// ReasonWaitingForOtherController means that another controller serves the Node.
	ReasonWaitingForOtherController = "WaitingForOtherController"
	// ReasonSameNodeName means that a base with another identity already uses the name of the Node.
	ReasonSameNodeName = "SameNodeName"
	// ReasonNodeOfNoBase means that a Node looks like the Node of a base, but no controller created it.
	ReasonNodeOfNoBase = "NodeOfNoBase"
)
