package lint

import (
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/language"
)

// args holds the values of the placeholders in a message and its fix.
type args = language.Args

// catalogue contains all messages and fixes of the package. Each has its own variable, except that the fix of a rule
// is in the table of rules.
var catalogue language.Catalogue

// text adds a text to the catalogue, with its English and Chinese version.
func text(en, zh string) language.Text { return catalogue.Text(en, zh) }

// quoted is a text that is printed untranslated, such as an error message from Kubernetes or the controller.
var quoted = text("{error}", "{error}")

// Messages about kinds and fields.
var (
	msgNoKindHere = text("the document at line {line} is not a Kubernetes object: it has no kind",
		"第 {line} 行的文档不是 Kubernetes 对象：没有 kind")
	msgNoKind        = text("the object has no kind", "该对象没有 kind")
	fixNoKind        = text("add its kind", "补上 kind")
	msgNoAPIVersion  = text("the object has no apiVersion", "该对象没有 apiVersion")
	fixNoAPIVersion  = text("add apiVersion: {apiVersion}", "补上 apiVersion: {apiVersion}")
	msgOldAPIVersion = text("no current API server serves {kind} in {old}", "现在的 API server 都不在 {old} 中提供 {kind}")
	fixOldAPIVersion = text("write apiVersion: {apiVersion}", "写 apiVersion: {apiVersion}")
	msgUnknownGroup  = text("the API group {group} does not exist: the group of a custom resource has a dot",
		"API 组 {group} 不存在：自定义资源的组名中有点")
	fixUnknownGroup = text("correct the apiVersion", "修改 apiVersion")
	msgUnknownKind  = text("{apiVersion} has no kind {kind}", "{apiVersion} 中没有 kind {kind}")
	fixDidYouMean   = text("did you mean {name}?", "是否想写 {name}？")
	fixTemplate     = text("render the template first, for example: helm template CHART | koupsandbox scenario lint -",
		"先渲染模板，例如：helm template CHART | koupsandbox scenario lint -")
	msgKustomization = text("the result of the Kustomization, and its patches", "该 Kustomization 的结果及其补丁")
	fixKustomization = text("render it first: kubectl kustomize DIRECTORY | koupsandbox scenario lint -",
		"先渲染：kubectl kustomize DIRECTORY | koupsandbox scenario lint -")
	msgNoPodTemplate = text("{kind} of {apiVersion} has no Pod template that can be read here",
		"{apiVersion} 的 {kind} 中没有此处能读取的 Pod 模板")
	msgItemsNoList  = text("items of a {kind} must be a list", "{kind} 的 items 必须是列表")
	msgItemNoObject = text("items[{i}] is not an object", "items[{i}] 不是对象")
	msgUnknownField = text("a {kind} has no field {field}, so kubectl apply rejects it",
		"{kind} 没有字段 {field}，kubectl apply 会拒绝它")
	fixUnknownField    = text("correct its name or its indentation", "修改其名称或缩进")
	msgUnreadableField = text("a field of the {kind} cannot be read: {error}", "{kind} 的某个字段无法读取：{error}")
	msgWrongType       = text("{field} of a {kind} must have the type {type}, but is {value}",
		"{kind} 的 {field} 的类型必须是 {type}，但实际是 {value}")
	msgPlaceholder = text("{field} is {value}, a placeholder that was not replaced", "{field} 是没有被替换的占位符 {value}")
	msgNotString   = text("YAML reads {field} as {value}, but the API requires a string there",
		"YAML 把 {field} 读作 {value}，而 API 在此要求字符串")
	fixNotString         = text("put the value in quotes", "给该值加上引号")
	msgNotQuantity       = text("{field} is {value}, which is not a quantity", "{field} 为 {value}，不是有效的数量")
	fixNotQuantity       = text("write a number with a unit such as Mi: 64Mi", "写带单位（如 Mi）的数：64Mi")
	msgInvalidName       = text("the API server rejects the name {name}", "API server 拒绝名称 {name}")
	fixInvalidName       = text("use lower-case letters, digits, '-' and '.'", "使用小写字母、数字、'-' 和 '.'")
	msgTemplateNamespace = text(
		"metadata.namespace of the template is ignored: the Pods are created in the namespace of the {kind}",
		"模板的 metadata.namespace 被忽略：Pod 创建在 {kind} 所在的 namespace 中")
	msgClaimTemplate = text(
		"Pod {name}-0 stays Pending until its claim {claim}-{name}-0 is bound to a volume, which a module cannot use",
		"在声明 {claim}-{name}-0 绑定到卷之前，Pod {name}-0 一直 Pending，而模块不能使用卷")
	msgLabelValue = text("{key}: {value} is not a valid label value, so the API server rejects the {kind}{hint}",
		"{key}: {value} 不是有效的标签值，API server 会拒绝该 {kind}{hint}")
	partDerivedLabel = text(
		"; the Node of a base of that version has another value, which the controller derives from it: "+
			"kubectl get nodes -L {key}",
		"；该版本的基座的 Node 带有另一个值，由 controller 从版本推导：kubectl get nodes -L {key}")
	msgCredentials = text(
		"the URL of the container {container} has a password or a signature, which every user who can "+
			"read Pods can read",
		"容器 {container} 的 URL 中有密码或签名，能读取 Pod 的用户都能读到")
)

