package lint

import (
	"slices"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/internal/language"
)

// Rule describes one of the rules of Lint.
type Rule struct {
	// ID is the name of the rule.
	ID string `json:"id"`
	// Level is the default level of the findings of the rule. A single finding can have a lower level.
	Level Level `json:"level"`
	// Title states the requirement of the rule in one sentence.
	Title string `json:"title"`
	// Explanation states the reason for the rule, and the effect of a violation.
	Explanation string `json:"explanation"`
	// Fix describes how to fix a violation, without a full stop.
	Fix string `json:"fix"`
}

// Rules returns all rules in English, sorted by ID.
func Rules() []Rule {
	all := make([]Rule, len(rules))
	for i, r := range rules {
		all[i] = Rule{r.id, r.level, r.title, r.explanation, r.fix.EN}
	}
	return all
}

// rule is a Rule whose fix is available in all languages.
type rule struct {
	id                 string
	level              Level
	title, explanation string
	fix                language.Text
}

func ruleOf(id string) rule {
	i, found := slices.BinarySearchFunc(rules, id, func(r rule, id string) int { return strings.Compare(r.id, id) })
	if !found {
		panic("lint: unknown rule " + id) // programming error
	}
	return rules[i]
}

// rules lists all rules, sorted by ID.
var rules = []rule{
	{"affinity-missing", Warning, "A module Pod selects its bases",
		"The scheduler puts a Pod on any Node whose taints it tolerates. A base of another\nname or version may not " +
			"be able to run the module. The Koupleless module release\ndocument requires a node affinity for the " +
			"base name and version.",
		text("select bases by base.koupleless.io/name and base.koupleless.io/version, with nodeAffinity "+
			"or nodeSelector",
			"用 nodeAffinity 或 nodeSelector 按 base.koupleless.io/name 和 base.koupleless.io/version 选择基座")},
	{"anti-affinity-other", Warning, "An anti-affinity that spreads a workload matches the Pods of that workload",
		"An anti-affinity keeps Pods away from the Pods that its selector matches. If it does\nnot match the Pods " +
			"themselves, two of them may run on one base.",
		text("use labels of the template in the selector",
			"在 selector 中使用模板的标签")},
	{"claims", Error, "A module Pod has no persistent volume claims",
		"A module sees the files of its base, so it cannot use a volume. But the scheduler\nkeeps the Pod Pending " +
			"until each claim is bound. In a sandbox nothing binds claims.",
		text("remove the claim; volumeClaimTemplates of a StatefulSet cannot be changed, so delete and create it again",
			"去掉该声明；StatefulSet 的 volumeClaimTemplates 不能修改，需要删除并重新创建它")},
	{"cluster-name", Warning, "base.koupleless.io/cluster-name is the cluster name of the bases",
		"Each base reports the name of its cluster. Examples in the Koupleless\ndocumentation select default. In a " +
			"sandbox the default is the name of the sandbox; spec.bases[].clusterName sets it.",
		text("write the cluster name of your bases, leave the label out, or set spec.bases[].clusterName: default",
			"写自己的基座的集群名，去掉该标签，或设置 spec.bases[].clusterName: default")},
	{"component-missing", Error, "Module Pods have the label virtual-kubelet.koupleless.io/component: module",
		"The module controller manages only Pods with this label. Other Pods that are bound\nto the Node of a " +
			"base stay Pending.",
		text("label the Pod, or the template's metadata, virtual-kubelet.koupleless.io/component: module",
			"给该 Pod 或模板的 metadata 加上标签 virtual-kubelet.koupleless.io/component: module")},
	{"daemonset-deletes-first", Warning, "A module DaemonSet sets maxSurge",
		"By default a DaemonSet deletes the old Pod of a Node, and then creates the new one.\nThe old version is " +
			"uninstalled before the new one is installed. Requests to that base\nfail in between, even if the " +
			"Service sends none there, because base applications call\nmodules directly.",
		text("set updateStrategy.rollingUpdate to maxSurge: 1, maxUnavailable: 0, or use a peer Deployment, unless "+
			"the versions of a web module share a context path",
			"把 updateStrategy.rollingUpdate 设为 maxSurge: 1、maxUnavailable: 0，或使用对等 Deployment；"+
				"各版本的 web context path 相同的 Web 模块除外")},
	{"daemonset-on-bases", Warning, "An ordinary DaemonSet excludes base Nodes",
		"A DaemonSet that tolerates everything, such as an agent for logs or metrics, also gets\na Pod on the Node " +
			"of each base. A base runs only modules, so the Pod never runs and\nthe rollout of the " +
			"DaemonSet never ends.",
		text("add a required node affinity: virtual-kubelet.koupleless.io/component NotIn [vnode]",
			"加上必需的节点亲和性：virtual-kubelet.koupleless.io/component NotIn [vnode]")},
	{"daemonset-toleration-env", Error, "The template of a DaemonSet tolerates schedule.koupleless.io/node-env",
		"The DaemonSet controller creates a Pod for each Node whose taints the template\ntolerates. Tolerations that " +
			"a module controller adds to Pods have no effect on it.\nWithout this toleration, DESIRED stays 0, " +
			"and Kubernetes\nreports no reason.",
		text("tolerate schedule.koupleless.io/node-env with the value of your environment and the effect NoExecute",
			"容忍 schedule.koupleless.io/node-env，值为自己的环境，effect 为 NoExecute")},
	{"deletes-first", Warning, "A rolling update creates new Pods before it deletes old Pods",
		"With maxUnavailable above 0, Kubernetes may delete old Pods before their successors\nare Ready. Their bases " +
			"are then without the module. With 0, no old Pod is deleted before a\nnew one is Ready. Percentages " +
			"are rounded down.",
		text("set strategy.rollingUpdate.maxUnavailable to 0, and maxSurge to 1 or more, unless the versions of a "+
			"web module share a context path",
			"把 strategy.rollingUpdate.maxUnavailable 设为 0，maxSurge 设为 1 或更大；"+
				"各版本的 web context path 相同的 Web 模块除外")},
	{"image-no-jar", Error, "The image of a module's container is the URL of a jar",
		"A base fetches the module from this URL: file://, http:// or https://. The path may have\nany form, but " +
			"ModuleController V2 ignores containers whose image does not contain\n.jar.",
		text("set the image to the URL of the jar, such as https://host/biz1-1.0.0-ark-biz.jar",
			"填写 jar 的 URL，例如 https://host/biz1-1.0.0-ark-biz.jar")},
	{"install-strategy", Error, "The install strategy is installOnly; uninstallThenInstall is only a warning",
		"A base rejects a second version of a web module with the same web context path\n(\"Child name [...] is not " +
			"unique\"). There are three ways to release it: a path for each\nversion; deleting the old Pod first (a " +
			"DaemonSet without maxSurge, or a Deployment with\nstrategy Recreate, or with maxSurge: 0 and a " +
			"required Pod anti-affinity per host between\nall versions); or the annotation " +
			"module.koupleless.io/install-strategy:\nuninstallThenInstall. With the last two, a base is without " +
			"the module until the new\nversion is installed. If that fails, the old version is not installed " +
			"again. This is a\nwarning; an unknown strategy is an error.",
		text("remove the annotation, unless the versions of a web module must share a web context path",
			"去掉该 annotation，除非 Web 模块的各版本必须使用相同的 web context path")},
	{"job-never-ends", Warning, "Modules do not run as Jobs",
		"A module runs until it is uninstalled. Its Pod never completes, so a Job never ends,\nand a CronJob creates " +
			"another Pod each time.",
		text("use a Deployment, and let the module end its own work",
			"使用 Deployment，由模块自行结束其工作")},
	{"kind-unknown", Error, "The kind and the apiVersion of each object exist",
		"The API server does not know a misspelt kind, and no longer serves kinds such as\nDeployment in " +
			"extensions/v1beta1. Custom resources have a group with a dot in it; their\nkinds are not checked.",
		text("correct the kind or the apiVersion",
			"修改 kind 或 apiVersion")},
	{"label-older", Warning, "Labels have the prefix virtual-kubelet.koupleless.io/",
		"The operations guide uses module-controller.koupleless.io/component. The principle\ndocuments and " +
			"ModuleController V2 use virtual-kubelet.koupleless.io/component. ModuleController V2\nignores Pods with " +
			"the former. The bundled controller accepts both.",
		text("use the prefix virtual-kubelet.koupleless.io/",
			"使用前缀 virtual-kubelet.koupleless.io/")},
	{"label-value", Error, "A label value has at most 63 letters, digits, '-', '_' and '.'",
		"A version such as 1.0.0+7 is not a label value. The API server rejects an object that\nhas such a value as " +
			"a label, in a selector or in a nodeSelector. The controller labels the\nNode of a base of that version " +
			"with a value derived from the version.",
		text("use a valid value",
			"使用有效的值")},
	{"live-nowhere", Error, "At least one base of the cluster can run the Pods",
		"With --live, lint compares each Pod or template with the Nodes of the cluster, as the\nscheduler does: " +
			"labels, taints, state and free metaspace. Lint ignores the existing Pods of\nthe workload. If no base " +
			"fits, the Pods stay Pending.",
		text("follow the advice of the finding, or start a base that fits",
			"按该结果的建议处理，或启动满足要求的基座")},
	{"live-unready", Warning, "Existing objects are Ready",
		"With --live lint looks for an object of the same kind, namespace and name in the\ncluster. If it is not " +
			"Ready, the finding gives the reason, as koupsandbox why does. The\nmanifest may be the fix.",
		text("follow the advice of the finding; koupsandbox why KIND/NAME shows the evidence",
			"按该结果的建议处理；koupsandbox why KIND/NAME 显示依据")},
	{"node-label-older", Warning, "Pods select bases by base.koupleless.io/name and base.koupleless.io/version",
		"Older module controllers labelled Nodes vnode.koupleless.io/name and /version, newer\nones " +
			"base.koupleless.io/name and /version. The bundled controller sets both.",
		text("use base.koupleless.io/name and base.koupleless.io/version",
			"使用 base.koupleless.io/name 和 base.koupleless.io/version")},
	{"node-label-unknown", Error, "Node selectors and affinities use only labels that bases have",
		"A required affinity on a label that no Node has leaves the Pods Pending.",
		text("select by base.koupleless.io/name, base.koupleless.io/version or another label of bases",
			"按 base.koupleless.io/name、base.koupleless.io/version 或基座的其他标签选择")},
	{"not-checked", Info, "Lint can check every object",
		"The level is info: the exit status does not change. Lint reads the Pod templates of all\nkinds, at any " +
			"depth. It does not know how custom resources replace their Pods, and\nreports custom resources in which " +
			"it finds no Pod template.",
		text("check the object by other means",
			"用其他方法检查该对象")},
	{"peer-strategy", Warning, "A peer Deployment has the label strategy: peer",
		"The controller sets the replicas of a Deployment to the number of bases if it has\nboth " +
			"virtual-kubelet.koupleless.io/component: module-deployment and\nvirtual-kubelet.koupleless.io/strategy: " +
			"peer. The operations guide shows the first only.",
		text("label the Deployment virtual-kubelet.koupleless.io/strategy: peer",
			"给该 Deployment 加上标签 virtual-kubelet.koupleless.io/strategy: peer")},
	{"placeholder", Error, "All placeholders are replaced",
		"{version}, ${VERSION}, {{ .Values.version }}, <version> and TO_BE_IMPLEMENTED stand for a\nvalue. " +
			"Kubernetes replaces only $(NAME), in the env of a container.",
		text("write the value, or render the template first",
			"写入该值，或先渲染模板")},
	{"selector-mismatch", Error, "The selector of a workload matches the labels of its template",
		"The API server rejects a workload that does not select its own Pods. The Deployment\nof the module release " +
			"document is an example: it selects app: test-module-deployment, and its\nPods have the label app: " +
			"test-module-deployment-non-peer.",
		text("make the selector and the template's labels the same",
			"使 selector 与模板的标签一致")},
	{"selector-version", Warning, "A selector does not contain the version of the module",
		"A selector cannot be changed. A release that changes the version in the template's\nlabels is then refused " +
			"by the API server.",
		text("select by the module's name only",
			"只按模块名选择")},
	{"service-selects-nothing", Warning, "The selector of a Service matches Pods",
		"A Service whose selector matches no Pods has no endpoints, and every request to it fails.\nThe rule applies " +
			"only if the manifests have modules. The Pods of the Service may be\ndefined in other manifests.",
		text("use labels of a template in the same namespace",
			"使用同一 namespace 中模板的标签")},
	{"shape", Error, "An object has only valid fields for its kind",
		"A field does not exist, has a value of the wrong type, or a value that Kubernetes does\nnot accept, such as " +
			"a container name with capital letters. The API server rejects it.",
		text("correct the value; see kubectl explain",
			"修改该值；参见 kubectl explain")},
	{"statefulset-deletes-first", Warning,
		"Modules do not run as StatefulSets, unless each update may interrupt the module",
		"A StatefulSet has no surge: it deletes a Pod, waits until it has terminated, and\ncreates the " +
			"next. Its base is " +
			"without the module in between.",
		text("use a Deployment with maxUnavailable: 0",
			"使用 maxUnavailable: 0 的 Deployment")},
	{"template-namespace", Warning, "A Pod template has no namespace",
		"Kubernetes ignores the namespace in the metadata of a Pod template.",
		text("set the namespace in the metadata of the workload",
			"在工作负载的 metadata 中设置 namespace")},
	{"toleration-env", Warning, "Module Pods tolerate schedule.koupleless.io/node-env",
		"The Node of every base has the taints schedule.koupleless.io/virtual-node=True " +
			"and\nschedule.koupleless.io/node-env=ENV, both NoExecute. The examples of the module\nrelease document " +
			"and of the operations guide tolerate only the first, so their Pods\nare not scheduled. The bundled " +
			"controller adds the toleration of its environment to a\nPod without one, unless " +
			"LEAVE_POD_TOLERATIONS is set; ModuleController V2 does not. A toleration\nwith another effect than " +
			"NoExecute is an error.",
		text("tolerate schedule.koupleless.io/node-env with the value of your environment and the effect NoExecute",
			"容忍 schedule.koupleless.io/node-env，值为自己的环境，effect 为 NoExecute")},
	{"toleration-other-env", Error, "Module Pods tolerate the taint of their own environment",
		"Bases of an environment have the taint schedule.koupleless.io/node-env=ENV. In an\nexample of the " +
			"Koupleless documentation, the Pod tolerates the environment test, but the\nNode belongs to dev.",
		text("tolerate the taint of that environment, or set --env and spec.env to your environment",
			"容忍该环境，或把 --env 和 spec.env 设为自己的环境")},
	{"toleration-virtual-node", Error, "Module Pods tolerate schedule.koupleless.io/virtual-node",
		"The Node of every base has this taint, to keep ordinary Pods away.",
		text("tolerate schedule.koupleless.io/virtual-node, operator Equal, value \"True\", effect NoExecute",
			"容忍 schedule.koupleless.io/virtual-node，operator 为 Equal，值为 \"True\"，effect 为 NoExecute")},
	{"topology-unknown", Error, "The topology key that spreads modules is a label of bases",
		"A term has no effect on Nodes without the topology key, so it does not spread\nthe Pods.",
		text("use kubernetes.io/hostname, which differs from base to base",
			"使用 kubernetes.io/hostname，每个基座的值都不同")},
	{"topology-zone", Warning, "The topology key that spreads modules is kubernetes.io/hostname",
		"The operations guide spreads modules over topology.kubernetes.io/zone. Nodes of\nModuleController V2 do not " +
			"have that label, so it spreads nothing. The bundled\ncontroller gives each base its own zone.",
		text("use kubernetes.io/hostname, which the Node of every base has",
			"使用 kubernetes.io/hostname，每个基座的 Node 都带有它")},
	{"unsupported", Warning, "A module Pod uses only fields that have an effect on a base",
		"A module is not a container: it is classes in the JVM of its base. Most fields of a\ncontainer have no " +
			"effect. The bundled controller records one Event of the Pod about\nthem.",
		text("remove the field, or implement it in the base or in the module",
			"去掉该字段，或在基座或模块中自行实现")},
	{"url-credentials", Warning, "The URL of a jar contains no credentials",
		"The URL is part of the Pod, so every user who can read Pods can read it. This project\nreplaces passwords " +
			"and the values of query parameters in logs, Events and reports.",
		text("let the bases authenticate, for example by their network or a settings file",
			"让基座自行认证，例如通过其网络或 settings 文件")},
	{"version-again", Error, "Each version of a module has only one jar",
		"A base refuses to install a version again from another jar. The bundled\ncontroller therefore uninstalls " +
			"the version first (Event SameVersionReplaced), one base\nafter the other, and each base is without the " +
			"module in between. To replace a\nmodule without a gap, change the version.",
		text("give the new jar its own version",
			"为新的 jar 使用新的版本")},
	{"version-differs", Warning, "BIZ_VERSION is the version in the jar's name",
		"A base identifies a module by the version in its jar. If BIZ_VERSION is another version,\nthe controller " +
			"waits for a version that is never installed.",
		text("set BIZ_VERSION to the version in the jar",
			"把 BIZ_VERSION 设为构建该 jar 的版本")},
	{"version-invalid", Error, "BIZ_VERSION is a version that the controller can read",
		"The controller evaluates BIZ_VERSION as a kubelet does: $(NAME) refers to a variable\nthat precedes it. It " +
			"reads plain values, metadata of the Pod and ConfigMaps, but no\nSecrets. A version has no spaces and at " +
			"most 256 bytes.",
		text("write a plain value, a fieldRef to a label or an annotation, or a configMapKeyRef",
			"使用普通值、指向标签或 annotation 的 fieldRef，或 configMapKeyRef")},
	{"version-missing", Error, "A module container sets BIZ_VERSION",
		"The container's name is the module's name, BIZ_VERSION its version. Without a version\nthe module " +
			"cannot be installed.",
		text("set the environment variable BIZ_VERSION",
			"设置环境变量 BIZ_VERSION")},
	{"version-twice", Warning, "BIZ_VERSION is set once",
		"If a variable is set several times, Kubernetes uses the last value. kubectl apply only\nwarns; server-side " +
			"apply refuses the object.",
		text("remove one of them",
			"去掉其中一个")},
	{"yaml", Error, "The file is valid YAML",
		"A file that cannot be parsed cannot be applied.",
		text("correct the text",
			"修改该文本")},
}
