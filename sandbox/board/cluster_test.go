package board

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/fake"
	kubetesting "k8s.io/client-go/testing"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

func aNode(host string, ready corev1.ConditionStatus) *corev1.Node {
	memory := func(text string) corev1.ResourceList {
		return corev1.ResourceList{corev1.ResourceMemory: resource.MustParse(text)}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "vnode.id-" + host, UID: "node", ResourceVersion: "1",
			Labels: map[string]string{labels.Component: labels.Vnode, labels.BaseHost: host, labels.BaseName: "shop",
				labels.BaseVersion: "1.0.0",
				labels.BaseCluster: "east", labels.Tunnel: "mqtt_tunnel_provider",
				corev1.LabelTopologyZone: "vnode.id-" + host},
			Annotations: map[string]string{labels.Identity: "id-" + host, labels.Holder: "mc-1",
				labels.ReleasesLeft: "7"}},
		Status: corev1.NodeStatus{Capacity: memory("256Mi"), Allocatable: memory("200Mi"),
			Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: "10.0.0.1"}},
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready}}},
	}
}

func aPod(node string) *corev1.Pod {
	return &corev1.Pod{
		ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "stock-abc-x", UID: "pod-1", ResourceVersion: "1",
			Labels: map[string]string{labels.Component: labels.Module,
				appsv1.DefaultDeploymentUniqueLabelKey: "abc"},
			OwnerReferences: []metav1.OwnerReference{
				{Kind: "ReplicaSet", Name: "stock-abc", Controller: ptr.To(true)}}},
		Spec: corev1.PodSpec{NodeName: node,
			Containers: []corev1.Container{{Name: "biz1",
				Env: []corev1.EnvVar{{Name: labels.VersionEnv, Value: "1.0.0"}},
				Resources: corev1.ResourceRequirements{
					Requests: corev1.ResourceList{corev1.ResourceMemory: resource.MustParse("16Mi")}}}}},
		Status: corev1.PodStatus{Phase: corev1.PodRunning,
			Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}},
			ContainerStatuses: []corev1.ContainerStatus{
				{Name: "biz1", State: corev1.ContainerState{Running: &corev1.ContainerStateRunning{}}}}},
	}
}

// TestModuleState checks that only a failed module is shown as broken.
func TestModuleState(t *testing.T) {
	for reason, want := range map[string]events.ModuleState{
		"": events.ModuleResolved, api.ReasonContainerCreating: events.ModuleResolved,
		api.ReasonResolved: events.ModuleResolved, api.ReasonReplacing: events.ModuleResolved,
		api.ReasonDeactivated: events.ModuleDeactivated, api.ReasonNotActivated: events.ModuleDeactivated,
		api.ReasonBroken: events.ModuleBroken, errcode.ArkletPullBizError.Type(): events.ModuleBroken,
	} {
		p := aPod("")
		p.Status.ContainerStatuses[0].State = corev1.ContainerState{
			Waiting: &corev1.ContainerStateWaiting{Reason: reason}}
		if got := moduleState(p, "biz1"); got != want {
			t.Errorf("%q: got %s, want %s", reason, got, want)
		}
	}
}

