package api

// Condition types of a module Pod.
const (
	// ConditionInstalled and ConditionReady are set on Pods that have them as readiness gates.
	ConditionInstalled = "module.koupleless.io/installed"
	ConditionReady     = "module.koupleless.io/ready"
	// ConditionCurrent is True if the base has the jars that the Pod requests. Its reason states how they were
	// installed. Every module Pod that was Ready once has it.
	ConditionCurrent = "module.koupleless.io/current"
)

// Reasons of the other conditions of a Node. A base without heartbeats has the type of its error code.
const (
	// ReasonBaseActivated is a base that sends heartbeats.
	ReasonBaseActivated = "BaseActivated"
	// ReasonMetaspacePressure is a base that has committed most of its metaspace.
	ReasonMetaspacePressure = "MetaspaceAboveThreshold"
)

// ConditionObserved is a condition type of a Node. It is False while missed heartbeats of the base are ignored.
const ConditionObserved = "Observed"

// Reasons of waiting containers, and of the conditions of their Pod. A failed command has the type of its
// error code (package errcode) as the reason.
const (
	// ReasonContainerCreating is a module that is not installed yet.
	ReasonContainerCreating = "ContainerCreating"
	// ReasonResolved is a module that the base is installing.
	ReasonResolved = "BizResolved"
	// ReasonDeactivated is a module that was deactivated by a newer version on the same base. The Koupleless
	// documentation defines it (Module Controller V2 document 5.2, batch update).
	ReasonDeactivated = "BizDeactivate"
	// ReasonNotActivated is a new version that the base keeps deactivated next to the old one.
	ReasonNotActivated = "BizNotActivated"
	// ReasonReplacing is a module that is being replaced because its image changed and its version did not.
	ReasonReplacing = "ReplacingSameVersion"
	// ReasonBroken is a module that the base reports as BROKEN.
	ReasonBroken = "BizBroken"
	// ReasonContainersNotReady is a module that is active and whose probe does not succeed.
	ReasonContainersNotReady = "ContainersNotReady"
)

// Other reasons of the conditions of a Pod.
const (
	// ReasonReadinessGates is a Pod whose containers are ready and whose readiness gates are not.
	ReasonReadinessGates = "ReadinessGatesNotReady"
	// ReasonPodCompleted is a deleted Pod whose modules are uninstalled.
	ReasonPodCompleted = "PodCompleted"
)

// ReasonGone is the reason of lastState.terminated of a module that was installed again.
const ReasonGone = "BizGone"

// Reasons of the condition ConditionCurrent, next to ReasonReplacing.
const (
	// ReasonInstalled is a module that was installed for the Pod.
	ReasonInstalled = "Installed"
	// ReasonReplacedInPlace is a module that was uninstalled and installed again, because its image changed
	// and its version did not.
	ReasonReplacedInPlace = "ReplacedInPlace"
	// ReasonUnchanged is a module that the base had already.
	ReasonUnchanged = "Unchanged"
)

// Reasons of the condition ConditionObserved if it is False.
const (
	// ReasonTunnelDown is a controller without a connection to the base.
	ReasonTunnelDown = "TunnelDown"
	// ReasonControllerSuspended is a controller whose process did not run.
	ReasonControllerSuspended = "ControllerSuspended"
	// ReasonMassOutage is a base that is unreachable together with many others; see MassOutage. It is an error
	// code of the Koupleless documentation, with its spelling.
	ReasonMassOutage = "OverFiftyPercentBaseInstancesUnavaliable"
)

// Reasons of Events.
const (
	// ReasonReplaced reports the end of a replacement with ReasonReplacing.
	ReasonReplaced = "SameVersionReplaced"
	// ReasonNotAModule is a Pod on a base without the label of modules.
	ReasonNotAModule = "NotAModule"
	// ReasonUnsupported is a Pod with fields that have no effect on a module.
	ReasonUnsupported = "Unsupported"
	// ReasonEnvironmentNotTolerated is a DaemonSet whose template tolerates no environment.
	ReasonEnvironmentNotTolerated = "EnvironmentNotTolerated"
	// ReasonUnhealthy is a probe that failed, or that cannot be sent. A kubelet has the same name for it.
	ReasonUnhealthy = "Unhealthy"
	// ReasonLivenessFailed is a module that is installed again because its liveness probe failed. A kubelet has the
	// same name for it.
	ReasonLivenessFailed = "Killing"
	// ReasonForeignEnvironment is a Node of another environment.
	ReasonForeignEnvironment = "ForeignEnvironment"
	// ReasonWaitingForOtherController is a Node that another controller serves.
	ReasonWaitingForOtherController = "WaitingForOtherController"
	// ReasonSameNodeName is a Node whose name belongs to a base with another identity.
	ReasonSameNodeName = "SameNodeName"
	// ReasonNodeOfNoBase is a Node that looks like the Node of a base, and that no controller created.
	ReasonNodeOfNoBase = "NodeOfNoBase"
)
