package lint_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/lint"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

var now = time.Date(2026, 1, 2, 12, 0, 0, 0, time.UTC)

// cluster returns a Live with a controller and one base. The base has 100 Mi of metaspace, of which a Pod of biz1
// requests 60 Mi.
func cluster() *lint.Live {
	n := corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "vnode.base-1", Labels: map[string]string{
		labels.Component: labels.Vnode, labels.BaseName: "base", corev1.LabelHostname: "base-1",
		corev1.LabelTopologyZone: "z1", "team": "shop"}}}
	n.Spec.Taints = []corev1.Taint{{Key: labels.TaintVirtualNode, Value: "True", Effect: corev1.TaintEffectNoExecute},
		{Key: labels.TaintEnv, Value: "dev", Effect: corev1.TaintEffectNoExecute}}
	n.Status.Allocatable = corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("100Mi")}
	n.Status.Conditions = []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}
	p := corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "shop", Name: "biz1-a",
		Labels: map[string]string{"app": "biz1"}}}
	p.Spec.NodeName = n.Name
	p.Spec.Containers = []corev1.Container{
		{Name: "biz1", Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("60Mi")}}}}
	lease := coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labels.Env: "dev"}},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: ptr.To("c"), LeaseDurationSeconds: ptr.To[int32](15),
			RenewTime: ptr.To(metav1.NewMicroTime(now))}}
	return &lint.Live{Bases: &why.Snapshot{Bases: []corev1.Node{n}, OnBases: []corev1.Pod{p},
		Controllers: []coordinationv1.Lease{lease}}, Now: now, Namespace: "shop",
		Why: func(t why.Target) (why.Answer, error) {
			return why.Answer{}, fmt.Errorf("%s is %w", t, why.ErrNotFound)
		}}
}

// manifest returns a Deployment whose Pods contain biz, select bases by a label and have an additional toleration.
func manifest(name, label, env, memory string) []byte {
	return fmt.Appendf(nil, `apiVersion: apps/v1
kind: Deployment
metadata: {name: %[1]s}
spec:
  selector: {matchLabels: {app: %[1]s}}
  strategy: {rollingUpdate: {maxUnavailable: 0}}
  template:
    metadata: {labels: {app: %[1]s, virtual-kubelet.koupleless.io/component: module}}
    spec:
      nodeSelector: {%[2]s}
      tolerations: [{key: schedule.koupleless.io/virtual-node, operator: Exists}%[3]s]
      containers: [{name: biz1, image: "https://a/biz1-1.0.0-ark-biz.jar", env: [{name: BIZ_VERSION, value: 1.0.0}], resources: {requests: {memory: %[4]s}}}]
`, name, label, env, memory)
}

const dev = ", {key: schedule.koupleless.io/node-env, value: dev, effect: NoExecute}"