// Messages about labels, selectors and containers of modules.
var (
	msgNoComponent = text(
		"its Pods look like modules, but do not have the label "+labels.Component+": "+labels.Module+
			", so the module controller ignores them",
		"其 Pod 看似模块，但没有标签 "+labels.Component+": "+labels.Module+"，因此 Module Controller 忽略它们")
	msgWrongComponent = text("the label component of its Pods is {value}, so the module controller ignores them",
		"其 Pod 的标签 component 为 {value}，因此 Module Controller 忽略它们")
	msgClaim = text("the Pods stay Pending until the claim is bound to a volume, which a module cannot use",
		"在声明绑定到卷之前，Pod 一直 Pending，而模块不能使用卷")
	msgUninstallsFirst = text(
		"each base uninstalls all versions of the module before it installs the new one, so requests that are sent "+
			"directly to the base fail in between",
		"每个基座先卸载该模块的所有版本，再安装新版本；其间直接发往该基座的请求失败")
	msgIgnored    = text("{field} is ignored: {error}", "{field} 被忽略：{error}")
	msgOlderLabel = text(
		"the label {key} has the prefix of the older Koupleless documentation; ModuleController V2 watches "+
			"{current} only",
		"标签 {key} 使用旧文档的前缀；ModuleController V2 只关注 {current}")
	msgNoSelector       = text("it has no selector, so the API server rejects it", "它没有 selector，API server 会拒绝它")
	msgSelectorMismatch = text(
		"the selector requires {key}: {want}, but the template {has}, so the API server rejects it",
		"selector 要求 {key}: {want}，而模板{has}，API server 会拒绝它")
	partNoSuchLabel        = text("has no such label", "没有该标签")
	partHasValue           = text("has {value}", "的值为 {value}")
	msgSelectorUnreadable  = text("the selector cannot be read: {error}", "selector 无法读取：{error}")
	msgExpressionsMismatch = text(
		"the expressions of the selector do not match the labels of the template, so the API server rejects it",
		"selector 的表达式与模板的标签不匹配，API server 会拒绝它")
	msgSelectorVersion = text(
		"the selector contains the module version ({key}: {value}); a selector cannot be changed, so the API "+
			"server rejects a release of another version",
		"selector 含有模块的版本 {key}: {value}，而 selector 不能修改，因此发布另一个版本会被拒绝")
	msgContainerName = text("the API server rejects the container name {name}; it is the name of the module",
		"API server 拒绝容器名 {name}；它也是模块名")
	fixContainerName = text("use lower-case letters, digits and '-', here and in the jar",
		"在此处和 jar 中使用小写字母、数字和 '-'")
	msgNoJar = text(
		"the image of the container {container} does not contain .jar: ModuleController V2 ignores such a "+
			"container, and "+
			"the bundled controller treats it as a module",
		"容器 {container} 的 image 中没有 .jar：ModuleController V2 忽略这样的容器，自带的 controller 把它当作模块")
	msgJarName = text("BIZ_VERSION is {version}, but the name of the jar is {name}",
		"BIZ_VERSION 为 {version}，而 jar 名为 {name}")
	msgVersionTwice = text("the container {container} sets BIZ_VERSION twice; Kubernetes uses the last one",
		"容器 {container} 设置了两次 BIZ_VERSION；Kubernetes 使用最后一个")
	msgVersionPerPod = text("BIZ_VERSION is the {field} of the Pod, so each Pod requests a different version",
		"BIZ_VERSION 取自 Pod 的 {field}，因此每个 Pod 要求的版本都不同")
	msgVersionNotExpanded = text(
		"BIZ_VERSION of container {container} is {version}: the variable is not set before BIZ_VERSION in env, so "+
			"Kubernetes does not replace it",
		"容器 {container} 的 BIZ_VERSION 为 {version}：env 中在 BIZ_VERSION 之前没有设置该变量，Kubernetes 不会替换它")
	fixVersionNotExpanded = text("set the variable first", "先设置该变量")
	msgReleasedTwice      = text(
		"{module} {version} has the jar {image} here, but {other} in {object}: a base uninstalls one jar "+
			"before it installs the other{hint}",
		`{module} {version} 在此处是 jar "{image}"，在 {object} 中是 "{other}"：已安装其中之一的基座先卸载它，再安装另一个{hint}`)
	partQueryDiffers = text(
		"; only the query of the URLs differs: keep the query unchanged while the jar is unchanged",
		"；URL 仅查询参数不同：jar 不变时请保持查询参数不变")
	msgUncheckedSelector = text("whether the selector {selector} matches Pods that {object} may create",
		"selector {selector} 是否匹配 Pod：{object} 可能会创建它们")
	msgNoEndpoints = text("the selector {selector} matches no Pods of these workloads, so the Service has no endpoints",
		"selector {selector} 不匹配这些工作负载的任何 Pod，因此该 Service 没有端点")
	msgUncheckedEnvironment = text("whether {environments} is the intended environment", "{environments} 是否为预期的环境")
	fixUncheckedEnvironment = text("set the intended environment with --env", "用 --env 指定预期的环境")
)

