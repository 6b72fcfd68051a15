package lint

import (
	"slices"
	"strings"
)

// Rule is a rule of Lint.
type Rule struct {
	// ID is the name of the rule.
	ID string `json:"id"`
	// Level is the level of its findings. A rule may lower it for single findings.
	Level Level `json:"level"`
	// Title states the requirement in one sentence.
	Title string `json:"title"`
	// Explanation states the reason, and the effect of a violation.
	Explanation string `json:"explanation"`
	// Fix states what to do, without a full stop.
	Fix string `json:"fix"`
}

// Rules returns all rules, sorted by ID.
func Rules() []Rule { return slices.Clone(rules) }

func ruleOf(id string) Rule {
	i, found := slices.BinarySearchFunc(rules, id, func(r Rule, id string) int { return strings.Compare(r.ID, id) })
	if !found {
		panic("lint: there is no rule " + id) // a mistake of this package
	}
	return rules[i]
}

// rules are sorted by ID.
var rules = []Rule{
	{"affinity-missing", Warning, "A module selects its bases",
		"The scheduler puts a Pod on any Node whose taints it tolerates. A base of another\nname or version may not " +
			"be able to run the module. The module release document\nrequires the affinity.",
		"select bases by base.koupleless.io/name and base.koupleless.io/version, with nodeAffinity or nodeSelector"},
	{"anti-affinity-other", Warning, "An anti-affinity that spreads a workload selects the Pods of the workload",
		"An anti-affinity keeps Pods away from the Pods that its selector matches. If it does\nnot match the Pods " +
			"themselves, two of them may run on one base.",
		"use labels of the template in the selector"},
	{"claims", Error, "A module Pod has no persistent volume claims",
		"A module sees the files of its base, so it cannot use a volume. But the scheduler\nkeeps the Pod Pending " +
			"until each claim is bound. In a sandbox nothing binds claims.",
		"remove the claim; volumeClaimTemplates of a StatefulSet cannot be changed, so delete and create it again"},
	{"cluster-name", Warning, "base.koupleless.io/cluster-name is the cluster name of the bases",
		"Each base reports the name of its cluster. Examples in the Koupleless\ndocumentation select default. In a " +
			"sandbox the default is the name of the sandbox; spec.bases.clusterName sets it.",
		"write the cluster name of your bases, leave the label out, or set spec.bases.clusterName: default"},
	{"component-missing", Error, "Module Pods have the label virtual-kubelet.koupleless.io/component: module",
		"The module controller manages only Pods with this label. Other Pods that are bound\nto the Node of a " +
			"base stay Pending.",
		"label the Pod, or the template's metadata, virtual-kubelet.koupleless.io/component: module"},
	{"daemonset-deletes-first", Warning, "A DaemonSet of modules has maxSurge",
		"By default a DaemonSet deletes the old Pod of a Node, and then creates the new one.\nThe old version is " +
			"uninstalled before the new one is installed. Requests to that base\nfail in between, even if the " +
			"Service sends none there, because base applications call\nmodules directly.",
		"set updateStrategy.rollingUpdate to maxSurge: 1, maxUnavailable: 0, or use a peer Deployment"},
	{"daemonset-on-bases", Warning, "A DaemonSet that has no modules stays off bases",
		"A DaemonSet that tolerates everything, such as an agent for logs or metrics, also gets\na Pod on the Node " +
			"of each base. A base runs only modules, so the Pod never runs and\nthe rollout of the " +
			"DaemonSet never ends.",
		"add a required node affinity: virtual-kubelet.koupleless.io/component NotIn [vnode]"},
	{"daemonset-toleration-env", Error, "The template of a DaemonSet tolerates schedule.koupleless.io/node-env",
		"The DaemonSet controller creates a Pod for each Node whose taints the template\ntolerates. Tolerations that " +
			"a module controller adds to Pods have no effect on it.\nWithout this toleration, DESIRED stays 0, " +
			"without a message.",
		"tolerate schedule.koupleless.io/node-env with the value of your environment and the effect NoExecute"},
	{"deletes-first", Warning, "A rolling update creates new Pods before it deletes old ones",
		"With maxUnavailable above 0, Kubernetes may delete old Pods before their successors\nare Ready. Their bases " +
			"are then without the module. With 0, no old Pod is deleted before a\nnew one is Ready. Percentages " +
			"are rounded down.",
		"set strategy.rollingUpdate.maxUnavailable to 0, and maxSurge to 1 or more"},
	{"image-no-jar", Error, "The image of a module's container is the URL of a jar",
		"A base fetches the module from this URL: file://, http:// or https://. The path may have\nany form, but " +
			"ModuleController V2 ignores containers whose image does not contain\n.jar.",
		"give the URL of the jar, such as https://host/biz1-1.0.0-ark-biz.jar"},
	{"job-never-ends", Warning, "Modules are not Jobs",
		"A module runs until it is uninstalled. Its Pod never completes, so a Job never ends,\nand a CronJob creates " +
			"another Pod each time.",
		"use a Deployment, and let the module end its own work"},
	{"kind-unknown", Error, "The kind and the apiVersion of an object exist",
		"The API server does not know a misspelt kind, and no longer serves kinds such as\nDeployment in " +
			"extensions/v1beta1. Custom resources have a group with a dot in it; their\nkinds are not checked.",
		"correct the kind or the apiVersion"},
	{"label-older", Warning, "Labels have the prefix virtual-kubelet.koupleless.io/",
		"The operations guide writes module-controller.koupleless.io/component, the principle\ndocuments and " +
			"ModuleController V2 virtual-kubelet.koupleless.io/component. ModuleController V2\nignores Pods with the " +
			"former. The bundled controller accepts both.",
		"use the prefix virtual-kubelet.koupleless.io/"},
	{"label-value", Error, "A label value has at most 63 letters, digits, '-', '_' and '.'",
		"A version such as 1.0.0+7 is not a label value. The API server refuses an object that\nhas such a value as " +
			"a label, in a selector or in a nodeSelector. The controller labels the\nNode of a base of that version " +
			"with a value derived from the version.",
		"use a valid value"},
	{"live-nowhere", Error, "A base of the cluster takes the Pods",
		"With --live the Nodes of the cluster are compared with each Pod or template as its\nscheduler would: " +
			"labels, taints, state, free metaspace. The existing Pods of\nthe workload do not count. If no base " +
			"fits, the Pods stay Pending.",
		"follow the advice of the finding, or start a base that fits"},
	{"live-unready", Warning, "An existing object is Ready",
		"With --live lint looks for an object of the same kind, namespace and name in the\ncluster. If it is not " +
			"Ready, the finding gives the reason, as koupsandbox why does. The\nmanifest may be the fix.",
		"follow the advice of the finding; koupsandbox why KIND/NAME shows the evidence"},
	{"node-label-older", Warning, "Bases are selected by base.koupleless.io/name and base.koupleless.io/version",
		"Older module controllers labelled Nodes vnode.koupleless.io/name and /version, newer\nones " +
			"base.koupleless.io/name and /version. The bundled controller sets both.",
		"use base.koupleless.io/name and base.koupleless.io/version"},
	{"node-label-unknown", Error, "Bases are selected by labels that they have",
		"A required affinity on a label that no Node has leaves the Pods Pending.",
		"select by base.koupleless.io/name, base.koupleless.io/version or another label of bases"},
	{"not-checked", Info, "Everything is checked",
		"The level is info: the exit status does not change. Lint reads the Pod templates of all\nkinds, at any " +
			"depth. It does not know how custom resources replace their Pods, and\nreports custom resources in which " +
			"it finds no Pod template.",
		"check the object by other means"},
	{"peer-strategy", Warning, "A peer Deployment has the label strategy: peer",
		"The controller sets the replicas of a Deployment to the number of bases if it has\nboth " +
			"virtual-kubelet.koupleless.io/component: module-deployment and\nvirtual-kubelet.koupleless.io/strategy: " +
			"peer. The operations guide shows the first only.",
		"label the Deployment virtual-kubelet.koupleless.io/strategy: peer"},
	{"placeholder", Error, "Placeholders have been replaced",
		"{version}, ${VERSION}, {{ .Values.version }}, <version> and TO_BE_IMPLEMENTED stand for a\nvalue. " +
			"Kubernetes replaces only $(NAME), in the env of a container.",
		"write the value, or render the template first"},
	{"selector-mismatch", Error, "The selector of a workload matches the labels of its template",
		"The API server refuses a workload that does not select its own Pods. The Deployment\nof the module release " +
			"document is an example: it selects app: test-module-deployment, and its\nPods have the label app: " +
			"test-module-deployment-non-peer.",
		"make the selector and the template's labels the same"},
	{"selector-version", Warning, "A selector does not contain the version of the module",
		"A selector cannot be changed. A release that changes the version in the template's\nlabels is then refused " +
			"by the API server.",
		"select by the module's name only"},
	{"service-selects-nothing", Warning, "A Service selects Pods",
		"A Service whose selector matches no Pods has no endpoints, and every request to it fails.\nThe rule applies " +
			"only if the manifests have modules. The Pods of the Service may be\ndefined in other manifests.",
		"use labels of a template in the same namespace"},
	{"shape", Error, "An object has the fields of its kind",
		"A field does not exist, has a value of the wrong type, or a value that Kubernetes does\nnot accept, such as " +
			"a container name with capital letters. The API server refuses it.",
		"correct the value; see kubectl explain"},
	{"statefulset-deletes-first", Warning, "Modules are not StatefulSets, unless a gap in each update is acceptable",
		"A StatefulSet has no surge: it deletes a Pod, waits for its end, and creates the\nnext. Its base is without " +
			"the module in between.",
		"use a Deployment with maxUnavailable: 0"},
	{"template-namespace", Warning, "A Pod template has no namespace",
		"Kubernetes ignores the namespace in the metadata of a Pod template.",
		"set the namespace in the metadata of the workload"},
	{"toleration-env", Error, "Module Pods tolerate schedule.koupleless.io/node-env",
		"The Node of every base has the taints schedule.koupleless.io/virtual-node=True " +
			"and\nschedule.koupleless.io/node-env=ENV, both NoExecute. The examples of the module\nrelease document " +
			"and of the operations guide tolerate only the first, so their Pods\nare not scheduled. The bundled " +
			"controller adds the toleration of its environment to a\nPod without one, unless " +
			"LEAVE_POD_TOLERATIONS is set.",
		"tolerate schedule.koupleless.io/node-env with the value of your environment and the effect NoExecute"},
	{"toleration-other-env", Error, "Module Pods tolerate their own environment",
		"Bases of an environment have the taint schedule.koupleless.io/node-env=ENV. The Pod\nin the principle " +
			"document tolerates test, and the Node next to it belongs to dev.",
		"tolerate the intended environment"},
	{"toleration-virtual-node", Error, "Module Pods tolerate schedule.koupleless.io/virtual-node",
		"The Node of every base has this taint, to keep ordinary Pods away.",
		"tolerate schedule.koupleless.io/virtual-node, operator Equal, value \"True\", effect NoExecute"},
	{"topology-unknown", Error, "Modules are spread over labels that bases have",
		"A term has no effect on Nodes without the topology key, so it does not spread\nthe Pods.",
		"use kubernetes.io/hostname, which differs from base to base"},
	{"topology-zone", Warning, "Modules are spread over kubernetes.io/hostname",
		"The operations guide spreads modules over topology.kubernetes.io/zone. Nodes of\nModuleController V2 do not " +
			"have that label, so it spreads nothing. The bundled\ncontroller gives each base its own zone.",
		"use kubernetes.io/hostname, which the Node of every base has"},
	{"unsupported", Warning, "A module Pod uses only fields that have an effect on a base",
		"A module is not a container: it is classes in the JVM of its base. Most fields of a\ncontainer have no " +
			"effect. The bundled controller records one Event of the Pod about\nthem.",
		"remove the field, or implement it in the base or in the module"},
	{"url-credentials", Warning, "The URL of a jar has no credentials",
		"The URL is part of the Pod, so every user who can read Pods can read it. This project\nreplaces passwords " +
			"and the values of query parameters in logs, Events and reports.",
		"let the bases authenticate, for example by their network or a settings file"},
	{"version-again", Error, "One version of a module is one jar",
		"A base refuses to install a version again from another jar. The bundled\ncontroller therefore uninstalls " +
			"the version first (Event SameVersionReplaced), one base\nafter the other, and each base is without the " +
			"module in between. To replace a\nmodule without a gap, change the version.",
		"give the new jar its own version"},
	{"version-differs", Warning, "BIZ_VERSION is the version in the jar's name",
		"A base identifies a module by the version in its jar. If BIZ_VERSION is another version,\nthe controller " +
			"waits for a version that is never installed.",
		"make BIZ_VERSION the version that the jar was built with"},
	{"version-invalid", Error, "BIZ_VERSION is a version that the controller can read",
		"The controller evaluates BIZ_VERSION as a kubelet does: $(NAME) refers to a variable\nthat precedes it. It " +
			"reads plain values, metadata of the Pod and ConfigMaps, but no\nSecrets. A version has no spaces and at " +
			"most 256 bytes.",
		"write a plain value, a fieldRef to a label or an annotation, or a configMapKeyRef"},
	{"version-missing", Error, "A module's container sets BIZ_VERSION",
		"The container's name is the module's name, BIZ_VERSION its version. Without a version\nthe module " +
			"cannot be installed.",
		"set the environment variable BIZ_VERSION"},
	{"version-twice", Warning, "BIZ_VERSION is set once",
		"If a variable is set several times, Kubernetes uses the last value. kubectl apply only\nwarns; server-side " +
			"apply refuses the object.",
		"remove one of them"},
	{"yaml", Error, "The file is YAML",
		"A file that cannot be parsed cannot be applied.",
		"correct the text"},
}
