package e2e

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	sandboxfault "github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

// fixture is a namespace for one test case, and a base with the same name. They exist until the sandbox is removed.
type fixture struct {
	ctx  context.Context
	t    *testing.T
	name string
	base sandbox.Base
}

// newFixture creates the namespace of a scene. If set is not nil, it also creates the base.
func newFixture(t *testing.T, name string, set *v1alpha1.BaseSet) *fixture {
	t.Helper()
	_, err := client.CoreV1().Namespaces().Create(t.Context(),
		&corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: name}}, metav1.CreateOptions{})
	must(t, err)
	if set != nil {
		set.Name, set.BaseName = "base", name
		_, err = up.AddBases(t.Context(), sandbox.AddRequest{Count: 1, Group: name, Spec: set})
		must(t, err)
	}
	return &fixture{ctx: t.Context(), t: t, name: name}
}

// forSubtest returns a copy of the scene for a subtest. If withBase is true, it first waits until the Node of the base
// is Ready.
func (s *fixture) forSubtest(t *testing.T, withBase bool) *fixture {
	t.Helper()
	in := &fixture{ctx: t.Context(), t: t, name: s.name}
	if !withBase {
		return in
	}
	eventually(t, "the Node of the base is Ready", func(ctx context.Context) error {
		list, err := up.Bases(ctx, s.name)
		if err == nil && (len(list) != 1 || !list[0].NodeReady) {
			err = fmt.Errorf("bases: %+v", list)
		}
		if err == nil {
			in.base = list[0]
		}
		return err
	})
	return in
}

// template returns a Pod template with a module. Only the base of the scene matches its node selector.
func (s *fixture) template(change ...func(*corev1.Pod)) corev1.PodTemplateSpec {
	t := module.Template("biz", module.Container("biz", "1.0.0"))
	t.Spec.NodeSelector = map[string]string{module.LabelBaseName: s.name}
	p := &corev1.Pod{ObjectMeta: t.ObjectMeta, Spec: t.Spec}
	for _, f := range change {
		f(p)
	}
	return corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
}

func (s *fixture) pod(name string, change ...func(*corev1.Pod)) {
	s.t.Helper()
	_, err := client.CoreV1().Pods(s.name).Create(s.ctx, module.Pod(s.name, name, s.template(change...)),
		metav1.CreateOptions{})
	must(s.t, err)
}

func (s *fixture) deletePod(name string) {
	s.t.Helper()
	must(s.t, client.CoreV1().Pods(s.name).Delete(s.ctx, name, metav1.DeleteOptions{}))
}

// inject injects a fault into the base of the scene.
func (s *fixture) inject(f fault.Fault) {
	s.t.Helper()
	_, err := up.SetFault(s.ctx, sandboxfault.Injection{Fault: v1alpha1.FaultOf(f), Bases: []string{s.base.Identity}})
	must(s.t, err)
}

// failCommand injects a fault that makes the base respond to a command with an error code.
func (s *fixture) failCommand(command, code, message string) {
	s.t.Helper()
	s.inject(fault.Fault{Kind: fault.KindError, Code: code, Message: message,
		Match: fault.Match{Commands: []string{command}}})
}

// resolve replaces SCENE, HOST and NODE in a text with the name of the scene, the host name of its base and the Node
// of its base.
func (s *fixture) resolve(text string) string {
	return strings.NewReplacer("SCENE", s.name, "HOST", s.base.HostName, "NODE", s.base.Node).Replace(text)
}

// explain returns the answer of package why for the target.
func (s *fixture) explain(ctx context.Context, target string) (why.Answer, error) {
	t, err := why.ParseTarget(s.resolve(target), s.name)
	if err != nil {
		return why.Answer{}, err
	}
	snapshot, err := why.Gather(ctx, client, t)
	if err != nil {
		return why.Answer{}, err
	}
	return why.Explain(snapshot, time.Now()), nil
}