// Messages about the placement of Pods on bases.
var (
	msgAnyBase = text("the Pods select no bases, so the module is installed on any base, of any name and version",
		"这些 Pod 没有选择基座，因此模块会安装到任意名称和版本的基座上")
	msgSpreadKeyUnknown = text("no base has the label {key}, so {effect}", "没有基座带有标签 {key}，因此{effect}")
	partNoEffect        = text("the constraint has no effect", "该约束无效")
	partPodsPending     = text("the Pods stay Pending", "这些 Pod 一直 Pending")
	msgClusterName      = text(
		"only bases that report the cluster name default fit; bases of a sandbox report the name of the sandbox",
		"只有上报集群名 default 的基座满足要求；沙箱的基座上报沙箱的名称")
	msgTolerationOperator = text(
		"the operator {operator} of a toleration does not exist, so the API server rejects the {kind}",
		"容忍的 operator {operator} 不存在，API server 会拒绝该 {kind}")
	fixTolerationOperator = text("use Equal or Exists", "使用 Equal 或 Exists")
	msgTolerationValue    = text(
		"a toleration with the operator Exists has no value, so the API server rejects the {kind}",
		"operator 为 Exists 的容忍不能有 value，API server 会拒绝该 {kind}")
	fixTolerationValue = text("remove the value, or use the operator Equal", "去掉 value，或使用 operator Equal")
	msgVirtualNode     = text(
		"the taint "+labels.TaintVirtualNode+"=True:NoExecute of every base is not tolerated, so the Pods stay Pending",
		"不容忍每个基座都有的污点 "+labels.TaintVirtualNode+"=True:NoExecute，因此这些 Pod 一直 Pending")
	msgDaemonSetEnvironment = text(
		"the taint "+labels.TaintEnv+" of every base is not tolerated: a DaemonSet creates Pods by its template only, "+
			"so it creates none; tolerations that the controller adds to Pods have no effect",
		"不容忍每个基座都有的污点 "+labels.TaintEnv+"：DaemonSet 只按其模板创建 Pod，因此一个也不创建；controller 为 Pod 加上的容忍无效")
	msgEnvironment = text(
		"the taint "+labels.TaintEnv+" of every base is not tolerated: the bundled controller adds the toleration of "+
			"its environment; ModuleController V2 does not, so the Pods stay Pending",
		"不容忍每个基座都有的污点 "+labels.TaintEnv+"：自带的 controller 会加上其环境的容忍；ModuleController V2 不会，因此这些 Pod 一直 Pending")
	msgEnvironmentEffect = text(
		"the toleration of "+labels.TaintEnv+" does not have the effect NoExecute, so the Pods stay Pending; the "+
			"bundled controller adds no other one",
		"对 "+labels.TaintEnv+" 的容忍，其 effect 不是 NoExecute，因此这些 Pod 一直 Pending；自带的 controller 不会加上另一个容忍")
	msgOtherEnvironment = text("it tolerates only bases of another environment, not of {env}",
		"它只容忍其他环境的基座，不容忍 {env} 的")
	msgOlderNodeLabel = text(
		"{key} is the label of older module controllers; newer ones use base.koupleless.io/{name}",
		"{key} 是旧的 Module Controller 的标签；新的使用 base.koupleless.io/{name}")
	msgUnknownNodeLabel = text("no base has the label {key}, so the Pods stay Pending; the bases' labels are {labels}",
		"没有基座带有标签 {key}，因此这些 Pod 一直 Pending；基座的标签有 {labels}")
	msgForeignNodeLabel = text(
		"{key} is not a label that the module controller writes to the Nodes of bases: unless you label "+
			"them, the Pods "+
			"stay Pending",
		"Module Controller 不会给基座的 Node 写标签 {key}：除非自行加上，否则这些 Pod 一直 Pending")
	msgZone = text(
		"spreading over {key} has no effect on Nodes without that label: ModuleController V2 does not set it, and "+
			"the bundled "+
			"controller gives each base its own zone",
		"Node 没有标签 {key} 时，它不起分散作用：ModuleController V2 不设置该标签，自带的 controller 给每个基座各自的 zone")
	msgSpreadsNothing = text("no base has the label {key}, so this constraint has no effect", "没有基座带有标签 {key}，因此不起分散作用")
	msgSharedKey      = text("many bases share a value of {key}, so this allows a Pod on only one of them",
		"许多基座的 {key} 值相同，因此只有其中一个能有 Pod")
	msgOtherPods = text("the selector {selector} does not match the labels of the Pods, so it does not keep them apart",
		"selector {selector} 与这些 Pod 的标签不匹配，因此不会把它们分开")
	msgDaemonSetOnBases = text(
		"it tolerates the taints of bases, so it creates a Pod on every base; a base runs only modules, so these Pods "+
			"keep the status NotAModule",
		"它容忍基座的污点，会在每个基座上创建 Pod；基座只运行模块，因此这些 Pod 的状态一直是 NotAModule")
	msgLiveUnready    = text("it exists in the cluster, and is not Ready: {error}", "它已存在于集群中，但不是 Ready：{error}")
	msgLiveUnreadable = text("the object in the cluster cannot be read: {error}", "无法读取集群中的对象：{error}")
)

