package why

import "github.com/koupleless/koupsandbox/sandbox/internal/language"

// Reason is the stable name of a situation that Explain recognizes.
type Reason string

// The reasons. ReasonTexts returns a sentence for each reason.
const (
	// Reasons for a Pod that is Ready.
	PodReady          Reason = "PodReady"
	AlreadyInstalled  Reason = "AlreadyInstalled"
	UnsupportedFields Reason = "UnsupportedFields"

	// Reasons for a Pod that is not a module Pod, has ended, or is being deleted.
	NotAModule           Reason = "NotAModule"
	ModuleLabelMissing   Reason = "ModuleLabelMissing"
	OnOrdinaryNode       Reason = "OnOrdinaryNode"
	PodEnded             Reason = "PodEnded"
	TerminatingFinalizer Reason = "TerminatingFinalizer"
	UninstallFailing     Reason = "UninstallFailing"
	TerminatingUnserved  Reason = "TerminatingUnserved"
	Terminating          Reason = "Terminating"

	// Reasons for a Pod without a Node.
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
	SchedulerRefuses             Reason = "SchedulerRefuses"

	// Reasons for a Pod on a base that no controller serves, or that is unreachable.
	NodeGone                   Reason = "NodeGone"
	ControllerNotRunning       Reason = "ControllerNotRunning"
	NoControllerForEnvironment Reason = "NoControllerForEnvironment"
	NobodyServesBase           Reason = "NobodyServesBase"
	ControllerBlind            Reason = "ControllerBlind"
	BaseSilent                 Reason = "BaseSilent"

	// Reasons for a Pod on a base that result from the validation by the controller, or from its commands.
	VersionMissing       Reason = "VersionMissing"
	VersionInvalid       Reason = "VersionInvalid"
	VersionRefUnresolved Reason = "VersionRefUnresolved"
	InjectedContainer    Reason = "InjectedContainer"
	ImageNotAJar         Reason = "ImageNotAJar"
	GaveWay              Reason = "GaveWay"
	KeptDeactivated      Reason = "KeptDeactivated"
	ReplacingSameVersion Reason = "ReplacingSameVersion"
	StrategyInvalid      Reason = "StrategyInvalid"
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

	// Reasons that concern probes and readiness gates.
	LivenessProbeFailing  Reason = "LivenessProbeFailing"
	ReadinessProbeFailing Reason = "ReadinessProbeFailing"
	ReadinessGateMissing  Reason = "ReadinessGateMissing"

	// Reasons for workloads. If the reason is PodNotReady or RolloutStuck, Because is the reason for the Pod that the
	// workload waits for.
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
	OutdatedPodNotReady   Reason = "OutdatedPodNotReady"
	RolloutStuck          Reason = "RolloutStuck"
	PodNotReady           Reason = "PodNotReady"
	PodsNotMade           Reason = "PodsNotMade"

	// Reasons for Nodes.
	NodeReady         Reason = "NodeReady"
	OrdinaryNode      Reason = "OrdinaryNode"
	MetaspacePressure Reason = "MetaspacePressure"

	Unknown Reason = "Unknown"
)

// ReasonText is a reason and a sentence that describes its meaning.
type ReasonText struct {
	Reason  Reason
	Meaning language.Text
}

// ReasonTexts returns all reasons with their texts. The groups are the same as those of the constants.
func ReasonTexts() []ReasonText {
	all := make([]ReasonText, len(meanings))
	copy(all, meanings)
	return all
}

func meaning(r Reason, en, zh string) ReasonText { return ReasonText{r, text(en, zh)} }

