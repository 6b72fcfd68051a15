package why

import (
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/language"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// message contains the cause and the advice of an answer. An empty advice means that no action is required.
type message struct {
	reason        Reason
	cause, advice language.Text
}

// args contains the values of the placeholders in the cause and the advice of a message.
type args = language.Args

// catalogue contains all texts of the package.
var catalogue language.Catalogue

// answer adds a message to the catalogue. cause and advice are the English texts; causeZH and adviceZH are their
// Chinese translations.
func answer(r Reason, cause, causeZH, advice, adviceZH string) message {
	return message{r, catalogue.Text(cause, causeZH), catalogue.Text(advice, adviceZH)}
}

// text adds a text that other messages contain to the catalogue.
func text(en, zh string) language.Text { return catalogue.Text(en, zh) }

// answer returns an Answer with the texts of a message, in the language of the explainer.
func (v *explainer) answer(m message, a args) *Answer {
	return &Answer{Reason: m.reason, Cause: v.in(m.cause, a), Advice: v.in(m.advice, a) + v.recreate(m)}
}

// recreate returns the end of the advice for a Pod without an owner, if the advice changes fields of the Pod that
// Kubernetes does not allow to change. Otherwise, it returns "". Kubernetes allows changes to labels, annotations and
// images, and additional tolerations.
func (v *explainer) recreate(m message) string {
	if v.Pod == nil || v.Pod.UID == "" || len(v.Pod.OwnerReferences) > 0 || !slices.Contains([]message{
		msgNoModuleOnBase, msgWrongBaseName, msgWrongBaseVersion, msgNoBaseMatchesSelector, msgNoBaseMatchesAffinity,
		msgNoSuchResource, msgLimitRange, msgNoFreeResources, msgNoFreeMetaspace, msgClaimUnbound,
		msgVolumeUnavailable, msgSpreadLabelMissing, msgTopologySpread, msgPodAffinity, msgAntiAffinity,
		msgHostPortTaken, msgUnknownScheduler, msgResourceClaims, msgNodeNameUnknown, msgVersionMissing,
		msgVersionInvalid, msgLivenessProbeFailing, msgReadinessProbeFailing, msgReadinessGateMissing,
		msgUnsupportedFields,
	}, m) {
		return ""
	}
	return v.in(partRecreate, nil)
}

// in formats a text in the language of the explainer.
func (v *explainer) in(t language.Text, a args) string { return t.In(v.language, a) }

// count formats a number with its noun in the language of the explainer.
func (v *explainer) count(n int, noun language.Text) string {
	if v.language == language.Chinese {
		return fmt.Sprintf("%d %s", n, noun.ZH)
	}
	return plain.Count(n, noun.EN)
}

// didYouMean returns " (did you mean X?)", where X is the name in names that is most similar to name. It returns "" if
// no name is similar.
func (v *explainer) didYouMean(name string, names []string) string {
	if found := plain.Similar(name, names); found != "" {
		return v.in(partDidYouMean, args{"name": found})
	}
	return ""
}

const (
	moduleLabel = labels.Component + "=" + labels.Module
	baseLabel   = labels.Component + "=" + labels.Vnode
)

// Texts that are parts of several messages.
var (
	nounBase       = text("base", "个基座")
	nounPod        = text("Pod", "个 Pod")
	partDidYouMean = text(" (did you mean {name}?)", "（是否想写 {name}？）")
	partRecreate   = text("; after a change of its manifest, the Pod must be deleted and created again, because "+
		"Kubernetes does not allow changes to these fields",
		"；修改 manifest 之后，必须删除并重新创建该 Pod，因为 Kubernetes 不允许修改这些字段")
	partMore           = text("{names} and {n} more", "{names} 等，另有 {n} 个")
	partNone           = text("none", "无")
	partNextAttempt    = text("; the next attempt is at {time}", "；下一次尝试在 {time}")
	partIn             = text(", in {duration}", "，即 {duration} 之后")
	partLastController = text("; {controller} last renewed its Lease {age} ago",
		"；{controller} 最后一次续约 Lease 是在 {age} 之前")
	partProbeFailed     = text(" ({age} ago: {message})", "（{age} 之前：{message}）")
	partPod             = text(", Pod {pod}", "，即 Pod {pod}")
	partServedBy        = text(", and the controller {controller} serves it", "，由 controller {controller} 服务")
	partOrdinaryNode    = text(", and runs on the ordinary Node {node}", "，运行在普通 Node {node} 上")
	partNoReason        = text("no reason given", "没有给出原因")
	partNoJar           = text("; its image {image} does not contain .jar", "；其 image {image} 中没有 .jar")
	partConfigMapKey    = text("key {key} of ConfigMap {name}", "ConfigMap {name} 的键 {key}")
	partSchedulerSilent = text("it gives no reason", "没有给出原因")
)

// Messages about a Pod that is Ready.
var (
	msgPodReady = answer(PodReady,
		"{pod} has been Ready for {age}, since {since}: {base} serves {modules}",
		"{pod} 已 Ready {age}，自 {since} 起：{base} 提供 {modules} 的服务", "", "")
	msgAlreadyInstalled = answer(AlreadyInstalled,
		"{ready}; the base had this version from this URL already, so nothing was sent to it",
		"{ready}；基座此前已经安装了来自该 URL 的这个版本，因此没有向它下发指令",
		"to release another jar, increase BIZ_VERSION",
		"要发布另一个 jar，请提高 BIZ_VERSION")
	msgUnsupportedFields = answer(UnsupportedFields,
		"{ready}; the base ignores {fields} of the Pod spec",
		"{ready}；基座忽略其 spec 中的 {fields}",
		"remove these fields, or implement them in the base or in the module",
		"去掉这些字段，或在基座或模块中自行实现")
)

// Messages about a Pod that is not a module Pod, or that is being deleted.
var (
	msgOnOrdinaryNode = answer(OnOrdinaryNode,
		"the module Pod is bound to {node}, which is an ordinary Node, not a base",
		"模块 Pod 绑定到了 {node}，它是普通 Node，不是基座",
		"select bases with the nodeSelector "+labels.Component+": "+labels.Vnode+", and recreate the Pod",
		"用 nodeSelector "+labels.Component+": "+labels.Vnode+" 选择基座，并重新创建该 Pod")
	msgNotAModule = answer(NotAModule,
		"{pod} is not a module Pod: it does not have the label "+moduleLabel+"{where}; its phase is {phase}",
		"{pod} 不是模块 Pod：它没有标签 "+moduleLabel+"{where}；其 phase 为 {phase}",
		"see: kubectl describe pod {name}",
		"参见：kubectl describe pod {name}")
	msgWrongComponent = answer(ModuleLabelMissing,
		"the label "+labels.Component+" of the Pod is {value} and not "+labels.Module+
			", so the module controller ignores it",
		"该 Pod 的标签 "+labels.Component+" 为 {value}，而不是 "+labels.Module+"，因此 Module Controller 忽略它",
		"label the Pod, or the metadata of its template, "+labels.Component+": "+labels.Module,
		"给该 Pod 或其模板的 metadata 加上标签 "+labels.Component+": "+labels.Module)
	msgNoComponent = answer(ModuleLabelMissing,
		"the Pod does not have the label "+moduleLabel+", so the module controller ignores it",
		"该 Pod 没有标签 "+moduleLabel+"，因此 Module Controller 忽略它",
		"label the Pod, or the metadata of its template, "+labels.Component+": "+labels.Module,
		"给该 Pod 或其模板的 metadata 加上标签 "+labels.Component+": "+labels.Module)
	msgNoModuleOnBase = answer(ModuleLabelMissing,
		"the Pod does not have the label "+moduleLabel+", so the module controller ignores it",
		"该 Pod 没有标签 "+moduleLabel+"，因此 Module Controller 忽略它",
		"keep the Pod off bases, which run only modules: add a required node affinity "+labels.Component+" NotIn ["+
			labels.Vnode+"] to its template; or, if it is a module, label the Pod, or the metadata of its template, "+
			labels.Component+": "+labels.Module,
		"基座只运行模块，不要把该 Pod 调度到基座：在其模板中加上必需的节点亲和性 "+labels.Component+" NotIn ["+labels.Vnode+
			"]；如果它是模块，则给该 Pod 或其模板的 metadata 加上标签 "+labels.Component+": "+labels.Module)
	msgTerminatingFinalizer = answer(TerminatingFinalizer,
		"{pod} is being deleted, and no base has its modules any more; the finalizer {finalizers} keeps it in the API",
		"{pod} 正在删除，基座上已没有它的模块；finalizer {finalizers} 使它仍留在 API 中",
		"check that the component that set the finalizer is running; to remove the finalizer: "+
			`kubectl patch pod {name} --type merge -p '{"metadata":{"finalizers":null}}'`,
		"检查设置该 finalizer 的组件是否在运行；去掉 finalizer："+
			`kubectl patch pod {name} --type merge -p '{"metadata":{"finalizers":null}}'`)
	msgUninstallFailing = answer(UninstallFailing,
		"the module of the deleted Pod could not be uninstalled, {age} ago: {message}",
		"{age} 之前，已删除的 Pod 的模块未能卸载：{message}",
		"check the base; the controller tries again; the Pod is deleted when the module is uninstalled, or when its "+
			"grace period ends at {end}",
		"检查基座；controller 会重试；模块卸载之后，或宽限期在 {end} 结束时，该 Pod 被删除")
	msgTerminatingUnserved = answer(TerminatingUnserved,
		"{pod} is being deleted, and no controller uninstalls its module: {cause}",
		"{pod} 正在删除，但没有 controller 卸载其模块：{cause}",
		"{advice}", "{advice}")
	msgTerminating = answer(Terminating,
		"{pod} has been terminating for {age}: its module drains, and is uninstalled after that",
		"{pod} 已终止 {age}：其模块正在排空，之后卸载",
		"wait: this takes MODULE_DRAIN and an uninstall, or longer while a successor is being installed or a Service "+
			"still sends requests; the grace period ends at {end}",
		"请等待：需要 MODULE_DRAIN 加卸载的时间；如果后继版本正在安装，或 Service 仍在发送请求，则更久；宽限期在 {end} 结束")
	msgSuperseded = answer(GaveWay,
		"the Pod was superseded: a newer Pod of module {module} is active on {base}{newer}",
		"该 Pod 已被取代：模块 {module} 的更新的 Pod 在 {base} 上处于激活状态{newer}",
		"delete the Pod or its workload: only one version of a module is active on a base",
		"删除该 Pod 或其工作负载：一个基座上同一模块只有一个版本处于激活状态")
	msgPodEnded = answer(PodEnded,
		"{pod} has ended with the phase {phase}: {message}",
		"{pod} 已结束，phase 为 {phase}：{message}",
		"delete the Pod; its workload creates another one",
		"删除该 Pod；其工作负载会创建新的 Pod")
)

// Messages about a Pod without a Node.
var (
	msgSchedulingGated = answer(SchedulingGated,
		"the scheduler ignores {pod} while it has the scheduling gate {gates}",
		"{pod} 带有调度门控 {gates}，其间调度器忽略它",
		"check that the component that set the gate is running; that component removes the gate",
		"检查设置该门控的组件是否在运行；由该组件移除门控")
	msgNoBasesNoController = answer(ControllerNotRunning,
		"there are no bases, and no module controller is running to create their Nodes{last}",
		"没有基座，也没有运行中的 Module Controller 为基座创建 Node{last}",
		startController, startControllerZH)
	msgNoBases = answer(NoBases,
		"there are no bases: no Node has the label "+baseLabel,
		"没有基座：没有 Node 带有标签 "+baseLabel,
		"start a base, and check that it reaches the broker or the controller; in a sandbox: koupsandbox base add",
		"启动基座，并检查它能否到达 broker 或 controller；在沙箱中：koupsandbox base add")
	msgWrongBaseName = answer(WrongBaseName,
		"no base is named {wanted}; base names in this cluster: {names}",
		"没有名为 {wanted} 的基座；本集群中基座的名称：{names}",
		"change {key} in the {where} to the name of a base{meant}, or start a base of that name",
		"把 {where} 中的 {key} 改为某个基座的名称{meant}，或启动该名称的基座")
	msgWrongBaseVersion = answer(WrongBaseVersion,
		"no otherwise matching base has the version {wanted}; their versions are {versions}",
		"其他条件都满足的基座中没有版本 {wanted}；它们的版本为 {versions}",
		"start a base of that version, or change {key} in the {where}; the Pod stays Pending until such a base exists",
		"启动该版本的基座，或修改 {where} 中的 {key}；在有这样的基座之前，该 Pod 一直 Pending")
	msgNoBaseMatchesSelector = answer(NoBaseMatchesSelector,
		"no base fits: {requirement}{values}",
		"没有满足要求的基座：{requirement}{values}",
		"correct the {where} of the Pod or its template{relabel}; show the labels with: kubectl get "+
			"nodes --show-labels",
		"修改该 Pod 或其模板的 {where}{relabel}；查看标签：kubectl get nodes --show-labels")
	msgNoBaseMatchesAffinity = message{NoBaseMatchesAffinity, msgNoBaseMatchesSelector.cause,
		msgNoBaseMatchesSelector.advice}
	partValues       = text("; values of that label on bases: {values}", "；基座上该标签的值：{values}")
	partNodeSelector = text("nodeSelector", "nodeSelector")
	partNodeAffinity = text("node affinity", "node affinity")
	partRelabelBase  = text(
		", or change the cluster name that the base reports (in a sandbox: spec.bases[].clusterName); the controller "+
			"reverts kubectl label",
		"，或修改基座上报的集群名（在沙箱中：spec.bases[].clusterName）；用 kubectl label 所作的修改会被 controller 还原")
	partReportedLabel = text(", or start a base that reports another value; the controller reverts kubectl label",
		"，或启动上报另一个值的基座；用 kubectl label 所作的修改会被 controller 还原")
	partLabelNode        = text(", or label the Node of a base", "，或给某个基座的 Node 加上标签")
	msgTolerationMissing = answer(TolerationMissing,
		"the Pod does not tolerate the taint {taint}, which every base has",
		"该 Pod 不容忍污点 {taint}，而每个基座都有该污点",
		"add {toleration} to the tolerations of the Pod or its template",
		"在该 Pod 或其模板的 tolerations 中加上 {toleration}")
	msgNoControllerAddsToleration = answer(ControllerNotRunning,
		"no module controller is running to add a toleration of {taint}{last}",
		"没有运行中的 Module Controller 为该 Pod 加上对 {taint} 的容忍{last}",
		"start the module controller, or add {toleration} to the tolerations",
		"启动 Module Controller，或在 tolerations 中加上 {toleration}")
	msgTolerationNotAddedYet = answer(NotTakenUp,
		"the Pod is {age} old, and the controller has not yet added the toleration of the taint {taint}",
		"该 Pod 创建于 {age} 之前，controller 还没有加上对污点 {taint} 的容忍", waitForController, waitForControllerZH)
	msgEnvironmentTolerationMissing = answer(EnvironmentTolerationMissing,
		"the Pod does not tolerate the taint {taint}, and the controller has not added the toleration",
		"该 Pod 不容忍污点 {taint}，controller 也没有加上这个容忍",
		"add {toleration} to the tolerations; the controller adds it only if LEAVE_POD_TOLERATIONS is not set",
		"在 tolerations 中加上 {toleration}；只有在未设置 LEAVE_POD_TOLERATIONS 时 controller 才会加上它")
	msgWrongEnvironment = answer(WrongEnvironment,
		"the Pod tolerates bases of the environment {tolerated}, but the otherwise matching bases belong to "+
			"{environments}",
		"该 Pod 容忍环境 {tolerated} 的基座，而其他条件都满足的基座属于 {environments}",
		"tolerate {key} with the value {value} and the effect {effect}, or, in a sandbox, set spec.env to the "+
			"environment of the Pod (--config sandbox.yaml)",
		"请容忍 {key}，值为 {value}，effect 为 {effect}；在沙箱中，也可以把 spec.env 设为该 Pod 的环境（--config sandbox.yaml）")
	msgTaintNotTolerated = answer(TaintNotTolerated,
		"the Pod does not tolerate the taint {taint} of {bases}",
		"该 Pod 不容忍 {bases} 的污点 {taint}",
		"tolerate the taint, or remove it: kubectl taint node {node} {taint}-",
		"容忍它，或去掉它：kubectl taint node {node} {taint}-")
	msgBasesNotObserved = answer(ControllerNotRunning,
		"no module controller is running to report the state of {bases}{last}",
		"没有运行中的 Module Controller 上报 {bases} 的状态{last}",
		startController, startControllerZH)
	msgBasesCordoned = answer(BaseCordoned,
		"each otherwise matching base is cordoned, and accepts no new Pods: {bases}",
		"其他条件都满足的基座都已 cordon，不接受新的 Pod：{bases}",
		"kubectl uncordon {node}", "kubectl uncordon {node}")
	msgBasesLeaving = answer(BaseLeaving,
		"each otherwise matching base is cordoned, and its Node is being deleted: {bases}",
		"其他条件都满足的基座都已 cordon，且其 Node 正在删除：{bases}",
		"start another base; if the Node has a finalizer, its deletion ends when the finalizer is removed",
		"启动另一个基座；如果 Node 有 finalizer，移除之后删除才会完成")
	msgBasesNotReady = answer(BasesNotReady,
		"no otherwise matching base is Ready: {bases}; {base}: {state}",
		"其他条件都满足的基座都不是 Ready：{bases}；{base}：{state}",
		"see: koupsandbox why node/{base}", "参见：koupsandbox why node/{base}")
	msgNoSuchResource = answer(NoSuchResource,
		"the Pod requests {amount} of {resource}, but no base provides it",
		"该 Pod 请求 {amount} 的 {resource}，而没有基座提供该资源",
		"remove the request from the Pod or its template",
		"从该 Pod 或其模板中去掉该请求")
	msgLimitRange = answer(NoSuchResource,
		"the Pod requests {amount} of {resource}, but no base provides it",
		"该 Pod 请求 {amount} 的 {resource}，而没有基座提供该资源",
		"a LimitRange of the namespace {namespace} adds the request: remove {resource} from it, or request 0 "+
			"in the template",
		"该请求由 namespace {namespace} 的 LimitRange 加上：从中去掉 {resource}，或在模板中请求 0")
	msgNoFreeResources = answer(NoFreeResources,
		"the Pod requests {amount} of {resource}, but no otherwise matching base has that much free; the maximum is "+
			"{free} on {base}",
		"该 Pod 请求 {amount} 的 {resource}，其他条件都满足的基座都没有这么多空闲：最多为 {base} 上的 {free}",
		"request less, or add a base", "减少请求，或增加基座")
	msgNoFreeMetaspace = answer(NoFreeMetaspace, msgNoFreeResources.cause.EN, msgNoFreeResources.cause.ZH,
		"request less memory, remove modules, or start a base with a larger -XX:MaxMetaspaceSize "+
			"(in a sandbox: spec.bases[].metaspace.max)",
		"减少 memory 请求，移除模块，或以更大的 -XX:MaxMetaspaceSize（在沙箱中：spec.bases[].metaspace.max）启动基座")
	msgTooManyPods = answer(NoFreeResources,
		"every otherwise matching base already has its maximum number of Pods",
		"其他条件都满足的基座，其 Pod 数都已达到上限",
		"add a base, or remove modules", "增加基座，或移除模块")
)

// Messages about a Pod that the scheduler has rejected, or has not tried to schedule.
var (
	msgClaimUnbound = answer(ClaimUnbound,
		"a persistent volume claim of the Pod ({claims}) does not exist, or is not bound to a volume; the scheduler "+
			"reports: {message}",
		"该 Pod 的持久卷声明（{claims}）不存在，或没有绑定到卷；调度器报告：{message}",
		"{advice}, or create the claim and bind it to a volume: kubectl get pvc -n {namespace}",
		"{advice}，或创建该声明并绑定到卷：kubectl get pvc -n {namespace}")
	msgVolumeUnavailable = answer(VolumeUnavailable,
		"no base meets the volume requirements of the Pod; the scheduler reports: {message}",
		"没有基座满足该 Pod 对卷的要求；调度器报告：{message}",
		"{advice}", "{advice}")
	partClaimsOfPod = text("a module uses no volumes: remove the claims from the volumes of the Pod or its template",
		"模块不使用卷：从该 Pod 或其模板的 volumes 中去掉声明")
	partClaimsOfStatefulSet = text(
		"a module uses no volumes: remove the claims from StatefulSet {name}; Kubernetes refuses to change "+
			"volumeClaimTemplates, so delete and create the StatefulSet again",
		"模块不使用卷：从 StatefulSet {name} 中去掉声明；Kubernetes 拒绝修改 volumeClaimTemplates，因此需要删除并重新创建该 StatefulSet")
	msgSpreadLabelMissing = answer(TopologySpread,
		"the Pod must be spread over {keys}, but no otherwise matching base has that label; the scheduler "+
			"reports: {message}",
		"该 Pod 须按 {keys} 分布，而其他条件都满足的基座都没有该标签；调度器报告：{message}",
		"use the topologyKey "+corev1.LabelHostname+", or label the Nodes of the bases",
		"使用 topologyKey "+corev1.LabelHostname+"，或给基座的 Node 加上标签")
	msgTopologySpread = answer(TopologySpread,
		"on every otherwise matching base, the Pod would break a topology spread constraint (over {keys}); the "+
			"scheduler reports: {message}",
		"在其他条件都满足的任何基座上，该 Pod 都会违反拓扑分布约束（按 {keys}）；调度器报告：{message}",
		"set whenUnsatisfiable: ScheduleAnyway, increase maxSkew, or add a base; cordoned bases count as topology "+
			"domains, unless the constraint has nodeTaintsPolicy: Honor",
		"设置 whenUnsatisfiable: ScheduleAnyway，增大 maxSkew，或增加基座；除非约束带有 nodeTaintsPolicy: Honor，"+
			"已 cordon 的基座也算作拓扑域")
	msgPodAffinity = answer(PodAffinity,
		"no otherwise matching base has a Pod that the required Pod affinity selects",
		"其他条件都满足的基座上，没有必需的 Pod 亲和性所选择的 Pod",
		"correct the labelSelector of the podAffinity, start the Pods that it selects, or make the affinity preferred",
		"修改 podAffinity 的 labelSelector，启动它选择的 Pod，或把该亲和性改为 preferred")
	msgAntiAffinity = answer(AntiAffinity,
		"every otherwise matching base already has a Pod that an anti-affinity separates from this Pod",
		"其他条件都满足的基座，都已有反亲和性所排斥的 Pod",
		"add a base, or make the anti-affinity preferred; an update with maxSurge needs one more base than "+
			"there are replicas",
		"增加基座，或把反亲和性改为 preferred；带 maxSurge 的更新所需的基座比副本数多一个")
	msgHostPortTaken = answer(HostPortTaken,
		"every otherwise matching base already has a Pod with the same hostPort",
		"其他条件都满足的基座，都已有使用相同 hostPort 的 Pod",
		"remove the hostPort, which has no effect for a module, or add a base",
		"去掉对模块无效的 hostPort，或增加基座")
	msgUnknownScheduler = answer(UnknownScheduler,
		"the scheduler {scheduler} has not tried to schedule the Pod",
		"调度器 {scheduler} 没有尝试调度该 Pod",
		"remove schedulerName, or check that this scheduler runs",
		"去掉 schedulerName，或检查该调度器是否在运行")
	msgSchedulerRefuses = answer(SchedulerRefuses,
		"the scheduler finds no Node for the Pod: {message}; labels, taints, state and free resources of {base} fit, "+
			"and no further reason is known",
		"调度器没有为该 Pod 找到 Node：{message}；{base} 的标签、污点、状态和空闲资源都满足要求，没有其他已知的原因",
		"resolve the reasons that the scheduler gives; if the cluster has just changed, run the command again",
		"解决调度器给出的原因；如果集群刚刚发生变化，请重新运行本命令")
	msgResourceClaims = answer(NotScheduledYet,
		"the scheduler does not try to schedule the Pod before its resource claims exist",
		"在 resource claim 存在之前，调度器不会尝试调度该 Pod",
		"a module uses no devices: remove resourceClaims from the Pod or its template",
		"模块不使用设备：从该 Pod 或其模板中去掉 resourceClaims")
	msgNotScheduledYet = answer(NotScheduledYet,
		"the scheduler has not tried to schedule the Pod for {age}; {base} fits",
		"调度器在 {age} 内没有尝试调度该 Pod；{base} 满足要求",
		"check that kube-scheduler runs; in a sandbox: koupsandbox status",
		"检查 kube-scheduler 是否在运行；在沙箱中：koupsandbox status")
	msgNotScheduledAgain = answer(NotScheduledYet,
		"{base} has matched since a change {age} ago, but the scheduler has not tried the Pod again; it last "+
			"reported: {message}",
		"{base} 因 {age} 之前的变化而满足要求，调度器还没有再次尝试该 Pod；其上一次报告：{message}",
		"wait a few seconds: the scheduler tries again after a change",
		"等待数秒：调度器在变化之后会再次尝试")
)

const (
	startController   = "start the module controller; in a sandbox: koupsandbox component start module-controller"
	startControllerZH = "启动 Module Controller；在沙箱中：koupsandbox component start module-controller"

	waitForController = "wait a few seconds; then check that the module controller is running, and check its log; in " +
		"a sandbox: koupsandbox status"
	waitForControllerZH = "等待数秒；之后检查 Module Controller 是否在运行，以及它的日志；在沙箱中：koupsandbox status"
)

// Messages about a Pod on a base that no controller serves, or that is unreachable.
var (
	msgNodeNameUnknown = answer(NodeGone,
		"the Pod or its template sets nodeName: {node}, but no Node has this name",
		"该 Pod 或其模板设置了 nodeName: {node}，而没有该名称的 Node",
		"remove nodeName, and select bases by their labels, for example by "+corev1.LabelHostname+
			" in the nodeSelector",
		"去掉 nodeName，按标签选择基座，例如在 nodeSelector 中使用 "+corev1.LabelHostname)
	msgNodeGone = answer(NodeGone,
		"the Pod is bound to {node}, but this Node does not exist: its base was removed, or never existed",
		"该 Pod 绑定到 {node}，而该 Node 不存在：其基座已被移除，或从未存在",
		"delete the Pod; its workload creates another one on an existing base",
		"删除该 Pod；其工作负载会在现有的基座上创建新的 Pod")
	msgControllerNotRunning = answer(ControllerNotRunning,
		"no module controller is running to manage {base}{last}",
		"没有运行中的 Module Controller 管理 {base}{last}",
		startController, startControllerZH)
	msgNoControllerForEnvironment = answer(NoControllerForEnvironment,
		"{base} belongs to the environment {env}, which has no running controller; controllers are running for {envs}",
		"{base} 属于环境 {env}，该环境没有运行中的 controller；有运行中的 controller 的环境：{envs}",
		"start a controller with ENV={env}, or delete the Node if the base has moved to another environment",
		"以 ENV={env} 启动 controller；如果基座已移到其他环境，则删除该 Node")
	msgHolderNotRunning = answer(NobodyServesBase,
		"{base} is served by the controller {controller}, which no longer renews its Lease",
		"{base} 由 controller {controller} 服务，而它已不再续约其 Lease",
		"wait a few seconds: another controller takes over the base after its next heartbeat; otherwise "+
			"check the logs "+
			"of the controllers",
		"等待数秒：基座下一次心跳之后由另一个 controller 接管；否则检查各 controller 的日志")
	msgBaseReleased = answer(NobodyServesBase,
		"no controller serves {base} at the moment: its controller has released it",
		"目前没有 controller 服务 {base}：原来的 controller 已释放它",
		msgHolderNotRunning.advice.EN, msgHolderNotRunning.advice.ZH)
	msgBaseNotObserved = answer(ControllerBlind,
		"the controller has received nothing from {base} for {age}: {message} ({reason})",
		"controller 已 {age} 没有收到来自 {base} 的任何内容：{message} ({reason})",
		"check the connection between controller and bases, the broker first, and that the bases still run (in a "+
			"sandbox: koupsandbox base list); the Pods keep their state until the base reports again",
		"检查 controller 与基座之间的连接，首先是 broker，并检查基座是否仍在运行（在沙箱中：koupsandbox base list）；"+
			"在基座再次上报之前，Pod 的状态保持不变")
	msgBaseNotReady = answer(BaseSilent,
		"{base} has not been Ready for {age}: {message}",
		"{base} 已 {age} 不是 Ready：{message}",
		"check that the base runs and reaches the broker or the controller; otherwise the controller "+
			"deletes its Node, "+
			"and Kubernetes the Pods on it",
		"检查基座是否在运行，以及能否到达 broker 或 controller；否则 controller 会删除其 Node，Kubernetes 会删除其上的 Pod")
	msgBaseDeactivated = answer(BaseSilent,
		"{base} has reported for {age} that it is deactivated",
		"{base} 已 {age} 上报自身未激活",
		"check the log of the base; restart the base if it stays deactivated",
		"查看基座的日志；如果一直未激活，重启基座")
	msgBaseLeaving = answer(BaseLeaving,
		"the Node of {base} is being deleted, with its Pods",
		"{base} 的 Node 及其上的 Pod 正在删除",
		"wait for the Pod that replaces it; if the Node has a finalizer, its deletion ends when the "+
			"finalizer is removed",
		"等待替换它的 Pod；如果 Node 有 finalizer，移除之后删除才会完成")
)

// Messages about the command for a Pod and the response of its base.
var (
	msgKeptDeactivated = answer(KeptDeactivated,
		"{base} has installed {module}:{version} and keeps it deactivated, while an older version is active: the base "+
			"does not activate new versions by itself",
		"{base} 已安装 {module}:{version} 但未激活它，较老的版本仍处于激活状态：该基座不会自行激活新版本",
		"start the base with -Dactivate.new.module=true, or connect it over HTTP, where the controller can switch; or "+
			"delete the Pods of the older version",
		"以 -Dactivate.new.module=true 启动基座，或经 HTTP 连接它（此时 controller 可以切换版本），或删除老版本的 Pod")
	msgReplacingSameVersion = answer(ReplacingSameVersion,
		"{base} has this version of {module} from another URL: it is uninstalled and installed again, one base after "+
			"the other",
		"{base} 上 {module} 的这个版本来自另一个 URL：逐个基座卸载后重新安装",
		"wait; to release without a gap, increase BIZ_VERSION with each jar",
		"请等待；要无间隙地发布，每换一个 jar 都要提高 BIZ_VERSION")
	msgUninstalledFirst = answer(GaveWay,
		"{base} uninstalls this version of {module} before it installs the version of a newer Pod: the install "+
			"strategy of that Pod is "+labels.UninstallThenInstall,
		"{base} 先卸载 {module} 的这个版本，再安装更新的 Pod 的版本：该 Pod 的安装策略为 "+labels.UninstallThenInstall,
		"check the newer Pod; if it fails, roll back: this version is installed again when the newer Pod is deleted",
		"检查更新的 Pod；如果它失败则回滚：该 Pod 删除后，这个版本会重新安装")
	msgModuleStopped = answer(ModuleStopped,
		"module {module} has stopped on {base}: {message}",
		"模块 {module} 已在 {base} 上停止：{message}",
		"the controller installs it again; check the log of the base",
		"controller 会重新安装它；检查基座的日志")
	msgCommandSent = answer(CommandUnderWay,
		"{command} for {module} was sent to {base} {age} ago, at {time}, and has not been answered yet",
		"{age} 之前（在 {time}）向 {base} 下发了 {module} 的 {command}，尚无应答",
		"wait for the answer; INSTALL_TIMEOUT limits the time, by default to five minutes",
		"等待应答；时间以 INSTALL_TIMEOUT 为限，默认五分钟")
	msgInstalling = answer(CommandUnderWay,
		"{base} is installing {module}: its state is RESOLVED, {message}",
		"{base} 正在安装 {module}：其状态为 RESOLVED，{message}",
		msgCommandSent.advice.EN, msgCommandSent.advice.ZH)
	msgNotTakenUp = answer(NotTakenUp,
		"the Pod has been bound to {base} for {age}, but the controller has not reported its status yet",
		"该 Pod 绑定到 {base} 已 {age}，controller 还没有上报它的状态", waitForController, waitForControllerZH)
	msgCommandNotSent = answer(CommandNotSent,
		"{module} is not installed on {base} yet: the controller has not sent the command",
		"{module} 等待安装到 {base}，controller 还没有为它下发指令",
		"wait: the controller installs VNODE_WORKER_NUM modules on a base concurrently, and another jar "+
			"of one version "+
			"on one base at a time; if this takes minutes, check that {base} still runs (in a sandbox: "+
			"koupsandbox base list)",
		"请等待：controller 在一个基座上同时安装 VNODE_WORKER_NUM 个模块；同一版本的另一个 jar 则逐个基座安装；"+
			"如果持续数分钟，请检查 {base} 是否仍在运行（在沙箱中：koupsandbox base list）")
	msgInstallRetrying = answer(InstallRetrying,
		"the retry limit was reached: {cause}{next}",
		"已达到重试次数上限：{cause}{next}",
		"{advice}", "{advice}")
	msgInstallFailed = answer(InstallFailed,
		"{module} could not be installed on {base}: {message} ({code})",
		"{module} 未能安装到 {base}：{message} ({code})",
		"check the log of the base{again}", "检查基座的日志{again}")
	msgWebContextTaken = answer(WebContextTaken,
		"{module} could not be installed on {base}: another module or version there uses its web context path /{path} "+
			"({message})",
		"{module} 未能安装到 {base}：那里的另一个模块或版本使用了相同的 web context path /{path} ({message})",
		"give each version of a web module its own web context path, or uninstall the old version first: set the "+
			"annotation "+labels.InstallStrategy+": "+labels.UninstallThenInstall+" in the Pod template; each base "+
			"has no version of the module while it is being updated",
		"为 Web 模块的每个版本设置各自的 web context path，或先卸载老版本：在 Pod 模板中设置 annotation "+
			labels.InstallStrategy+": "+labels.UninstallThenInstall+"；各基座在更新期间没有该模块的任何版本")
	msgModuleBroken = answer(ModuleBroken,
		"module {module} is BROKEN on {base}: {message}",
		"模块 {module} 在 {base} 上为 BROKEN：{message}",
		"check the code of the module, and the log of the base{again}",
		"检查模块的代码和基座的日志{again}")
	msgInstallNotAnswered = answer(CommandTimedOut,
		"{base} did not answer an install of {module} in time ({age} ago), and rejects other installs until it answers",
		"{base} 没有及时应答 {module} 的安装（{age} 之前），在应答之前拒绝其他安装",
		"check the base: its heartbeats arrive, but it does not answer; a module that starts slowly needs a larger "+
			"INSTALL_TIMEOUT{again}",
		"检查基座：它有心跳，但不应答；启动慢的模块需要更大的 INSTALL_TIMEOUT{again}")
	partAgain = text(
		"; the controller retries with delays growing from 0.5 s to 5 min, and immediately when the annotation "+
			labels.Retry+" of the Pod changes",
		"；controller 会重试，间隔从 0.5 秒逐渐增加到 5 分钟；该 Pod 的 annotation "+labels.Retry+" 改变时立即重试")
	partUnreachableReady = text(
		"{base} is Ready, so its heartbeats arrive: check that the controller can reach the port of the base, and its "+
			"log; an answer that it rejects is logged as \"rejected a message or a part of it\"{again}",
		"{base} 为 Ready，说明心跳正常：检查 controller 能否到达基座的端口，并检查其日志；被它拒绝的应答记录为 "+
			"\"rejected a message or a part of it\"{again}")
)

// Pieces of advice for the error codes of failed commands.
var (
	partUninstallModules = text("uninstall modules, or start the base with a larger -XX:MaxMetaspaceSize "+
		"(in a sandbox: spec.bases[].metaspace.max){again}",
		"卸载模块，或以更大的 -XX:MaxMetaspaceSize（在沙箱中：spec.bases[].metaspace.max）启动基座{again}")
	partFreeDisk = text("free disk space on the base, or replace the base{again}", "释放基座的磁盘空间，或更换基座{again}")
	partCheckURL = text("check that the base reaches the URL, and that the jar exists{again}",
		"检查基座能否到达该 URL，以及 jar 是否存在{again}")
	partCheckPort = text("check that the controller can reach the port of the base, or the broker{again}",
		"检查 controller 能否到达基座的端口或 broker{again}")
	partWaitForInstall   = text("wait until that install has finished{again}", "等待那次安装结束{again}")
	partWaitForUninstall = text(
		"check the base: it must uninstall the present version before it can install the module again{again}",
		"检查基座：它必须先卸载现有的版本，才能重新安装该模块{again}")
)

// Messages about a container that the controller rejects. The error of the controller is not translated.
var (
	msgInjectedContainer = answer(InjectedContainer,
		"admission added the container {container}, which is not in the template, and it cannot be installed as a "+
			"module: {error}",
		"准入控制加入了模板中没有的容器 {container}，它不能作为模块安装：{error}",
		"exclude module Pods from the injection of this container: a base runs no containers",
		"把模块 Pod 排除在该容器的注入之外：基座不运行容器")
	msgConfigMapUnresolved = answer(VersionRefUnresolved,
		"{error}; "+labels.VersionEnv+" refers to {keys}",
		"{error}；"+labels.VersionEnv+" 引用 {keys}",
		"correct or create that key of the ConfigMap; the controller reads it again within a minute",
		"修改或创建 ConfigMap 的该键；controller 在一分钟内重新读取")
	msgVersionRefUnresolved = answer(VersionRefUnresolved, "{error}", "{error}",
		"set that annotation or label in the metadata of the Pod's template",
		"在 Pod 模板的 metadata 中设置该 annotation 或标签")
	msgVersionMissing = answer(VersionMissing, "{error}", "{error}",
		"set "+labels.VersionEnv+" in the env of the container, in the Pod's template",
		"在 Pod 模板中容器的 env 里设置 "+labels.VersionEnv)
	msgVersionInvalid = answer(VersionInvalid, "{error}", "{error}",
		"correct "+labels.VersionEnv+" in the env of the container, in the Pod's template",
		"在 Pod 模板中修改容器的 env 里的 "+labels.VersionEnv)
	msgStrategyInvalid = answer(StrategyInvalid, "{error}", "{error}",
		"correct the annotation "+labels.InstallStrategy, "修改 annotation "+labels.InstallStrategy)
	msgImageChanged = answer(ImageNotAJar,
		"admission changed the image of the container {container}, which is {image} in the template: {error}",
		`准入控制修改了容器 {container} 的 image，模板中为 "{image}"：{error}`,
		"exclude module Pods from the policy that changes images: the image of a module is the URL of its jar",
		"把模块 Pod 排除在修改 image 的策略之外：模块的 image 是其 jar 的 URL")
	msgImageNotAJar = answer(ImageNotAJar, "{error}", "{error}",
		"set the image to the URL of the module's jar, such as https://host/biz1-1.0.0-ark-biz.jar",
		"填写模块 jar 的 URL，例如 https://host/biz1-1.0.0-ark-biz.jar")
)

// Messages about probes and readiness gates.
var (
	msgLivenessProbeFailing = answer(LivenessProbeFailing,
		"the liveness probe of the Pod fails on {base}, so the module is uninstalled and installed again{probe}",
		"该 Pod 的存活探针在 {base} 上失败，因此模块被卸载并重新安装{probe}",
		"check the response of the module at the path of its livenessProbe",
		"检查模块在其 livenessProbe 路径上的应答")
	msgReadinessProbeFailing = answer(ReadinessProbeFailing,
		"{module} is active on {base}, but it is not Ready because of its readiness probe: {message}{probe}",
		"{module} 在 {base} 上已激活，但就绪探针使其不能 Ready：{message}{probe}",
		"check the path and port of its readinessProbe, and the response of the module there; the port of "+
			"the base's web "+
			"listener is in the annotation "+labels.WebPort,
		"检查其 readinessProbe 的路径和端口，以及模块在那里的应答；基座的 Web 端口在 annotation "+labels.WebPort+" 中")
	msgReadinessGateMissing = answer(ReadinessGateMissing,
		"the modules of the Pod are active on {base}, but the readiness gate {gates} is not True",
		"该 Pod 的模块已在 {base} 上提供服务，但 readiness gate {gates} 不是 True",
		"check the component that sets this condition of the Pod, or remove the gate from the template",
		"检查设置该 Pod 的这个 condition 的组件，或从模板中去掉该 gate")
)

// Messages about workloads.
var (
	msgWorkloadReady = answer(WorkloadReady,
		"{workload} is Ready: {pods} of {modules}",
		"{workload} 已 Ready：{modules} 的{pods}", "", "")
	msgWorkloadLeaving = answer(WorkloadLeaving,
		"{workload} has been terminating for {age}; it is kept by {finalizers}",
		"{workload} 已删除 {age} 尚未完成，finalizer：{finalizers}",
		"wait until its Pods are deleted; koupsandbox why pod/NAME explains a Pod",
		"等待其 Pod 被删除；koupsandbox why pod/NAME 说明单个 Pod 的情况")
	partNothing        = text("nothing", "无")
	msgWorkloadNotSeen = answer(WorkloadNotSeen,
		"kube-controller-manager has not processed {workload} since its last change: generation {observed} "+
			"of {generation}",
		"{workload} 最后一次修改之后，kube-controller-manager 尚未处理它：generation 为 {observed}，应为 {generation}",
		"check that kube-controller-manager is running; in a sandbox: koupsandbox status",
		"检查 kube-controller-manager 是否在运行；在沙箱中：koupsandbox status")
	msgDeploymentPaused = answer(DeploymentPaused,
		"{workload} is paused: {updated} of {desired} Pods have its current template",
		"{workload} 已暂停：{desired} 个 Pod 中有 {updated} 个使用当前的模板",
		"kubectl rollout resume deployment {name}", "kubectl rollout resume deployment {name}")
	msgNoReplicas = answer(NoReplicas,
		"{workload} requests no Pods: its replicas are 0",
		"{workload} 不需要 Pod：其副本数为 0",
		"kubectl scale {kind} {name} --replicas 1", "kubectl scale {kind} {name} --replicas 1")
	msgDaemonSetNotTolerated = answer(DaemonSetNotTolerated,
		"{workload} creates no Pods (DESIRED is 0): its template does not tolerate the taint {taint} of {bases}",
		"{workload} 没有创建 Pod（DESIRED 为 0）：其模板不容忍 {bases} 的污点 {taint}",
		"add {toleration} to spec.template.spec.tolerations; tolerations that the controller adds to Pods have no "+
			"effect on a DaemonSet",
		"在 spec.template.spec.tolerations 中加上 {toleration}；controller 为 Pod 加上的容忍对 DaemonSet 无效")
	msgDaemonSetWithoutBases = answer(DaemonSetWithoutBases,
		"{workload} creates no Pods (DESIRED is 0), because no base matches: {cause}",
		"{workload} 没有创建 Pod（DESIRED 为 0），因为没有满足要求的基座：{cause}",
		"{advice}", "{advice}")
	msgPeerNotFollowed = answer(PeerNotFollowed,
		"the replicas of {workload} should equal the number of matching bases, but are 0; matching bases: {bases}",
		"{workload} 的副本数应随基座增减，但仍为 0，而满足要求的基座有：{bases}",
		"check that a module controller of its environment is running, "+
			"without ENABLE_MODULE_DEPLOYMENT_CONTROLLER=false",
		"检查其环境中是否有 Module Controller 在运行，且 ENABLE_MODULE_DEPLOYMENT_CONTROLLER 不为 false")
	msgPeerWithoutBases = answer(PeerWithoutBases,
		"{workload} has 0 replicas, because no base matches: {cause}",
		"{workload} 的副本数随满足要求的基座增减，而这样的基座不存在：{cause}",
		"{advice}", "{advice}")
	msgPodsRefused = answer(PodsRefused,
		"Pods of {workload} are rejected: {message}",
		"{workload} 的 Pod 被拒绝：{message}",
		"correct the template, or ask the owner of the policy",
		"修改模板，或询问该策略的负责人")
	msgQuotaExceeded = answer(QuotaExceeded,
		"Pods of {workload} are rejected: {message}",
		"{workload} 的 Pod 被拒绝：{message}",
		"free resources in the quota, or increase it: kubectl get resourcequota -n {namespace}",
		"释放配额中的资源，或提高配额：kubectl get resourcequota -n {namespace}")
	msgOutdatedPodNotReady = answer(OutdatedPodNotReady,
		"Pod {pod} was created from an earlier template of StatefulSet {name}, and Kubernetes does not replace it "+
			"before it is Ready: {cause}",
		"Pod {pod} 由 StatefulSet {name} 的较早的模板创建，在它 Ready 之前 Kubernetes 不会替换它：{cause}",
		"kubectl delete pod {pod} -n {namespace}; Kubernetes creates it again from the current template",
		"kubectl delete pod {pod} -n {namespace}；Kubernetes 会用当前的模板重新创建它")
	msgPodNotReady = answer(PodNotReady,
		"{workload} has {ready} of {desired} Pods Ready; it waits for Pod {pod}: {cause}",
		"{workload} 的 {desired} 个 Pod 中有 {ready} 个 Ready；它在等待 Pod {pod}：{cause}",
		"{advice}", "{advice}")
	partPodReady    = text("1 Pod is Ready", "共有 1 个 Pod 为 Ready")
	partPodsReady   = text("{n} Pods are Ready", "共有 {n} 个 Pod 为 Ready")
	msgRolloutStuck = answer(RolloutStuck,
		"{workload} is being updated: {updated} of {desired} Pods have the new version; {ready} in total; the update "+
			"waits for Pod {pod}: {cause}",
		"{workload} 正在更新：{desired} 个 Pod 中有 {updated} 个是新版本；{ready}；更新在等待 Pod {pod}：{cause}",
		"{advice}", "{advice}")
	msgPodsNotCreatedYet = answer(PodsNotMade,
		"{workload} requests {pods}, but has {n}; it was created {age} ago",
		"{workload} 需要{pods}，现有 {n} 个；它创建于 {age} 之前",
		"run the command again in a few seconds",
		"数秒后重新运行本命令")
	msgPodsNotCreated = answer(PodsNotMade,
		"{workload} requests {pods}, but has {n}; neither its conditions nor its Events give a reason",
		"{workload} 需要{pods}，现有 {n} 个；其 condition 和 Event 都没有给出原因",
		"check the log of kube-controller-manager; in a sandbox: koupsandbox logs kube-controller-manager",
		"检查 kube-controller-manager 的日志；在沙箱中：koupsandbox logs kube-controller-manager")
)

// Messages about Nodes.
var (
	msgOrdinaryNode = answer(OrdinaryNode,
		"{node} is an ordinary Node, not a base: it does not have the label "+baseLabel,
		"{node} 是普通 Node，不是基座：它没有标签 "+baseLabel,
		"see: kubectl describe node {node}", "参见：kubectl describe node {node}")
	msgBaseCordoned = answer(BaseCordoned,
		"{base} is Ready and cordoned: it accepts no new Pods, and keeps its existing Pods",
		"{base} 为 Ready，且已 cordon：它不接受新的 Pod，保留现有的 Pod",
		"kubectl uncordon {node}", "kubectl uncordon {node}")
	msgMetaspacePressure = answer(MetaspacePressure,
		"{base} is Ready and has little metaspace left: {message}",
		"{base} 为 Ready，但剩余的 metaspace 很少：{message}",
		"uninstall modules, or start the base with a larger -XX:MaxMetaspaceSize "+
			"(in a sandbox: spec.bases[].metaspace.max)",
		"卸载模块，或以更大的 -XX:MaxMetaspaceSize（在沙箱中：spec.bases[].metaspace.max）启动基座")
	msgNodeReady = answer(NodeReady,
		"{base} has been Ready for {age}, since {since}{by}",
		"{base} 已 Ready {age}，自 {since} 起{by}", "", "")
	msgUnknown = answer(Unknown,
		"{target} is not Ready, and no rule explains it",
		"{target} 不是 Ready，没有规则能说明原因",
		"read the evidence, and the log of the module controller",
		"查看依据和 Module Controller 的日志")
)

// Texts that describe how a base compares with the requirements of a Pod.
var (
	fits = text("labels, taints, state and free resources fit the Pod", "标签、污点、状态和空闲资源都满足该 Pod 的要求")

	partTaintNotTolerated  = text("its taint {taint} is not tolerated", "其污点 {taint} 不被容忍")
	partCordonedAndLeaving = text("it is cordoned, and its Node is being deleted", "已 cordon，且其 Node 正在删除")
	partCordoned           = text("it is cordoned", "已 cordon")
	partNotReady           = text("it is not Ready", "不是 Ready")
	partNotReadyBecause    = text("it is not Ready: {message}", "不是 Ready：{message}")
	partNotReported        = text("it has not reported yet", "尚未上报")
	partFree               = text("{free} of {resource} are free, {amount} are requested",
		"{resource} 空闲 {free}，请求 {amount}")
	partLessFree = text("less {resource} is free than the requested {amount}",
		"{resource} 的空闲少于所请求的 {amount}")
	partNoLabel          = text("{requirement}, but it does not have this label", "{requirement}，而它没有该标签")
	partOtherLabel       = text("{requirement}, but it has {value}", "{requirement}，而它的值为 {value}")
	partSelectorRequires = text("the nodeSelector requires {expression}", "nodeSelector 要求 {expression}")
	partAffinityRequires = text("the affinity requires {expression}", "亲和性要求 {expression}")
	partTerm             = text("term {n} ({expressions})", "第 {n} 项（{expressions}）")
	partAnd              = text(" and ", " 且 ")
	partOr               = text(" or ", " 或 ")
	partOtherReasons     = text("and {n} other reasons", "以及其他 {n} 种原因")
	partBasesSuchAs      = text("{bases}, such as {base}: {state}", "{bases}，例如 {base}：{state}")
)

// Texts that occur in evidence.
var (
	partPods = text("Pods: {desired} desired, {total} existing, {updated} with the current template, {ready} Ready",
		"Pod：需要 {desired} 个，现有 {total} 个，使用当前模板的 {updated} 个，Ready 的 {ready} 个")
	partControllerRuns    = text("{controller} of environment {env} runs", "环境 {env} 的 {controller} 在运行")
	partControllerStopped = text("{controller} of environment {env} no longer renews its Lease",
		"环境 {env} 的 {controller} 不再续约其 Lease")
	partNode           = text("Node {node}", "Node {node}")
	partNodeServedBy   = text(", served by {controller}", "，由 {controller} 服务")
	partNoController   = text("no controller", "无 controller")
	partAllocatable    = text(", allocatable metaspace {free}", "，可分配的 metaspace {free}")
	partMemoryPressure = text("under memory pressure", "有内存压力")
	partReleasesLeft   = text(", releases left: {left}", "，剩余发布次数：{left}")
	partUnknown        = text("unknown", "未知")
	partUnlimited      = text("unlimited", "不限")
	partContainerRuns  = text("{container} runs", "{container} 在运行")
	partContainerWaits = text("{container} waits: {message}", "{container} 在等待：{message}")
	partContainerEnded = text("{container} ended: {message}", "{container} 已结束：{message}")
	partInstalledAgain = text(", installed again {n} times", "，已重新安装 {n} 次")
	partTimes          = text(" ({n} times)", "（{n} 次）")
)

// headings maps each group of evidence to its title. A group without an entry has its own name as its title.
var headings = map[string]language.Text{
	"bases": text("bases", "各基座"), "base": text("base", "基座"), "controllers": text("controllers", "controller 列表"),
	"conditions": text("conditions", "condition 列表"), "containers": text("containers", "容器"),
	"events": text("events", "事件"), "log": text("log", "日志"), "workload": text("workload", "工作负载"),
	"pods": text("pods", "Pod 列表"), "ignored": text("ignored", "被忽略的字段"), "unread": text("unread", "未能读取"),
}