// waitReason waits until the answer for the target has the given reason, and its cause contains the given texts.
func (s *fixture) waitReason(target string, want why.Reason, texts ...string) (last why.Answer) {
	s.t.Helper()
	var problem error
	checkAnswer := func(ctx context.Context) error {
		a, err := s.explain(ctx, target)
		if err != nil {
			return err
		}
		last = a
		if a.Reason != want {
			return fmt.Errorf("the reason is %s", a.Reason)
		}
		for _, text := range texts {
			if !strings.Contains(a.Cause, s.resolve(text)) {
				return fmt.Errorf("the cause does not contain %q", s.resolve(text))
			}
		}
		return nil
	}
	// The interval is longer than that of check.Soon, because an answer takes many requests.
	err := wait.PollUntilContextTimeout(s.ctx, 200*time.Millisecond, check.Timeout, true,
		func(ctx context.Context) (bool, error) {
			if err := checkAnswer(ctx); ctx.Err() == nil {
				problem = err
			}
			return problem == nil, nil
		})
	if err != nil {
		s.t.Fatalf("the reason of %s is not %s: %v; last answer: %s because of %q: %s\nevidence: %v",
			s.resolve(target), want, problem, last.Reason, last.Because, last.Cause, last.Evidence)
	}
	if !last.Ready && last.Advice == "" {
		s.t.Errorf("the answer has no advice: %s", last.Cause)
	}
	return last
}

// whyCase is a test case of TestWhy. Its scene has a base with the settings in base, unless withoutBase is true.
type whyCase struct {
	name        string
	withoutBase bool
	base        v1alpha1.BaseSet
	// create creates the objects and faults of the case. By default, the case creates the Pod x, after pod has
	// changed it.
	create func(*fixture)
	pod    func(*corev1.Pod)
	// target is the object to explain. Default: pod/x.
	target  string
	want    why.Reason
	because why.Reason
	// causeTexts are texts that the cause must contain. resolve replaces the placeholders in them.
	causeTexts []string
}

func selects(key, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.NodeSelector[key] = value }
}

func image(url string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Image = url }
}

func version(value string, from *corev1.EnvVarSource) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: module.EnvVersion, Value: value, ValueFrom: from}}
	}
}

func release(value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0] = module.Container("biz", value) }
}

func named(name string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0] = module.Container(name, "1.0.0") }
}

func withTemplateChange(change func(*corev1.PodTemplateSpec)) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		t := corev1.PodTemplateSpec{ObjectMeta: p.ObjectMeta, Spec: p.Spec}
		change(&t)
		p.ObjectMeta, p.Spec = t.ObjectMeta, t.Spec
	}
}

func probe(port int) *corev1.Probe {
	return &corev1.Probe{PeriodSeconds: 1, FailureThreshold: 1,
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{Path: "/health", Port: intstr.FromInt(port)}}}
}