var meanings = []ReasonText{
	meaning(PodReady, "The Pod is Ready.", "Pod 为 Ready。"),
	meaning(AlreadyInstalled, "The Pod is Ready. The base already had this version.",
		"Pod 为 Ready。基座此前已有这个版本。"),
	meaning(UnsupportedFields, "The Pod is Ready. The base ignores some fields of the Pod spec.",
		"Pod 为 Ready。基座忽略其 spec 中的某些字段。"),

	meaning(NotAModule, "The Pod is not a module Pod.", "Pod 不是模块 Pod。"),
	meaning(ModuleLabelMissing, "The Pod does not have the label that marks module Pods.", "Pod 没有模块 Pod 的标签。"),
	meaning(OnOrdinaryNode, "The module Pod is bound to a Node that is not a base.", "模块 Pod 绑定到了不是基座的 Node。"),
	meaning(PodEnded, "The phase of the Pod is Failed or Succeeded.", "Pod 的 phase 为 Failed 或 Succeeded。"),
	meaning(TerminatingFinalizer, "A finalizer keeps the deleted Pod in the API.",
		"finalizer 使已删除的 Pod 仍留在 API 中。"),
	meaning(UninstallFailing, "The base could not uninstall the module.", "基座未能卸载模块。"),
	meaning(TerminatingUnserved, "The Pod is being deleted, but no controller manages its base.",
		"Pod 正在删除，但没有 Module Controller 服务其基座。"),
	meaning(Terminating, "The module of the deleted Pod is draining.", "已删除的 Pod 的模块正在排空。"),

	meaning(SchedulingGated, "The Pod has a scheduling gate.", "Pod 带有调度门控。"),
	meaning(NoBases, "The cluster has no bases.", "集群中没有基座。"),
	meaning(WrongBaseName, "No base has the name that the Pod requires.", "没有基座具有 Pod 要求的名称。"),
	meaning(WrongBaseVersion, "No matching base has the version that the Pod requires.", "匹配的基座都没有 Pod 要求的版本。"),
	meaning(NoBaseMatchesSelector, "No base has the labels that the node selector requires.",
		"没有基座具有 nodeSelector 要求的标签。"),
	meaning(NoBaseMatchesAffinity, "No base has the labels that the node affinity requires.",
		"没有基座具有节点亲和性要求的标签。"),
	meaning(WrongEnvironment, "The Pod tolerates only the taint of another environment.", "Pod 只容忍其他环境的污点。"),
	meaning(TolerationMissing, "The Pod does not tolerate the taint that every base has.", "Pod 不容忍每个基座都有的污点。"),
	meaning(EnvironmentTolerationMissing, "The Pod does not tolerate the environment taint of the bases.",
		"Pod 不容忍基座的环境污点。"),
	meaning(TaintNotTolerated, "The Pod does not tolerate an additional taint of the matching bases.",
		"Pod 不容忍匹配的基座的其他污点。"),
	meaning(BaseCordoned, "The base is cordoned, or all matching bases are cordoned.", "该基座或每个匹配的基座都已 cordon。"),
	meaning(BaseLeaving, "The Node of the base is being deleted.", "基座的 Node 正在删除。"),
	meaning(BasesNotReady, "No matching base is Ready.", "匹配的基座都不是 Ready。"),
	meaning(NoFreeMetaspace, "No matching base has enough free metaspace.", "匹配的基座都没有足够的空闲 Metaspace。"),
	meaning(NoFreeResources, "No matching base has enough of a resource other than metaspace, or the "+
		"maximum number of Pods is reached.",
		"匹配的基座的其他资源不足，或 Pod 数已达上限。"),
	meaning(NoSuchResource, "The Pod requests a resource that no base has.", "Pod 请求的资源没有基座提供。"),
	meaning(AntiAffinity, "On every matching base, an anti-affinity rule excludes the Pod.",
		"反亲和性使 Pod 不能调度到任何匹配的基座。"),
	meaning(PodAffinity, "No matching base has a Pod that the Pod affinity selects.",
		"匹配的基座上没有 Pod 亲和性所选择的 Pod。"),
	meaning(TopologySpread, "On every matching base, the Pod would violate a topology spread constraint.",
		"在任何匹配的基座上，Pod 都会违反拓扑分布约束。"),
	meaning(HostPortTaken, "Every matching base already has a Pod with the same host port.",
		"匹配的基座都已有使用相同 hostPort 的 Pod。"),
	meaning(ClaimUnbound, "A PersistentVolumeClaim of the Pod does not exist or is not bound.",
		"Pod 的持久卷声明不存在或没有绑定。"),
	meaning(VolumeUnavailable, "No base meets the volume requirements of the Pod.", "没有基座满足 Pod 对卷的要求。"),
	meaning(UnknownScheduler, "The scheduler that the Pod names has not tried to schedule the Pod.",
		"Pod 指定的调度器没有尝试调度它。"),
	meaning(NotScheduledYet, "A matching base exists, but the scheduler has not retried the Pod yet.",
		"有基座满足要求，但调度器尚未再次尝试该 Pod。"),
	meaning(SchedulerRefuses, "The scheduler rejects the Pod for an unrecognized reason; see the scheduler message.",
		"调度器拒绝了 Pod，已知的只有其消息。"),

	meaning(NodeGone, "The Node that the Pod is bound to does not exist.", "Pod 绑定的 Node 不存在。"),
	meaning(ControllerNotRunning, "No module controller is running.", "没有运行中的 Module Controller。"),
	meaning(NoControllerForEnvironment, "No module controller is running for the environment of the base.",
		"基座的环境没有运行中的 Module Controller。"),
	meaning(NobodyServesBase, "No controller manages the base.", "没有 Module Controller 服务该基座。"),
	meaning(ControllerBlind, "The controller cannot observe the base, for example because the broker is unavailable.",
		"Module Controller 无法观察基座，例如 broker 不可用。"),
	meaning(BaseSilent, "The base is not Ready, for example because it is unreachable.", "基座不是 Ready，例如不可达。"),

	meaning(VersionMissing, "The container does not set BIZ_VERSION.", "容器没有设置 BIZ_VERSION。"),
	meaning(VersionInvalid, "BIZ_VERSION is not a valid version.", "BIZ_VERSION 不是有效的版本。"),
	meaning(VersionRefUnresolved,
		"BIZ_VERSION refers to a value that cannot be read.",
		"BIZ_VERSION 引用的值无法读取。"),
	meaning(InjectedContainer, "Admission control added a container that is not a module.", "准入控制加入了不是模块的容器。"),
	meaning(ImageNotAJar, "The image of the container is not the URL of a jar.", "容器的 image 不是 jar 的 URL。"),
	meaning(GaveWay, "A newer Pod of the module on the same base has replaced the Pod.",
		"同一基座上该模块的更新的 Pod 已取代它。"),
	meaning(KeptDeactivated, "The base has installed the version, but keeps an older version active.",
		"基座已安装该版本，但较老的版本仍处于激活状态。"),
	meaning(ReplacingSameVersion, "The controller is replacing the jar with another jar of the same version.",
		"Module Controller 正在用同一版本的另一个 jar 替换原来的 jar。"),
	meaning(StrategyInvalid, "The install strategy of the Pod is unknown.", "该 Pod 的安装策略未知。"),
	meaning(InstallRetrying, "Several attempts to install the module have failed.", "多次安装失败。"),
	meaning(WebContextTaken, "Another module on the base uses the same web context path.",
		"基座上的另一个模块使用了相同的 web context path。"),
	meaning(ModuleBroken, "The module failed to start.", "模块启动失败。"),
	meaning(MetaspaceFull, "The metaspace of the base is full.", "基座的 Metaspace 已满。"),
	meaning(DiskFull, "The disk of the base is full.", "基座的磁盘已满。"),
	meaning(JarNotFetched, "The base cannot download the jar.", "基座无法下载 jar。"),
	meaning(CommandTimedOut, "The base did not answer a command in time.", "基座没有及时应答指令。"),
	meaning(BaseUnreachable, "The controller cannot reach the base.", "Module Controller 无法到达基座。"),
	meaning(InstalledBySomebody, "Another installation of the module is running on the base.",
		"基座上正在进行该模块的另一次安装。"),
	meaning(InstallFailed, "The installation failed with an error that no other reason covers.", "安装因其他原因失败。"),
	meaning(ModuleStopped, "The module has stopped.", "模块已停止。"),
	meaning(CommandUnderWay, "The base has not answered the command yet.", "基座尚未应答指令。"),
	meaning(CommandNotSent, "The controller has not sent the command yet.", "Module Controller 尚未下发指令。"),
	meaning(NotTakenUp, "The controller has not processed the Pod yet.", "Module Controller 尚未处理该 Pod。"),

	meaning(LivenessProbeFailing, "A liveness probe fails.", "存活探针失败。"),
	meaning(ReadinessProbeFailing, "A readiness probe fails.", "就绪探针失败。"),
	meaning(ReadinessGateMissing, "A readiness gate of the Pod is not True.", "Pod 的 readiness gate 不是 True。"),

	meaning(WorkloadReady, "All Pods of the workload are Ready.", "工作负载的所有 Pod 都为 Ready。"),
	meaning(WorkloadLeaving, "The workload is being deleted.", "工作负载正在删除。"),
	meaning(WorkloadNotSeen, "kube-controller-manager has not processed the last change of the workload.",
		"kube-controller-manager 尚未处理工作负载的最后一次修改。"),
	meaning(DeploymentPaused, "The Deployment is paused.", "Deployment 已暂停。"),
	meaning(PeerWithoutBases, "No base matches the peer Deployment.", "没有基座满足对等部署的要求。"),
	meaning(PeerNotFollowed, "The controller does not set the replicas of the peer Deployment.",
		"Module Controller 没有设置对等部署的副本数。"),
	meaning(NoReplicas, "The workload has 0 replicas.", "工作负载的副本数为 0。"),
	meaning(QuotaExceeded, "A quota prevents the creation of Pods.", "配额不允许更多的 Pod。"),
	meaning(PodsRefused, "The API server rejects the Pods.", "API server 拒绝 Pod。"),
	meaning(DaemonSetNotTolerated, "The template of the DaemonSet does not tolerate a taint of the bases.",
		"DaemonSet 的模板不容忍基座的污点。"),
	meaning(DaemonSetWithoutBases, "No base matches the DaemonSet.", "没有基座满足 DaemonSet 的要求。"),
	meaning(OutdatedPodNotReady,
		"An ordered StatefulSet is waiting for a Pod with an earlier template to become Ready.",
		"有序的 StatefulSet 在等待较早模板的 Pod。"),
	meaning(RolloutStuck, "The rollout is waiting for a Pod to become Ready.", "更新在等待某个 Pod。"),
	meaning(PodNotReady, "A Pod of the workload is not Ready; no rollout is in progress.", "工作负载在等待某个 Pod。"),
	meaning(PodsNotMade, "The workload has fewer Pods than it requests, for an unknown reason.",
		"工作负载的 Pod 少于所需，原因未知。"),

	meaning(NodeReady, "The base is Ready.", "基座为 Ready。"),
	meaning(OrdinaryNode, "The Node is not a base.", "该 Node 不是基座。"),
	meaning(MetaspacePressure, "The base is Ready and has little free metaspace.", "基座为 Ready，但空闲的 Metaspace 很少。"),

	meaning(Unknown, "No rule explains the state.", "没有规则能说明原因。"),
}