// TestLive checks the findings for manifests that do or do not fit the labels, taints and free resources of a
// cluster's Nodes.
func TestLive(t *testing.T) {
	unready := why.Answer{Reason: why.ModuleBroken, Cause: "biz1 is broken", Advice: "fix it"}
	for name, c := range map[string]struct {
		text   []byte
		change func(*lint.Live)
		want   []string // expected findings: "LINE LEVEL RULE WORDS", or only "RULE"
	}{
		"base fits": {manifest("biz2", "base.koupleless.io/name: base", dev, "40Mi"), nil,
			nil},
		"wrong base name": {manifest("biz2", "base.koupleless.io/name: bsae", dev, "1Mi"), nil,
			[]string{`9 error live-nowhere "bsae" base base.koupleless.io/name`}},
		"custom label of the Node": {
			manifest("biz2", "base.koupleless.io/name: base, team: shop", dev, "1Mi"), nil, nil},
		"label without Node": {
			manifest("biz2", "base.koupleless.io/name: base, taem: shop", dev, "1Mi"), nil,
			[]string{"9 error live-nowhere taem=shop"}},
		"another environment": {
			manifest("biz2", "base.koupleless.io/name: base", strings.ReplaceAll(dev, "dev", "test"), "1Mi"), nil,
			[]string{"9 error live-nowhere schedule.koupleless.io/node-env test dev NoExecute"}},
		"missing environment with a controller": {manifest("biz2", "base.koupleless.io/name: base", "", "1Mi"), nil,
			[]string{"11 warning toleration-env bundled ModuleController V2"}},
		"environment with another effect": {
			manifest("biz2", "base.koupleless.io/name: base",
				strings.ReplaceAll(dev, "NoExecute", "NoSchedule"), "1Mi"), nil,
			[]string{"live-nowhere", "11 error toleration-env NoExecute"}},
		"missing environment without a controller": {manifest("biz2", "base.koupleless.io/name: base", "", "1Mi"),
			func(l *lint.Live) { l.Bases.Controllers = nil }, []string{
				"live-nowhere", "toleration-env"}},
		"too little metaspace": {manifest("biz2", "base.koupleless.io/name: base", dev, "50Mi"), nil,
			[]string{"9 error live-nowhere 50 40 base-1 -XX:MaxMetaspaceSize"}},
		"too little metaspace for a limit, which is the default of the request": {
			bytes.Replace(manifest("biz2", "base.koupleless.io/name: base", dev, "50Mi"), []byte("requests"),
				[]byte("limits"), 1), nil, []string{"live-nowhere", "unsupported"}},
		"an operator that does not exist": {
			manifest("biz2", "base.koupleless.io/name: base", strings.Replace(dev, "value: dev", "operator: exists", 1),
				"1Mi"), nil, []string{"shape"}},
		"existing Pods of the workload are replaced": {manifest("biz1", "base.koupleless.io/name: base", dev, "90Mi"),
			nil, nil},
		"Pods of another namespace remain": {manifest("biz1", "base.koupleless.io/name: base", dev, "90Mi"),
			func(l *lint.Live) { l.Namespace = "other" }, []string{"live-nowhere"}},
		"existing object is not Ready": {manifest("biz2", "base.koupleless.io/name: base", dev, "1Mi"),
			is(unready, nil),
			[]string{"1 warning live-unready broken; fix"}},
		"scheduler refuses Pods of the existing object": {manifest("biz2",
			"base.koupleless.io/name: base", dev, "1Mi"),
			is(why.Answer{Reason: why.PodNotReady, Because: why.TopologySpread,
				Cause: "the Pod would break a constraint", Advice: "add a base"}, nil), []string{"live-unready"}},
		"scheduler has not tried Pods of the existing object": {manifest("biz2", "base.koupleless.io/name: base", dev,
			"1Mi"),
			is(why.Answer{Reason: why.PodNotReady, Because: why.NotScheduledYet, Cause: "the scheduler has not tried"},
				nil), []string{"live-unready"}},
		"existing object is young": {manifest("biz2", "base.koupleless.io/name: base", dev, "1Mi"),
			is(why.Answer{Reason: why.PodsNotMade, Young: true, Cause: "0 of 1 Pods exist"}, nil), nil},
		"a version that is not a label value": {manifest("biz2", "base.koupleless.io/version: 1.0.0+7", dev, "1Mi"),
			nil, []string{"label-value"}},
		"existing object is Ready": {manifest("biz2", "base.koupleless.io/name: base", dev, "1Mi"),
			is(why.Answer{Ready: true}, nil), nil},
		"same reason for new and existing Pods": {manifest("biz2", "base.koupleless.io/name: bsae", dev, "1Mi"),
			is(why.Answer{Reason: why.RolloutStuck, Because: why.WrongBaseName, Cause: "no base is named \"bsae\""},
				nil), []string{"live-nowhere"}},
		"existing object cannot be read": {manifest("biz2", "base.koupleless.io/name: base", dev, "1Mi"),
			is(why.Answer{}, errors.New("no permission")),
			[]string{"1 error live-unready permission; koupsandbox why"}},
	} {
		t.Run(name, func(t *testing.T) {
			live := cluster()
			if c.change != nil {
				c.change(live)
			}
			findings := lint.Lint([]lint.Input{{Name: "f.yaml", Text: c.text}}, lint.Options{Live: live}).Findings
			slices.SortFunc(findings, func(a, b lint.Finding) int { return strings.Compare(a.Rule, b.Rule) })
			if len(findings) != len(c.want) {
				t.Fatalf("findings %v, want %q", findings, c.want)
			}
			for i, f := range findings {
				prefix := fmt.Sprintf("%d %s %s ", f.Line, f.Level, f.Rule)
				names, whole := strings.CutPrefix(c.want[i], prefix)
				if !whole && f.Rule != c.want[i] || f.Object == "" {
					t.Errorf("finding %s, want %s", f, c.want[i])
				} else if whole {
					check.ContainsWords(t, f.Message+"; "+f.Fix, names)
				}
			}
		})
	}
}

// is returns a change that makes Why return the given answer for deployment/biz2 in the namespace shop.
func is(a why.Answer, err error) func(*lint.Live) {
	return func(l *lint.Live) {
		others := l.Why
		l.Why = func(t why.Target) (why.Answer, error) {
			if t != (why.Target{Kind: why.KindDeployment, Namespace: "shop", Name: "biz2"}) {
				return others(t)
			}
			return a, err
		}
	}
}

// TestZoneOfLiveNodes checks that anti-affinity by the zone label is accepted only if the Nodes of the cluster have
// this label.
func TestZoneOfLiveNodes(t *testing.T) {
	text := strings.Replace(string(manifest("biz2", "base.koupleless.io/name: base", dev, "1Mi")),
		"      nodeSelector:",
		`      affinity: {podAntiAffinity: {requiredDuringSchedulingIgnoredDuringExecution: [{topologyKey: topology.kubernetes.io/zone, labelSelector: {matchLabels: {app: biz2}}}]}}
      nodeSelector:`, 1)
	inputs := []lint.Input{{Name: "f.yaml", Text: []byte(text)}}
	if got := lint.Lint(inputs, lint.Options{Env: "dev"}).Findings; len(got) != 1 || got[0].Rule != "topology-zone" {
		t.Errorf("without a cluster: %v", got)
	}
	live := cluster()
	if got := lint.Lint(inputs, lint.Options{Live: live}).Findings; len(got) != 0 {
		t.Errorf("with zones: %v", got)
	}
	delete(live.Bases.Bases[0].Labels, corev1.LabelTopologyZone)
	if got := lint.Lint(inputs, lint.Options{Live: live}).Findings; len(got) != 1 || got[0].Rule != "topology-zone" {
		t.Errorf("with a Node without a zone: %v", got)
	}
}
