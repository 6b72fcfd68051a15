package why

// Reason is the stable name of a situation.
type Reason string

// A Pod that is Ready.
const (
	PodReady          Reason = "PodReady"
	AlreadyInstalled  Reason = "AlreadyInstalled"  // the base had the jar: nothing was sent
	UnsupportedFields Reason = "UnsupportedFields" // Ready, but not all of its spec means something to a base
)

// What a Pod is, and how it goes.
const (
	NotAModule           Reason = "NotAModule"
	ModuleLabelMissing   Reason = "ModuleLabelMissing"
	OnOrdinaryNode       Reason = "OnOrdinaryNode"
	PodEnded             Reason = "PodEnded"
	TerminatingFinalizer Reason = "TerminatingFinalizer"
	UninstallFailing     Reason = "UninstallFailing"
	TerminatingUnserved  Reason = "TerminatingUnserved"
	Terminating          Reason = "Terminating"
)

// A Pod without a Node.
const (
	SchedulingGated              Reason = "SchedulingGated"
	NoBases                      Reason = "NoBases"
	WrongBaseName                Reason = "WrongBaseName"
	WrongBaseVersion             Reason = "WrongBaseVersion"
	NoBaseMatchesSelector        Reason = "NoBaseMatchesSelector"
	NoBaseMatchesAffinity        Reason = "NoBaseMatchesAffinity"
	WrongEnvironment             Reason = "WrongEnvironment"
	TolerationMissing            Reason = "TolerationMissing"
	EnvironmentTolerationMissing Reason = "EnvironmentTolerationMissing"
	TaintNotTolerated            Reason = "TaintNotTolerated"
	BaseCordoned                 Reason = "BaseCordoned"
	BaseLeaving                  Reason = "BaseLeaving"
	BasesNotReady                Reason = "BasesNotReady"
	NoFreeMetaspace              Reason = "NoFreeMetaspace"
	NoFreeResources              Reason = "NoFreeResources"
	NoSuchResource               Reason = "NoSuchResource"
	AntiAffinity                 Reason = "AntiAffinity"
	PodAffinity                  Reason = "PodAffinity"
	TopologySpread               Reason = "TopologySpread"
	HostPortTaken                Reason = "HostPortTaken"
	ClaimUnbound                 Reason = "ClaimUnbound"
	VolumeUnavailable            Reason = "VolumeUnavailable"
	UnknownScheduler             Reason = "UnknownScheduler"
	NotScheduledYet              Reason = "NotScheduledYet"
	SchedulerRefuses             Reason = "SchedulerRefuses" // only the message of the scheduler is known
)

// A Pod on a base that nobody serves or hears.
const (
	NodeGone                   Reason = "NodeGone"
	ControllerNotRunning       Reason = "ControllerNotRunning"
	NoControllerForEnvironment Reason = "NoControllerForEnvironment"
	NobodyServesBase           Reason = "NobodyServesBase"
	ControllerBlind            Reason = "ControllerBlind"
	BaseSilent                 Reason = "BaseSilent"
)

// What the base was told, and what it answered.
const (
	VersionMissing       Reason = "VersionMissing"
	VersionInvalid       Reason = "VersionInvalid"
	VersionRefUnresolved Reason = "VersionRefUnresolved"
	InjectedContainer    Reason = "InjectedContainer" // not in the template; admission added it
	ImageNotAJar         Reason = "ImageNotAJar"
	GaveWay              Reason = "GaveWay"
	KeptDeactivated      Reason = "KeptDeactivated"
	ReplacingSameVersion Reason = "ReplacingSameVersion"
	InstallRetrying      Reason = "InstallRetrying"
	WebContextTaken      Reason = "WebContextTaken"
	ModuleBroken         Reason = "ModuleBroken"
	MetaspaceFull        Reason = "MetaspaceFull"
	DiskFull             Reason = "DiskFull"
	JarNotFetched        Reason = "JarNotFetched"
	CommandTimedOut      Reason = "CommandTimedOut"
	BaseUnreachable      Reason = "BaseUnreachable"
	InstalledBySomebody  Reason = "InstalledBySomebody"
	InstallFailed        Reason = "InstallFailed"
	ModuleStopped        Reason = "ModuleStopped"
	CommandUnderWay      Reason = "CommandUnderWay"
	CommandNotSent       Reason = "CommandNotSent"
	NotTakenUp           Reason = "NotTakenUp"
)

// Probes and gates.
const (
	LivenessProbeFailing  Reason = "LivenessProbeFailing"
	ReadinessProbeFailing Reason = "ReadinessProbeFailing"
	ReadinessGateMissing  Reason = "ReadinessGateMissing"
)

// Workloads. PodNotReady and RolloutStuck have the reason of the Pod that decides in Because.
const (
	WorkloadReady         Reason = "WorkloadReady"
	WorkloadLeaving       Reason = "WorkloadLeaving"
	WorkloadNotSeen       Reason = "WorkloadNotSeen"
	DeploymentPaused      Reason = "DeploymentPaused"
	PeerWithoutBases      Reason = "PeerWithoutBases"
	PeerNotFollowed       Reason = "PeerNotFollowed"
	NoReplicas            Reason = "NoReplicas"
	QuotaExceeded         Reason = "QuotaExceeded"
	PodsRefused           Reason = "PodsRefused"
	DaemonSetNotTolerated Reason = "DaemonSetNotTolerated"
	DaemonSetWithoutBases Reason = "DaemonSetWithoutBases"
	// an ordered StatefulSet waits for a Pod of an earlier template
	OutdatedPodNotReady Reason = "OutdatedPodNotReady"
	RolloutStuck        Reason = "RolloutStuck"
	PodNotReady         Reason = "PodNotReady"
	PodsNotMade         Reason = "PodsNotMade"
)

// Nodes.
const (
	NodeReady         Reason = "NodeReady"
	OrdinaryNode      Reason = "OrdinaryNode"
	MetaspacePressure Reason = "MetaspacePressure"
)

// Unknown says that nothing that was looked at explains it.
const Unknown Reason = "Unknown"