// TestACluster checks a board that shows a cluster without a daemon. The board must show the bases and Pods from the
// Kubernetes API alone, and a notice must report a missing permission.
func TestACluster(t *testing.T) {
	client := fake.NewClientset(aNode("base-1", corev1.ConditionTrue), aPod("vnode.id-base-1"))
	client.PrependReactor("list", "daemonsets", func(kubetesting.Action) (bool, runtime.Object, error) {
		return true, nil, apierrors.NewForbidden(schema.GroupResource{Group: "apps", Resource: "daemonsets"}, "", nil)
	})
	x := serve(t, Options{API: client, Title: "prod", Flags: []string{"--context", "prod"}}, nil).stream(t)
	x.until("the Pod and the notice", func() bool {
		return x.tables.Pod["pod-1"].Ready && len(x.tables.Base["base-1"].Modules) == 1 && len(x.tables.Notice) == 1
	})
	got := x.tables.Base["base-1"]
	since := got.Modules[0].Since
	want := BaseRow{Name: "base-1", State: events.BaseStateReady, Health: HealthGood, Identity: "id-base-1",
		Zone: "east", BaseName: "shop", Version: "1.0.0", IP: "10.0.0.1", Tunnel: "mqtt",
		Node: "vnode.id-base-1", NodeState: "Ready", Controller: "mc-1", MetaspaceMax: 256 << 20,
		MetaspaceUsed: 72 << 20, ReleasesLeft: "7",
		Modules: []ModuleOnBase{{Name: "biz1", Version: "1.0.0", State: "ACTIVATED", Since: since}}}
	if diff := cmp.Diff(want, got); diff != "" || since == 0 {
		t.Errorf("the base (-want +got):\n%s", diff)
	}
	if p := x.tables.Pod["pod-1"]; p.Workload != "deployment/default/stock" || p.Base != "base-1" {
		t.Errorf("the Pod is %+v", p)
	}
	if n := x.tables.Notice["DaemonSets"]; !strings.HasPrefix(n.Text, "DaemonSets ") {
		t.Errorf("notices %+v", x.tables.Notice)
	}
	if b := x.tables.Board["board"]; b.Source != SourceCluster || !b.CanWhy || b.Actions != nil {
		t.Errorf("board row: %+v", b)
	}
	if _, err := client.CoreV1().Nodes().Update(t.Context(), aNode2("base-1", corev1.ConditionUnknown),
		metav1.UpdateOptions{}); err != nil {
		t.Fatal(err)
	}
	x.until("the base is away", func() bool {
		return x.tables.Base["base-1"].State == events.BaseStateDisconnected &&
			x.tables.Base["base-1"].Health == HealthWarn
	})
	if err := client.CoreV1().Nodes().Delete(t.Context(), "vnode.id-base-1", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	x.until("the base is gone", func() bool { return len(x.tables.Base) == 0 })
}

func aNode2(host string, ready corev1.ConditionStatus) *corev1.Node {
	n := aNode(host, ready)
	n.ResourceVersion = "2"
	return n
}

func TestFindings(t *testing.T) {
	event := func(base string, change events.BaseChange) events.Event {
		return events.Event{Base: &events.BaseEvent{Base: base, Change: change}}
	}
	module := func(base, version string, state events.ModuleState) events.Event {
		return events.Event{Module: &events.ModuleEvent{Base: base,
			ModuleRef: events.ModuleRef{Name: "biz1", Version: version}, State: state}}
	}
	connected := []events.Event{event("a", "ready"), event("a", "connected"), event("b", "ready"),
		event("b", "connected"), event("c", "ready"), event("c", "connected")}
	everywhere := WorkloadRow{Kind: "daemonset", Name: "biz1",
		Modules: []events.ModuleRef{{Name: "biz1", Version: "1"}}, Desired: 3}
	equal := []events.Event{module("a", "1", "ACTIVATED"), module("b", "1", "ACTIVATED")}
	for name, c := range map[string]struct {
		events []events.Event
		of     *WorkloadRow
		after  time.Duration
		want   errcode.Code
		bases  []string
	}{
		"all is well": {events: append(equal, module("c", "1", "ACTIVATED")), of: &everywhere,
			after: time.Minute},
		"two of three unreachable": {events: []events.Event{event("a", "disconnected"), event("b", "down")},
			want: errcode.ModuleControllerOverFiftyPercentBaseInstancesUnavaliable, bases: []string{"a", "b"}},
		"one of three unreachable": {events: []events.Event{event("a", "disconnected")}, after: heartbeatInterval,
			want: errcode.ModuleControllerBaseInstanceNotReady, bases: []string{"a"}},
		"one of three down": {events: []events.Event{event("a", "down")}, after: heartbeatInterval,
			want: errcode.ModuleControllerBaseInstanceNotReady, bases: []string{"a"}},
		"one of three restarts": {events: []events.Event{event("a", "down")}, after: heartbeatInterval / 2},
		"one is broken": {events: []events.Event{module("b", "1", "BROKEN")},
			want: errcode.ModuleControllerBaseInstanceOperationFailed, bases: []string{"b"}},
		"an installation is in progress": {events: []events.Event{module("b", "1", "RESOLVED")}, after: time.Minute},
		"an installation never ends": {events: []events.Event{module("b", "1", "RESOLVED")},
			after: api.InstallTimeout + time.Second, want: errcode.ModuleControllerBaseInstanceOperationTimeOut,
			bases: []string{"b"}},
		"module missing on one base": {events: equal, of: &everywhere, after: time.Minute,
			want: errcode.KouplelessBoardBaselineInconsistency, bases: []string{"c"}},
		"another version on one base": {events: append(equal, module("c", "2", "ACTIVATED")), of: &everywhere,
			after: time.Minute, want: errcode.KouplelessBoardBaselineInconsistency, bases: []string{"c"}},
		"one lacks it for a moment": {events: equal, of: &everywhere},
		"one lacks it during a release": {events: equal,
			of: &WorkloadRow{Kind: "daemonset", Name: "biz1", Modules: []events.ModuleRef{{Name: "biz1", Version: "1"}},
				Desired: 3, State: WorkloadRolling}, after: time.Minute},
		"not all are to have it": {events: equal,
			of: &WorkloadRow{Kind: "deployment", Name: "biz1",
				Modules: []events.ModuleRef{{Name: "biz1", Version: "1"}}, Desired: 2}, after: time.Minute},
	} {
		t.Run(name, func(t *testing.T) {
			w := newBoardState(BoardRow{})
			w.endInitialEvents()
			for _, base := range []string{"a", "b", "c"} {
				w.nodeChanged(aNode(base, corev1.ConditionTrue), false, began)
			}
			for _, e := range append(append([]events.Event{}, connected...), c.events...) {
				e.Time = began
				w.addEvent(e)
			}
			if c.of != nil {
				w.workloadChanged(*c.of, true, false)
			}
			w.flush(began)
			w.flush(began.Add(findingsInterval))
			w.flush(began.Add(findingsInterval + c.after))
			var got []FindingRow
			for _, f := range w.findings {
				if f.shown {
					got = append(got, f.row)
				}
			}
			if c.want == "" {
				if len(got) > 0 {
					t.Errorf("found %+v", got)
				}
				return
			}
			if len(got) != 1 || got[0].Code != string(c.want) || !cmp.Equal(c.bases, got[0].Bases) ||
				got[0].Text == "" || got[0].Chinese == "" || got[0].AdviceChinese == "" {
				t.Fatalf("found %+v, want %s on %v", got, c.want, c.bases)
			}
			for _, base := range []string{"a", "b", "c"} {
				w.addEvent(events.Event{Time: began, Base: &events.BaseEvent{Base: base, Change: "removed"}})
			}
			w.flush(began.Add(time.Hour))
			if len(w.findings) != 0 {
				t.Errorf("findings after the bases were removed: %+v", w.findings)
			}
		})
	}
}

// TestLostRequestsAreFound checks that a finding reports lost requests until lossTime after the last loss.
func TestLostRequestsAreFound(t *testing.T) {
	w := newBoardState(BoardRow{})
	w.endInitialEvents()
	found := func(now time.Time) bool {
		w.flush(now)
		f := w.findings["RequestsLost /web"]
		return f != nil && f.shown
	}
	now := began
	for i, c := range []struct {
		lost int
		want bool
	}{{5, false}, {5, false}, {6, true}, {6, true}} { // the first losses are older than the board
		now = now.Add(lossTime / 2)
		w.streamChanged("", traffic.Summary{Name: "web", Sent: 100 * i, Lost: c.lost}, now)
		if got := found(now); got != c.want {
			t.Errorf("%d: found: %t, want %t", i, got, c.want)
		}
	}
	if found(now.Add(lossTime)) {
		t.Error("the finding is shown although no more requests are lost")
	}
}

// TestStoppedComponentIsFound checks that a component of the sandbox that is not running is a finding until it runs
// again, and that a short restart and the controllers of a cluster are not.
func TestStoppedComponentIsFound(t *testing.T) {
	for _, state := range []events.ComponentState{events.ComponentExited, events.ComponentPaused} {
		for _, noDaemon := range []bool{false, true} {
			w := newBoardState(BoardRow{})
			w.noDaemon = noDaemon
			w.endInitialEvents()
			found := func(now time.Time, state events.ComponentState) bool {
				w.addEvent(events.Event{Time: now,
					Component: &events.ComponentEvent{Name: "module-controller", State: state}})
				w.flush(now)
				f := w.findings["ComponentNotRunning module-controller"]
				return f != nil && f.shown
			}
			if found(began, events.ComponentRunning) || found(began.Add(time.Second), state) {
				t.Errorf("%s: a component that runs or restarts is a finding", state)
			}
			if got := found(began.Add(time.Second+settleTime), state); got == noDaemon {
				t.Errorf("%s, no daemon: %t: found: %t", state, noDaemon, got)
			}
			if found(began.Add(time.Minute), events.ComponentRunning) {
				t.Errorf("%s: the finding is shown although the component runs again", state)
			}
		}
	}
}