// whyCases are the cases that depend on texts or on the timing of the controller, the scheduler or
// kube-controller-manager. They do not affect each other. The unit tests of package why cover all other reasons.
var whyCases = []whyCase{
	// The Pod has no Node.
	{name: "misspelt base name", pod: selects(module.LabelBaseName, "bsae"), want: why.WrongBaseName,
		causeTexts: []string{`"bsae"`}},
	{name: "unreachable base", create: func(s *fixture) {
		s.inject(fault.Fault{Kind: fault.KindDisconnect})
		s.waitReason("node/HOST", why.BaseSilent, "no heartbeat")
		s.pod("x")
	}, want: why.BasesNotReady, causeTexts: []string{"HOST"}},
	{name: "anti-affinity", create: func(s *fixture) {
		s.pod("first", withTemplateChange(module.OnePerBase))
		s.waitReason("pod/first", why.PodReady)
		s.pod("x", withTemplateChange(module.OnePerBase))
	}, want: why.AntiAffinity},
	{name: "host port", create: func(s *fixture) {
		s.pod("first", withTemplateChange(module.OnePerPort))
		s.waitReason("pod/first", why.PodReady)
		s.pod("x", withTemplateChange(module.OnePerPort))
	}, want: why.HostPortTaken, causeTexts: []string{"hostPort"}},
	{name: "topology spread constraint with a missing label", pod: func(p *corev1.Pod) {
		p.Spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{
			{MaxSkew: 1, TopologyKey: "example.com/rack", WhenUnsatisfiable: corev1.DoNotSchedule,
				LabelSelector: &metav1.LabelSelector{}}}
	}, want: why.TopologySpread, causeTexts: []string{"example.com/rack", "missing required label"}},
	{name: "Pod affinity", pod: func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAffinity: &corev1.PodAffinity{}}
		p.Spec.Affinity.PodAffinity.RequiredDuringSchedulingIgnoredDuringExecution = []corev1.PodAffinityTerm{
			{TopologyKey: corev1.LabelHostname,
				LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{"app": "nobody"}}}}
	}, want: why.PodAffinity},
	{name: "missing claim", pod: func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{
			{Name: "data", VolumeSource: corev1.VolumeSource{
				PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: "missing"}}}}
	}, want: why.ClaimUnbound, causeTexts: []string{"(missing)"}},
	{name: "unbound claim", create: func(s *fixture) {
		set := module.StatefulSet(s.name, "x", 1, s.template())
		set.Spec.VolumeClaimTemplates = []corev1.PersistentVolumeClaim{{ObjectMeta: metav1.ObjectMeta{Name: "data"},
			Spec: corev1.PersistentVolumeClaimSpec{AccessModes: []corev1.PersistentVolumeAccessMode{
				corev1.ReadWriteOnce},
				Resources: corev1.VolumeResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Mi")}}}}}
		_, err := client.AppsV1().StatefulSets(s.name).Create(s.ctx, set, metav1.CreateOptions{})
		must(s.t, err)
	}, target: "sts/x", want: why.PodNotReady, because: why.ClaimUnbound, causeTexts: []string{"data-x-0"}},

	// The Pod is Ready or being deleted.
	{name: "module was already installed", create: func(s *fixture) {
		s.pod("first")
		s.waitReason("pod/first", why.PodReady)
		s.pod("x")
	}, want: why.AlreadyInstalled},
	{name: "draining", create: func(s *fixture) {
		s.pod("x")
		s.waitReason("pod/x", why.PodReady)
		s.deletePod("x")
	}, want: why.Terminating, causeTexts: []string{"drains"}},
	{name: "finalizer", create: func(s *fixture) {
		s.pod("x", func(p *corev1.Pod) { p.Finalizers = []string{"example.com/keep"} })
		s.waitReason("pod/x", why.PodReady)
		s.deletePod("x")
	}, want: why.TerminatingFinalizer, causeTexts: []string{"example.com/keep"}},
	{name: "failed uninstall", create: func(s *fixture) {
		s.failCommand("uninstallBiz", fault.CodeUninstallBizFailed, "java.io.IOException: it is in use")
		s.pod("x")
		s.waitReason("pod/x", why.PodReady)
		s.deletePod("x")
	}, want: why.UninstallFailing, causeTexts: []string{"biz"}},
	{name: "replaced by a newer version", create: func(s *fixture) {
		s.pod("x")
		s.waitReason("pod/x", why.PodReady)
		s.pod("newer", release("2.0.0"))
	}, want: why.GaveWay, causeTexts: []string{"HOST", "Pod newer"}},

	// The module cannot be installed or activated.
	{name: "no version", pod: func(p *corev1.Pod) { p.Spec.Containers[0].Env = nil }, want: why.VersionMissing,
		causeTexts: []string{`"biz"`, "BIZ_VERSION"}},
	{name: "missing ConfigMap",
		pod: version("", &corev1.EnvVarSource{
			ConfigMapKeyRef: &corev1.ConfigMapKeySelector{
				LocalObjectReference: corev1.LocalObjectReference{Name: "versions"}, Key: "biz"}}),
		want: why.VersionRefUnresolved, causeTexts: []string{"ConfigMap versions"}},
	{name: "image of a registry", pod: image("nginx:1.27"), want: why.ImageNotAJar, causeTexts: []string{"nginx:1.27"}},
	{name: "kept deactivated", base: v1alpha1.BaseSet{Activation: v1alpha1.ActivationDefault},
		create: func(s *fixture) {
			s.pod("older")
			s.waitReason("pod/older", why.PodReady)
			s.pod("x", release("2.0.0"))
		}, want: why.KeptDeactivated, causeTexts: []string{"HOST", "biz:2.0.0"}},
	{name: "different jar with the same version", create: func(s *fixture) {
		s.pod("x")
		s.waitReason("pod/x", why.PodReady)
		_, err := client.CoreV1().Pods(s.name).Patch(s.ctx, "x", types.MergePatchType,
			[]byte(`{"spec": {"containers": [{"name": "biz", "image": "https://modules.example/biz-other-ark-biz.jar", "env": [{"name": "BIZ_VERSION", "value": "1.0.0"}]}]}}`), metav1.PatchOptions{})
		must(s.t, err)
	}, want: why.ReplacingSameVersion},
	{name: "module fails to start", create: func(s *fixture) {
		s.failCommand("installBiz", fault.CodeInstallBizUserError,
			"java.lang.IllegalStateException: no bean of that name")
		s.pod("x")
	}, want: why.ModuleBroken, causeTexts: []string{"no bean of that name", "HOST"}},
	{name: "repeated install failures", create: func(s *fixture) {
		s.failCommand("installBiz", fault.CodeInstallBizUserError,
			"java.lang.IllegalStateException: no bean of that name")
		s.pod("x")
	}, want: why.InstallRetrying, because: why.ModuleBroken, causeTexts: []string{"no bean of that name"}},
	{name: "metaspace is full", create: func(s *fixture) {
		s.inject(fault.Fault{Kind: fault.KindMetaspaceFull})
		s.pod("x", func(p *corev1.Pod) { p.Spec.NodeName, p.Spec.NodeSelector = s.base.Node, nil })
	}, want: why.MetaspaceFull, causeTexts: []string{"HOST"}},
	{name: "jar cannot be downloaded", create: func(s *fixture) {
		s.failCommand("installBiz", fault.CodePullBizError, "")
		s.pod("x", image("https://modules.example/biz"))
	}, want: why.JarNotFetched, causeTexts: []string{"HOST", ".jar"}},
	{name: "command in progress", create: func(s *fixture) {
		s.inject(fault.Fault{Kind: fault.KindHang, Match: fault.Match{Commands: []string{"installBiz"}}})
		s.pod("x")
	}, want: why.CommandUnderWay, causeTexts: []string{"installBiz", "biz", "HOST"}},
	{name: "command timed out", create: func(s *fixture) {
		s.inject(fault.Fault{Kind: fault.KindHang, Match: fault.Match{Commands: []string{"installBiz"}}})
		s.pod("x")
	}, want: why.CommandTimedOut, causeTexts: []string{"HOST"}},
	{name: "busy base", create: func(s *fixture) {
		s.inject(fault.Fault{Kind: fault.KindHang, Match: fault.Match{Commands: []string{"installBiz"}}})
		for i := range 2 {
			s.pod(fmt.Sprintf("before-%d", i), named(fmt.Sprintf("before%d", i)))
			s.waitReason(fmt.Sprintf("pod/before-%d", i), why.CommandUnderWay)
		}
		s.pod("x")
	}, want: why.CommandNotSent, causeTexts: []string{"biz", "HOST"}},

	// A probe fails.
	{name: "readiness probe", pod: func(p *corev1.Pod) { p.Spec.Containers[0].ReadinessProbe = probe(1) },
		want: why.ReadinessProbeFailing, causeTexts: []string{"biz", "HOST"}},
	{name: "liveness probe", pod: func(p *corev1.Pod) { p.Spec.Containers[0].LivenessProbe = probe(1) },
		want: why.LivenessProbeFailing, causeTexts: []string{"HOST"}},

	// The target is a workload.
	{name: "stuck rollout", create: func(s *fixture) {
		s.deployment(1, nil)
		s.waitReason("deployment/x", why.WorkloadReady)
		s.failCommand("installBiz", fault.CodeInstallBizUserError,
			"java.lang.IllegalStateException: no bean of that name")
		s.update(func(d *appsv1.Deployment) {
			d.Spec.Template.Spec.Containers[0] = module.Container("biz", "2.0.0")
			d.Spec.Template.Spec.Containers[0].Resources = corev1.ResourceRequirements{}
		})
	}, target: "deployment/x", want: why.RolloutStuck, because: why.ModuleBroken,
		causeTexts: []string{"1 of 1 Pods", "no bean of that name"}},
	{name: "quota", create: func(s *fixture) {
		_, err := client.CoreV1().ResourceQuotas(s.name).Create(s.ctx,
			&corev1.ResourceQuota{ObjectMeta: metav1.ObjectMeta{Name: "few"},
				Spec: corev1.ResourceQuotaSpec{
					Hard: corev1.ResourceList{corev1.ResourcePods: resource.MustParse("0")}}}, metav1.CreateOptions{})
		must(s.t, err)
		s.deployment(1, nil)
	}, target: "deployment/x", want: why.QuotaExceeded, causeTexts: []string{"exceeded quota: few"}},
	{name: "rejected Pods of a Deployment", create: func(s *fixture) {
		s.deployment(1, func(d *appsv1.Deployment) { d.Spec.Template.Spec.ServiceAccountName = "nobody" })
	}, target: "deployment/x", want: why.PodsRefused, causeTexts: []string{"nobody"}},
	{name: "rejected Pods of a DaemonSet", create: func(s *fixture) {
		s.daemonSet(func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.ServiceAccountName = "nobody" })
	}, target: "daemonset/x", want: why.PodsRefused, causeTexts: []string{"nobody"}},
	{name: "peer Deployment without bases", withoutBase: true, create: func(s *fixture) { s.deployment(1, peer) },
		target: "deployment/x", want: why.PeerWithoutBases, because: why.WrongBaseName,
		causeTexts: []string{`"SCENE"`}},
	{name: "corrected StatefulSet with a failed Pod", create: func(s *fixture) {
		set, err := client.AppsV1().StatefulSets(s.name).Create(s.ctx,
			module.StatefulSet(s.name, "x", 1, s.template(image("oss://bucket/biz.jar"))), metav1.CreateOptions{})
		must(s.t, err)
		s.waitReason("sts/x", why.PodNotReady, "oss://")
		_, err = client.AppsV1().StatefulSets(s.name).Patch(s.ctx, set.Name, types.JSONPatchType,
			[]byte(`[{"op": "replace", "path": "/spec/template/spec/containers/0/image", "value": "https://modules.example/biz-1.0.0-ark-biz.jar"}]`), metav1.PatchOptions{})
		must(s.t, err)
	}, target: "sts/x", want: why.OutdatedPodNotReady, because: why.ImageNotAJar, causeTexts: []string{"Pod x-0"}},
}

func (s *fixture) deployment(replicas int32, change func(*appsv1.Deployment)) {
	s.t.Helper()
	d := module.Deployment(s.name, "x", replicas, s.template())
	d.Spec.Strategy.RollingUpdate = &appsv1.RollingUpdateDeployment{MaxUnavailable: ptr.To(intstr.FromInt(0)),
		MaxSurge: ptr.To(intstr.FromInt(1))}
	if change != nil {
		change(d)
	}
	_, err := client.AppsV1().Deployments(s.name).Create(s.ctx, d, metav1.CreateOptions{})
	must(s.t, err)
}

func (s *fixture) update(change func(*appsv1.Deployment)) {
	s.t.Helper()
	eventually(s.t, "the Deployment is changed", func(ctx context.Context) error {
		d, err := client.AppsV1().Deployments(s.name).Get(ctx, "x", metav1.GetOptions{})
		if err == nil {
			change(d)
			_, err = client.AppsV1().Deployments(s.name).Update(ctx, d, metav1.UpdateOptions{})
		}
		return err
	})
}

func (s *fixture) daemonSet(change func(*appsv1.DaemonSet)) {
	s.t.Helper()
	d := module.DaemonSet(s.name, "x", s.template())
	if change != nil {
		change(d)
	}
	_, err := client.AppsV1().DaemonSets(s.name).Create(s.ctx, d, metav1.CreateOptions{})
	must(s.t, err)
}

func peer(d *appsv1.Deployment) {
	d.Labels = map[string]string{labels.Component: labels.ModuleDeployment, labels.Strategy: labels.Peer}
}

// TestWhy checks that why explains the state of objects in a sandbox with the correct reason.
func TestWhy(t *testing.T) {
	t.Run("cases", func(t *testing.T) {
		// Create all bases before the first fault, because the controller treats faults of most bases as an outage.
		scenes := make([]*fixture, len(whyCases))
		for i, c := range whyCases {
			var set *v1alpha1.BaseSet
			if !c.withoutBase {
				set = &c.base
			}
			scenes[i] = newFixture(t, fmt.Sprintf("why-%02d", i), set)
		}
		for i, c := range whyCases {
			t.Run(c.name, func(t *testing.T) {
				t.Parallel()
				s := scenes[i].forSubtest(t, !c.withoutBase)
				if c.pod != nil {
					s.pod("x", c.pod)
				} else {
					c.create(s)
				}
				if a := s.waitReason(cmp.Or(c.target, "pod/x"), c.want, c.causeTexts...); a.Because != c.because {
					t.Errorf("the answer is because of %q, want %q: %s", a.Because, c.because, a.Cause)
				}
			})
		}
	})
	t.Run("outages", testOutages)
}

func act(t *testing.T, component string, action sandbox.Action) {
	t.Helper()
	must(t, up.Act(t.Context(), sandbox.ActRequest{Component: component, Action: action}))
}

// requireCommandReason fails the test unless the command koupsandbox why prints the reason.
func requireCommandReason(t *testing.T, s *fixture, target string, want why.Reason) {
	t.Helper()
	r, err := shared.Run(s.ctx, "why", target, "-n", s.name, "-o", "json")
	must(t, err)
	var a why.Answer
	if err := json.Unmarshal([]byte(r.Out), &a); err != nil || r.Status != 0 || a.Reason != want {
		t.Errorf("koupsandbox why %s: %v: %+v", target, err, r)
	}
}

// testOutages stops components, and checks that why explains the effects of each outage.
func testOutages(t *testing.T) {
	s := newFixture(t, "why-outage", &v1alpha1.BaseSet{}).forSubtest(t, true)
	s.pod("ready")
	s.waitReason("pod/ready", why.PodReady)

	requireCommandReason(t, s, "pod/ready", why.PodReady)
	act(t, "kube-scheduler", "stop")
	s.pod("unscheduled")
	s.waitReason("pod/unscheduled", why.NotScheduledYet, "HOST")
	act(t, "kube-scheduler", "start")

	act(t, "kube-controller-manager", "stop")
	s.deployment(1, nil)
	s.waitReason("deployment/x", why.WorkloadNotSeen, "kube-controller-manager")
	act(t, "kube-controller-manager", "start")
	s.waitReason("deployment/x", why.WorkloadReady)

	act(t, "broker", "stop")
	s.pod("pending", release("2.0.0"))
	s.waitReason("pod/pending", why.ControllerBlind, "TunnelDown", "HOST")
	s.waitReason("node/HOST", why.ControllerBlind, "TunnelDown")
	metrics, err := shared.ControllerMetrics(t.Context())
	must(t, err)
	if n, connected := metrics.Sum("module_controller_bases_unobserved",
		nil), metrics.Sum("module_controller_tunnel_connected", nil); n == 0 || connected != 0 {
		t.Errorf("without the broker, module_controller_bases_unobserved is %v and "+
			"module_controller_tunnel_connected is %v", n, connected)
	}
	act(t, "broker", "start")
	s.waitReason("pod/pending", why.PodReady)

	act(t, "module-controller", "stop")
	s.pod("alone", named("alone"))
	s.waitReason("pod/alone", why.ControllerNotRunning, "to manage HOST")
	s.waitReason("node/HOST", why.ControllerNotRunning, "to manage HOST")
	s.pod("intolerant", func(p *corev1.Pod) { p.Spec.Tolerations = p.Spec.Tolerations[:1] })
	s.waitReason("pod/intolerant", why.ControllerNotRunning, "schedule.koupleless.io/node-env=dev:NoExecute")
	s.deletePod("pending")
	if a := s.waitReason("pod/pending", why.TerminatingUnserved,
		"no controller uninstalls"); a.Because != why.ControllerNotRunning {
		t.Errorf("the answer is because of %q: %s", a.Because, a.Cause)
	}
	act(t, "module-controller", "start")
	s.waitReason("pod/alone", why.PodReady)
}