// Messages about updates of workloads.
var (
	msgUnknownUpdate      = text("how a {kind} of {apiVersion} replaces its Pods", "{apiVersion} 的 {kind} 如何替换其 Pod")
	msgStatefulSetUpdates = text(
		"a StatefulSet deletes a Pod before it creates the next one, so a base is without the module "+
			"during each update",
		"StatefulSet 先删除 Pod 再创建下一个，因此每次更新期间基座上都有一段时间没有该模块")
	msgPeerStrategy = text(
		"it has the label component: module-deployment, but not strategy: peer, so its replicas do not follow the "+
			"number of bases",
		"它带有标签 component: module-deployment，但没有 strategy: peer，因此其副本数不随基座数增减")
	msgRecreate = text(
		"Recreate deletes all Pods before it creates new ones, so every base is without the module during an update",
		"Recreate 先删除所有 Pod 再创建新的，因此更新期间所有基座上都没有该模块")
	msgNoSurge = text("maxSurge and maxUnavailable are both 0, so the API server rejects the Deployment",
		"maxSurge 和 maxUnavailable 都为 0，API server 会拒绝该 Deployment")
	fixNoSurge        = text("set maxSurge to 1 or more", "把 maxSurge 设为 1 或更大")
	msgMaxUnavailable = text("maxUnavailable is {value}, which is neither a number nor a percentage",
		"maxUnavailable 为 {value}，既不是数也不是百分比")
	msgDeletesFirst = text(
		"maxUnavailable is {value}: an update may delete old Pods before new ones are Ready, so some bases may be "+
			"without the module for a while",
		"maxUnavailable 为 {value}：更新可能在新 Pod Ready 之前删除老 Pod，因此某些基座上会暂时没有该模块")
	msgDeletesFirstLater = text(
		"maxUnavailable is {value}: with more replicas than now ({replicas}), an update deletes old Pods before new "+
			"ones are Ready",
		"maxUnavailable 为 {value}：副本数多于现在的 {replicas} 时，更新会在新 Pod Ready 之前删除老 Pod")
	msgOnDelete = text(
		"OnDelete creates a Pod only after the old one was deleted, so a base is without the module in between",
		"OnDelete 在老 Pod 被删除之后才创建新的，其间基座上没有该模块")
	msgNoMaxSurge = text(
		"without maxSurge a DaemonSet deletes the old Pod of a base before it creates the new one, so the base is "+
			"without the module in between",
		"没有 maxSurge 时，DaemonSet 先删除基座的老 Pod 再创建新的，其间基座上没有该模块")
)
