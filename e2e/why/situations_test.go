package why

import (
	"cmp"
	"context"
	"fmt"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

// situation is made in a scene of its own. In names, SCENE is the name of its bases, HOST the host
// name of the base, NODE its Node.
type situation struct {
	name string
	// without a base; with says what is special about it.
	without bool
	with    v1alpha1.BaseSet
	// made is what brings the situation about; pod is short for making this Pod, called x.
	made func(*scene)
	pod  func(*corev1.Pod)
	// target is pod/x by default.
	target  string
	want    why.Reason
	because why.Reason
	names   []string
}

func selects(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector[key] = value }
}

// affinity requires one of terms, each an expression.
func affinity(terms ...corev1.NodeSelectorRequirement) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		s := &corev1.NodeSelector{}
		for _, t := range terms {
			s.NodeSelectorTerms = append(s.NodeSelectorTerms, corev1.NodeSelectorTerm{MatchExpressions: []corev1.NodeSelectorRequirement{t}})
		}
		p.Spec.Affinity = &corev1.Affinity{NodeAffinity: &corev1.NodeAffinity{RequiredDuringSchedulingIgnoredDuringExecution: s}}
	}
}

func in(key string, values ...string) corev1.NodeSelectorRequirement {
	return corev1.NodeSelectorRequirement{Key: key, Operator: corev1.NodeSelectorOpIn, Values: values}
}

func image(url string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Image = url }
}

func version(value string, from *corev1.EnvVarSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: module.EnvVersion, Value: value, ValueFrom: from}}
	}
}

// release gives a Pod the version, with its URL.
func release(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0] = module.Container("biz", value) }
}

func named(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0] = module.Container(name, "1.0.0") }
}

func requests(name corev1.ResourceName, amount string) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{name: resource.MustParse(amount)}
	}
}

// changed makes a change of a Pod of one of its template.
func changed(change func(*corev1.PodTemplateSpec)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		t := corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
		change(&t)
		p.ObjectMeta, p.Spec = t.ObjectMeta, t.Spec
	}
}

func probe(port int) *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1, ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromInt(port)}}}
}

// situations are those that disturb nobody.
var situations = []situation{
	// A Pod without a Node.
	{name: "a misspelt base", pod: selects(module.LabelBaseName, "bsae"), want: why.WrongBaseName, names: []string{"no base is named \"bsae\""}},
	{name: "a misspelt base in the affinity", pod: affinity(in(labels.OlderBaseName, "bsae")), want: why.WrongBaseName, names: []string{"no base is named \"bsae\""}},
	{name: "a version that no base has", pod: selects(module.LabelBaseVersion, "2.0.0"), want: why.WrongBaseVersion, names: []string{"2.0.0; their versions are 1.0.0"}},
	{name: "a label of another environment", pod: selects(module.LabelEnv, "test"), want: why.NoBaseMatchesSelector, names: []string{"env=test", "dev"}},
	{name: "a selector that nothing matches", pod: selects("zone", "east"), want: why.NoBaseMatchesSelector, names: []string{"zone=east"}},
	{name: "an expression that nothing matches", pod: affinity(in("zone", "east", "west")), want: why.NoBaseMatchesAffinity, names: []string{"zone In [east, west]"}},
	{name: "two terms that nothing matches", pod: affinity(in("zone", "east"), in("disk", "fast")), want: why.NoBaseMatchesAffinity, names: []string{"term 2 (disk In [fast])"}},
	{name: "bases are not tolerated", pod: func(p *corev1.Pod) { p.Spec.Tolerations = p.Spec.Tolerations[1:] }, want: why.TolerationMissing, names: []string{"schedule.koupleless.io/virtual-node=True:NoExecute"}},
	{name: "another environment is tolerated", pod: func(p *corev1.Pod) {
		p.Spec.Tolerations[1] = corev1.Toleration{Key: module.TaintEnv, Operator: corev1.TolerationOpEqual, Value: "test"}
	}, want: why.WrongEnvironment, names: []string{"environment test", "are of dev"}},
	{name: "a taint of the user's", made: func(s *scene) {
		s.patchNode(`{"spec": {"taints": [{"key": "special", "value": "yes", "effect": "NoSchedule"}]}}`)
		s.pod("x")
	}, want: why.TaintNotTolerated, names: []string{"special=yes:NoSchedule of HOST"}},
	{name: "a cordoned base", made: func(s *scene) {
		s.patchNode(`{"spec": {"unschedulable": true}}`)
		s.pod("x")
	}, want: why.BaseCordoned, names: []string{"HOST"}},
	{name: "a base that leaves", made: func(s *scene) {
		s.patchNode(`{"metadata": {"finalizers": ["example.com/keep"]}, "spec": {"unschedulable": true}}`)
		s.t.Cleanup(s.release)
		check.Must(s.t, client.CoreV1().Nodes().Delete(s.ctx, s.bases[0].Node, metav1.DeleteOptions{}))
		s.pod("x")
	}, want: why.BaseLeaving, names: []string{"HOST"}},
	{name: "a base that leaves, and is not cordoned", made: func(s *scene) {
		s.patchNode(`{"metadata": {"finalizers": ["example.com/keep"]}}`)
		s.t.Cleanup(s.release)
		check.Must(s.t, client.CoreV1().Nodes().Delete(s.ctx, s.bases[0].Node, metav1.DeleteOptions{}))
	}, target: "node/HOST", want: why.BaseLeaving, names: []string{"HOST"}},
	{name: "a base that is away", made: func(s *scene) {
		s.inject(fault.Fault{Kind: fault.KindDisconnect})
		s.becomes("node/HOST", why.BaseSilent, "no sign of life")
		s.pod("x")
	}, want: why.BasesNotReady, names: []string{"HOST", "no sign of life"}},
	{name: "too little metaspace", with: v1alpha1.BaseSet{Metaspace: "96Mi"}, pod: requests(corev1.ResourceMemory, "1Gi"), want: why.NoFreeMetaspace, names: []string{"1024 Mi of metaspace", "on HOST"}},
	{name: "metaspace that others have requested", with: v1alpha1.BaseSet{Metaspace: "256Mi"}, made: func(s *scene) {
		s.pod("first", requests(corev1.ResourceMemory, "120Mi"))
		s.becomes("pod/first", why.PodReady)
		s.pod("x", requests(corev1.ResourceMemory, "120Mi"))
	}, want: why.NoFreeMetaspace, names: []string{"120 Mi of metaspace", "on HOST"}},
	{name: "too few processors", pod: requests(corev1.ResourceCPU, "1000"), want: why.NoFreeResources, names: []string{"1k of cpu", "on HOST"}},
	{name: "an anti-affinity", made: func(s *scene) {
		s.pod("first", changed(module.OnePerBase))
		s.becomes("pod/first", why.PodReady)
		s.pod("x", changed(module.OnePerBase))
	}, want: why.AntiAffinity, names: []string{"separates from"}},
	{name: "a port of the host", made: func(s *scene) {
		s.pod("first", changed(module.OnePerPort))
		s.becomes("pod/first", why.PodReady)
		s.pod("x", changed(module.OnePerPort))
	}, want: why.HostPortTaken, names: []string{"hostPort"}},
	{name: "a topology spread constraint over a label that no base has", pod: func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{MaxSkew: 1, TopologyKey: "example.com/rack", WhenUnsatisfiable: corev1.DoNotSchedule, LabelSelector: &metav1.LabelSelector{}}}
	}, want: why.TopologySpread, names: []string{"example.com/rack", "missing required label"}},
	{name: "a Pod affinity", pod: func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{RequiredDuringSchedulingIgnoredDuringExecution: []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname, LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "nobody"}}}}}}
	}, want: why.PodAffinity, names: []string{"Pod affinity selects"}},
	{name: "a claim that does not exist", pod: func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "missing"}}}}
	}, want: why.ClaimUnbound, names: []string{"(missing) does not exist"}},
	{name: "a claim that is not bound", made: func(s *scene) {
		set := module.StatefulSet(s.name, "x", 1, s.template())
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"}, Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteOnce},
			Resources: corev1.VolumeResourceRequirements{Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}}}}}
		_, err := client.AppsV1().StatefulSets(s.name).Create(s.ctx, set, metav1.CreateOptions{})
		check.Must(s.t, err)
	}, target: "sts/x", want: why.PodNotReady, because: why.ClaimUnbound, names: []string{"data-x-0"}},
	{name: "a resource that no base has", pod: func(p *corev1.Pod) {
		p.Spec.Containers[0].Resources = corev1.ResourceRequirements{Limits: corev1.ResourceList{"example.com/gpu": resource.MustParse("1")}}
	}, want: why.NoSuchResource, names: []string{"1 of example.com/gpu"}},
	{name: "a scheduling gate", without: true, pod: func(p *corev1.Pod) { p.Spec.SchedulingGates = []corev1.PodSchedulingGate{{Name: "example.com/wait"}} }, want: why.SchedulingGated, names: []string{"example.com/wait"}},
	{name: "a scheduler that nobody runs", pod: func(p *corev1.Pod) { p.Spec.SchedulerName = "mine" }, want: why.UnknownScheduler, names: []string{"scheduler mine"}},

	// What a Pod is, and how it goes.
	{name: "no label", pod: func(p *corev1.Pod) { p.Labels = nil }, want: why.ModuleLabelMissing, names: []string{"virtual-kubelet.koupleless.io/component=module"}},
	{name: "an ordinary Pod", without: true, pod: func(p *corev1.Pod) { p.Labels, p.Spec.Tolerations, p.Spec.Containers[0].Env = nil, nil, nil }, want: why.NotAModule, names: []string{"is no module Pod"}},
	{name: "a module on an ordinary Node", without: true, made: func(s *scene) {
		_, err := client.CoreV1().Nodes().Create(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.name}}, metav1.CreateOptions{})
		check.Must(s.t, err)
		s.pod("x", func(p *corev1.Pod) { p.Spec.NodeSelector, p.Spec.NodeName = nil, s.name })
	}, want: why.OnOrdinaryNode, names: []string{"SCENE, which is no base"}},
	{name: "an ordinary Node", without: true, made: func(s *scene) {
		_, err := client.CoreV1().Nodes().Create(s.ctx, &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: s.name}}, metav1.CreateOptions{})
		check.Must(s.t, err)
	}, target: "node/SCENE", want: why.OrdinaryNode, names: []string{"SCENE"}},
	{name: "a Node that was never there", without: true, pod: func(p *corev1.Pod) { p.Spec.NodeName = "vnode.nowhere" }, want: why.NodeGone, names: []string{"vnode.nowhere"}},
	{name: "Ready", pod: func(*corev1.Pod) {}, want: why.PodReady, names: []string{"HOST serves biz"}},
	{name: "Ready with what was there", made: func(s *scene) {
		s.pod("first")
		s.becomes("pod/first", why.PodReady)
		s.pod("x")
	}, want: why.AlreadyInstalled, names: []string{"nothing was sent"}},
	{name: "Ready without what means nothing", pod: func(p *corev1.Pod) { p.Spec.Containers[0].StartupProbe = probe(1) }, want: why.UnsupportedFields, names: []string{"ignores startupProbe"}},
	{name: "it drains", made: func(s *scene) {
		s.pod("x")
		s.becomes("pod/x", why.PodReady)
		s.deletePod("x")
	}, want: why.Terminating, names: []string{"drains"}},
	{name: "a finalizer", made: func(s *scene) {
		s.pod("x", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/keep"} })
		s.becomes("pod/x", why.PodReady)
		s.deletePod("x")
	}, want: why.TerminatingFinalizer, names: []string{"example.com/keep"}},
	{name: "an uninstall fails", made: func(s *scene) {
		s.fails("uninstallBiz", fault.CodeUninstallBizFailed, "java.io.IOException: it is in use")
		s.pod("x")
		s.becomes("pod/x", why.PodReady)
		s.deletePod("x")
	}, want: why.UninstallFailing, names: []string{"biz"}},
	{name: "it gave way", made: func(s *scene) {
		s.pod("x")
		s.becomes("pod/x", why.PodReady)
		s.pod("newer", release("2.0.0"))
	}, want: why.GaveWay, names: []string{"HOST", "Pod newer"}},
	{name: "it was evicted", made: func(s *scene) {
		s.pod("x")
		s.becomes("pod/x", why.PodReady)
		s.patch("x", `{"status": {"phase": "Failed", "reason": "Evicted", "message": "by hand", "conditions": null}}`, "status")
	}, want: why.PodEnded, names: []string{"Failed"}},
	{name: "its base went away", made: func(s *scene) {
		s.fails("installBiz", fault.CodeInstallBizFailed, "no")
		s.pod("x")
		s.becomes("pod/x", why.InstallFailed)
		s.inject(fault.Fault{Kind: fault.KindDisconnect})
	}, want: why.BaseSilent, names: []string{"HOST", "no sign of life"}},

	// What the base is told.
	{name: "no version", pod: func(p *corev1.Pod) { p.Spec.Containers[0].Env = nil }, want: why.VersionMissing, names: []string{`"biz" has no environment variable BIZ_VERSION`}},
	{name: "an empty version", pod: version("", nil), want: why.VersionMissing, names: []string{"is empty"}},
	{name: "a version with spaces", pod: version("1 0", nil), want: why.VersionInvalid, names: []string{`"1 0"`}},
	{name: "an annotation that is not there", pod: version("", &corev1.EnvVarSource{FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.annotations['biz']"}}), want: why.VersionRefUnresolved, names: []string{"metadata.annotations['biz']"}},
	{name: "a ConfigMap that is not there", pod: version("", &corev1.EnvVarSource{ConfigMapKeyRef: &corev1.ConfigMapKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "versions"}, Key: "biz"}}), want: why.VersionRefUnresolved, names: []string{"ConfigMap versions", "does not exist"}},
	{name: "a Secret", pod: version("", &corev1.EnvVarSource{SecretKeyRef: &corev1.SecretKeySelector{LocalObjectReference: corev1.LocalObjectReference{Name: "s"}, Key: "k"}}), want: why.VersionRefUnresolved, names: []string{"Secret s"}},
	{name: "an image of a registry", pod: image("nginx:1.27"), want: why.ImageNotAJar, names: []string{"nginx:1.27"}},
	{name: "a scheme that bases do not fetch", pod: image("oss://bucket/biz.jar"), want: why.ImageNotAJar, names: []string{"oss://"}},
	{name: "a host alone", pod: image("https://modules.example"), want: why.ImageNotAJar, names: []string{"https://modules.example"}},
	{name: "kept deactivated", with: v1alpha1.BaseSet{Activation: v1alpha1.ActivationDefault}, made: func(s *scene) {
		s.pod("older")
		s.becomes("pod/older", why.PodReady)
		s.pod("x", release("2.0.0"))
	}, want: why.KeptDeactivated, names: []string{"HOST", "biz:2.0.0"}},
	{name: "another jar of a version", made: func(s *scene) {
		s.pod("x")
		s.becomes("pod/x", why.PodReady)
		s.patch("x", `{"spec": {"containers": [{"name": "biz", "image": "https://modules.example/biz-other-ark-biz.jar", "env": [{"name": "BIZ_VERSION", "value": "1.0.0"}]}]}}`)
	}, want: why.ReplacingSameVersion, names: []string{"another URL"}},
	{name: "the module is broken", made: func(s *scene) {
		s.fails("installBiz", fault.CodeInstallBizUserError, "java.lang.IllegalStateException: no bean of that name")
		s.pod("x")
	}, want: why.ModuleBroken, names: []string{"no bean of that name", "HOST"}},
	{name: "tried in vain", made: func(s *scene) {
		s.fails("installBiz", fault.CodeInstallBizUserError, "java.lang.IllegalStateException: no bean of that name")
		s.pod("x")
	}, want: why.InstallRetrying, because: why.ModuleBroken, names: []string{"no bean of that name", "the next attempt is at"}},
	{name: "metaspace is full", made: func(s *scene) {
		s.inject(fault.Fault{Kind: fault.KindMetaspaceFull})
		s.pod("x", func(p *corev1.Pod) { p.Spec.NodeName, p.Spec.NodeSelector = s.bases[0].Node, nil })
	}, want: why.MetaspaceFull, names: []string{"HOST"}},
	{name: "a base with little metaspace", made: func(s *scene) { s.inject(fault.Fault{Kind: fault.KindMetaspaceFull}) }, target: "node/HOST", want: why.MetaspacePressure, names: []string{"HOST"}},
	{name: "a disk is full", made: func(s *scene) {
		s.fails("installBiz", fault.CodeDiskFull, "")
		s.pod("x")
	}, want: why.DiskFull, names: []string{"HOST"}},
	{name: "a jar that cannot be fetched", made: func(s *scene) {
		s.fails("installBiz", fault.CodePullBizError, "")
		s.pod("x", image("https://modules.example/biz"))
	}, want: why.JarNotFetched, names: []string{"HOST", "has no .jar"}},
	{name: "an install fails", made: func(s *scene) {
		s.fails("installBiz", fault.CodeInstallBizFailed, "java.io.IOException: odd")
		s.pod("x")
	}, want: why.InstallFailed, names: []string{"odd"}},
	{name: "a command on its way", made: func(s *scene) {
		s.inject(fault.Fault{Kind: fault.KindHang, Match: fault.Match{Commands: []string{"installBiz"}}})
		s.pod("x")
	}, want: why.CommandUnderWay, names: []string{"installBiz for biz is on its way to HOST"}},
	{name: "no answer", made: func(s *scene) {
		s.inject(fault.Fault{Kind: fault.KindHang, Match: fault.Match{Commands: []string{"installBiz"}}})
		s.pod("x")
	}, want: why.CommandTimedOut, names: []string{"HOST"}},
	{name: "a base that is busy", made: func(s *scene) {
		s.inject(fault.Fault{Kind: fault.KindHang, Match: fault.Match{Commands: []string{"installBiz"}}})
		for i := range 2 {
			s.pod(fmt.Sprintf("before-%d", i), named(fmt.Sprintf("before%d", i)))
			s.becomes(fmt.Sprintf("pod/before-%d", i), why.CommandUnderWay)
		}
		s.pod("x")
	}, want: why.CommandNotSent, names: []string{"biz waits", "HOST"}},

	// Its health.
	{name: "a readiness probe", pod: func(p *corev1.Pod) { p.Spec.Containers[0].ReadinessProbe = probe(1) }, want: why.ReadinessProbeFailing, names: []string{"biz is active on HOST"}},
	{name: "a liveness probe", pod: func(p *corev1.Pod) { p.Spec.Containers[0].LivenessProbe = probe(1) }, want: why.LivenessProbeFailing, names: []string{"liveness probe of the Pod fails on HOST"}},
	{name: "a readiness gate", pod: func(p *corev1.Pod) {
		p.Spec.ReadinessGates = []corev1.PodReadinessGate{{ConditionType: "example.com/traffic"}}
	}, want: why.ReadinessGateMissing, names: []string{"example.com/traffic"}},

	// Workloads.
	{name: "a Deployment that is Ready", made: func(s *scene) { s.deployment(1, nil) }, target: "deployment/x", want: why.WorkloadReady, names: []string{"1 Pod of biz"}},
	{name: "a Deployment whose Pods find no base", made: func(s *scene) {
		s.deployment(1, func(d *appsv1.Deployment) { d.Spec.Template.Spec.NodeSelector[module.LabelBaseName] = "bsae" })
	}, target: "deployment/x", want: why.PodNotReady, because: why.WrongBaseName, names: []string{"0 of 1 Pods", "no base is named \"bsae\""}},
	{name: "a rollout that is stuck", made: func(s *scene) {
		s.deployment(1, nil)
		s.becomes("deployment/x", why.WorkloadReady)
		s.fails("installBiz", fault.CodeInstallBizUserError, "java.lang.IllegalStateException: no bean of that name")
		s.update(func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0] = module.Container("biz", "2.0.0")
			d.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		})
	}, target: "deployment/x", want: why.RolloutStuck, because: why.ModuleBroken, names: []string{"1 of 1 Pods", "no bean of that name"}},
	{name: "a Deployment that is paused", made: func(s *scene) {
		s.deployment(1, nil)
		s.becomes("deployment/x", why.WorkloadReady)
		s.update(func(d *appsv1.Deployment) {
			d.Spec.Paused, d.Spec.Template.Spec.Containers[0] = true, module.Container("biz", "2.0.0")
		})
	}, target: "deployment/x", want: why.DeploymentPaused, names: []string{"0 of 1"}},
	{name: "no replicas", without: true, made: func(s *scene) { s.deployment(0, nil) }, target: "deployment/x", want: why.NoReplicas, names: []string{"replicas are 0"}},
	{name: "a Deployment that goes", without: true, made: func(s *scene) {
		s.deployment(0, func(d *appsv1.Deployment) { d.Finalizers = []string{"example.com/keep"} })
		check.Must(s.t, client.AppsV1().Deployments(s.name).Delete(s.ctx, "x", metav1.DeleteOptions{}))
	}, target: "deployment/x", want: why.WorkloadLeaving, names: []string{"example.com/keep"}},
	{name: "a quota", made: func(s *scene) {
		_, err := client.CoreV1().ResourceQuotas(s.name).Create(s.ctx, &corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"},
			Spec: corev1.ResourceQuotaSpec{Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}, metav1.CreateOptions{})
		check.Must(s.t, err)
		s.deployment(1, nil)
	}, target: "deployment/x", want: why.QuotaExceeded, names: []string{"exceeded quota: few"}},
	{name: "Pods that are refused", made: func(s *scene) {
		s.deployment(1, func(d *appsv1.Deployment) { d.Spec.Template.Spec.ServiceAccountName = "nobody" })
	}, target: "deployment/x", want: why.PodsRefused, names: []string{"nobody"}},
	{name: "Pods of a DaemonSet that are refused", made: func(s *scene) {
		s.daemonSet(func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.ServiceAccountName = "nobody" })
	}, target: "daemonset/x", want: why.PodsRefused, names: []string{"nobody"}},
	{name: "a peer Deployment without bases", without: true, made: func(s *scene) { s.deployment(1, peer) }, target: "deployment/x", want: why.PeerWithoutBases, because: why.WrongBaseName, names: []string{"no base is named \"SCENE\""}},
	{name: "a DaemonSet without the environment", made: func(s *scene) {
		s.daemonSet(func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.Tolerations = d.Spec.Template.Spec.Tolerations[:1]
		})
	}, target: "daemonset/x", want: why.DaemonSetNotTolerated, names: []string{"DESIRED is 0", "schedule.koupleless.io/node-env=dev:NoExecute of HOST"}},
	{name: "a DaemonSet without bases", without: true, made: func(s *scene) { s.daemonSet(nil) }, target: "daemonset/x", want: why.DaemonSetWithoutBases, because: why.WrongBaseName, names: []string{"no base is named \"SCENE\""}},
	{name: "a DaemonSet that is Ready", made: func(s *scene) { s.daemonSet(nil) }, target: "ds/x", want: why.WorkloadReady, names: []string{"1 Pod of biz"}},
	{name: "a StatefulSet that waits", made: func(s *scene) {
		_, err := client.AppsV1().StatefulSets(s.name).Create(s.ctx, module.StatefulSet(s.name, "x", 2, s.template(image("nginx:1.27"))), metav1.CreateOptions{})
		check.Must(s.t, err)
	}, target: "sts/x", want: why.PodNotReady, because: why.ImageNotAJar, names: []string{"0 of 2 Pods", "Pod x-0 decides", "nginx:1.27"}},
	{name: "a StatefulSet that was broken, and is corrected", made: func(s *scene) {
		set, err := client.AppsV1().StatefulSets(s.name).Create(s.ctx, module.StatefulSet(s.name, "x", 1, s.template(image("oss://bucket/biz.jar"))), metav1.CreateOptions{})
		check.Must(s.t, err)
		s.becomes("sts/x", why.PodNotReady, "oss://")
		_, err = client.AppsV1().StatefulSets(s.name).Patch(s.ctx, set.Name, types.JSONPatchType,
			[]byte(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "https://modules.example/biz-1.0.0-ark-biz.jar"}]`), metav1.PatchOptions{})
		check.Must(s.t, err)
	}, target: "sts/x", want: why.OutdatedPodNotReady, because: why.ImageNotAJar, names: []string{"Pod x-0", "earlier template"}},

	// Nodes.
	{name: "a base that is Ready", made: func(*scene) {}, target: "node/HOST", want: why.NodeReady, names: []string{"HOST", "serves it"}},
	{name: "a base that takes no Pods", made: func(s *scene) { s.patchNode(`{"spec": {"unschedulable": true}}`) }, target: "node/NODE", want: why.BaseCordoned, names: []string{"HOST"}},
}

// deployment creates one, called x.
func (s *scene) deployment(replicas int32, change func(*appsv1.Deployment)) {
	s.t.Helper()
	d := module.Deployment(s.name, "x", replicas, s.template())
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: ptr.To(intstr.FromInt(0)), MaxSurge: ptr.To(intstr.FromInt(1))}
	if change != nil {
		change(d)
	}
	_, err := client.AppsV1().Deployments(s.name).Create(s.ctx, d, metav1.CreateOptions{})
	check.Must(s.t, err)
}

// update changes the Deployment x.
func (s *scene) update(change func(*appsv1.Deployment)) {
	s.t.Helper()
	check.Eventually(s.ctx, s.t, patience, "the Deployment is changed", func(ctx context.Context) error {
		d, err := client.AppsV1().Deployments(s.name).Get(ctx, "x", metav1.GetOptions{})
		if err == nil {
			change(d)
			_, err = client.AppsV1().Deployments(s.name).Update(ctx, d, metav1.UpdateOptions{})
		}
		return err
	})
}

func (s *scene) daemonSet(change func(*appsv1.DaemonSet)) {
	s.t.Helper()
	d := module.DaemonSet(s.name, "x", s.template())
	if change != nil {
		change(d)
	}
	_, err := client.AppsV1().DaemonSets(s.name).Create(s.ctx, d, metav1.CreateOptions{})
	check.Must(s.t, err)
}

// peer makes a Deployment one whose replicas follow the bases.
func peer(d *appsv1.Deployment) {
	d.Labels = map[string]string{labels.Component: labels.ModuleDeployment, labels.Strategy: labels.Peer}
}

// Each situation is told by its name, and the cause names what is wrong. Outages come last: they
// leave nothing for others.
func TestSituations(t *testing.T) {
	if len(situations) < 30 {
		t.Fatalf("there are only %d situations", len(situations))
	}
	t.Run("at once", atOneTime)
	t.Run("outages", outages)
}

// atOneTime makes the situations side by side. All bases are there before anything is done to one: a
// few that are silent of many are no outage.
func atOneTime(t *testing.T) {
	scenes := make([]*scene, len(situations))
	for i, c := range situations {
		var set *v1alpha1.BaseSet
		if !c.without {
			set = &c.with
		}
		scenes[i] = newScene(t, fmt.Sprintf("why-%02d", i), set)
	}
	for i, c := range situations {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			s := scenes[i].in(t, !c.without)
			if c.pod != nil {
				s.pod("x", c.pod)
			} else {
				c.made(s)
			}
			if a := s.becomes(cmp.Or(c.target, "pod/x"), c.want, c.names...); a.Because != c.because {
				t.Errorf("it is because of %q, not %q: %s", a.Because, c.because, a.Cause)
			}
		})
	}
}
