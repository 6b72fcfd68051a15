package board

import (
	"encoding/json"
	"fmt"
	"strconv"
	"testing"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/intstr"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/revision"
)

// template returns a Pod template that contains one module in the given version.
func template(version string) corev1.PodTemplateSpec {
	return corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{labels.Component: labels.Module, "app": "stock"}},
		Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "biz1",
			Image: "https://modules/biz1-" + version + ".jar",
			Env:   []corev1.EnvVar{{Name: labels.VersionEnv, Value: version}}}}},
	}
}

var selector = &metav1.LabelSelector{MatchLabels: map[string]string{"app": "stock"}}

func named(uid string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: "stock", UID: types.UID(uid), ResourceVersion: "1"}
}

func ownedBy(kind, uid, name string) metav1.ObjectMeta {
	return metav1.ObjectMeta{Namespace: "default", Name: name, UID: types.UID(name + uid), ResourceVersion: "1",
		Labels: map[string]string{"app": "stock"},
		OwnerReferences: []metav1.OwnerReference{
			{Kind: kind, Name: "stock", UID: types.UID(uid), Controller: ptr.To(true)}}}
}

// replicaSet returns a revision of the Deployment. controllerRevisionOf returns a revision of a DaemonSet or
// StatefulSet. Both return objects like the ones that the Kubernetes controllers create.
func replicaSet(number int, version string) *appsv1.ReplicaSet {
	s := &appsv1.ReplicaSet{ObjectMeta: ownedBy("Deployment", "d", "stock-"+version),
		Spec: appsv1.ReplicaSetSpec{Template: template(version)}}
	s.Annotations = map[string]string{revision.Annotation: strconv.Itoa(number)}
	s.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "hash" + version
	s.Spec.Template.Labels[appsv1.DefaultDeploymentUniqueLabelKey] = "hash" + version
	return s
}

func controllerRevisionOf(kind, uid string, number int64, version string) *appsv1.ControllerRevision {
	text, err := json.Marshal(template(version))
	if err != nil {
		panic(err)
	}
	var fields map[string]any
	if err := json.Unmarshal(text, &fields); err != nil {
		panic(err)
	}
	fields["$patch"] = "replace"
	text, err = json.Marshal(map[string]any{"spec": map[string]any{"template": fields}})
	if err != nil {
		panic(err)
	}
	return &appsv1.ControllerRevision{ObjectMeta: ownedBy(kind, uid, fmt.Sprintf("stock-%s-%d", uid, number)),
		Revision: number, Data: runtime.RawExtension{Raw: text}}
}

// rollouts returns the objects of a cluster with one workload of each kind, each in its second revision.
func rollouts() *fake.Clientset {
	daemons := &appsv1.DaemonSet{ObjectMeta: named("ds"),
		Spec: appsv1.DaemonSetSpec{Selector: selector, Template: template("2"),
			UpdateStrategy: appsv1.DaemonSetUpdateStrategy{Type: appsv1.RollingUpdateDaemonSetStrategyType,
				RollingUpdate: &appsv1.RollingUpdateDaemonSet{MaxUnavailable: ptr.To(intstr.FromInt32(1))}}},
		Status: appsv1.DaemonSetStatus{DesiredNumberScheduled: 3, CurrentNumberScheduled: 3, UpdatedNumberScheduled: 2,
			NumberReady: 2, NumberAvailable: 2, NumberUnavailable: 1}}
	hashed := controllerRevisionOf("DaemonSet", "ds", 2, "2")
	hashed.Labels[appsv1.ControllerRevisionHashLabelKey] = "hash2"
	return fake.NewClientset(
		&appsv1.Deployment{ObjectMeta: named("d"),
			Spec: appsv1.DeploymentSpec{Replicas: ptr.To[int32](4), Selector: selector, Template: template("2"),
				Strategy: appsv1.DeploymentStrategy{Type: appsv1.RollingUpdateDeploymentStrategyType,
					RollingUpdate: &appsv1.RollingUpdateDeployment{MaxSurge: ptr.To(intstr.FromString("25%")),
						MaxUnavailable: ptr.To(intstr.FromInt32(0))}}},
			Status: appsv1.DeploymentStatus{Replicas: 5, UpdatedReplicas: 2, ReadyReplicas: 4, AvailableReplicas: 4,
				UnavailableReplicas: 1}},
		replicaSet(1, "1"), replicaSet(2, "2"),
		daemons, controllerRevisionOf("DaemonSet", "ds", 1, "1"), hashed,
		&appsv1.StatefulSet{ObjectMeta: named("ss"),
			Spec: appsv1.StatefulSetSpec{Replicas: ptr.To[int32](5), Selector: selector, Template: template("2"),
				UpdateStrategy: appsv1.StatefulSetUpdateStrategy{Type: appsv1.RollingUpdateStatefulSetStrategyType,
					RollingUpdate: &appsv1.RollingUpdateStatefulSetStrategy{Partition: ptr.To[int32](3)}}},
			Status: appsv1.StatefulSetStatus{Replicas: 5, UpdatedReplicas: 2, ReadyReplicas: 5, AvailableReplicas: 5,
				CurrentRevision: "stock-ss-1", UpdateRevision: "stock-ss-2"}},
		controllerRevisionOf("StatefulSet", "ss", 1, "1"), controllerRevisionOf("StatefulSet", "ss", 2, "2"),
	)
}

// TestRolloutsAreShown checks that the rows of a rollout show its limits, batches, paused Pods and revisions.
func TestRolloutsAreShown(t *testing.T) {
	x := serve(t, Options{API: rollouts(), Title: "prod"}, nil).stream(t)
	x.until("all workloads and revisions",
		func() bool { return len(x.tables.Workload) == 3 && len(x.tables.Revision) == 6 })
	v := func(version string) []events.ModuleRef { return []events.ModuleRef{{Name: "biz1", Version: version}} }
	want := Tables{
		Workload: map[string]WorkloadRow{
			"deployment/default/stock": {Kind: "deployment", Namespace: "default", Name: "stock", Modules: v("2"),
				Desired: 4, Updated: 2, Ready: 4, Available: 4, Total: 5,
				Unavailable: 1, Strategy: "RollingUpdate, +25% −0", State: WorkloadRolling},
			"daemonset/default/stock": {Kind: "daemonset", Namespace: "default", Name: "stock", Modules: v("2"),
				Desired: 3, Updated: 2, Ready: 2, Available: 2, Total: 3,
				Unavailable: 1, Strategy: "RollingUpdate, −1", Revision: 2, State: WorkloadRolling},
			"statefulset/default/stock": {Kind: "statefulset", Namespace: "default", Name: "stock", Modules: v("2"),
				Desired: 5, Updated: 2, Ready: 5, Available: 5, Total: 5,
				Strategy: "RollingUpdate, partition 3", Partition: 3, Revision: 2, Paused: true, State: WorkloadPaused},
		},
		Revision: map[string]RevisionRow{
			"deployment/default/stock/stock-1": {Workload: "deployment/default/stock", Number: 1, Hash: "hash1",
				Modules: v("1")},
			"deployment/default/stock/stock-2": {Workload: "deployment/default/stock", Number: 2, Hash: "hash2",
				Modules: v("2")},
			"daemonset/default/stock/stock-ds-1": {Workload: "daemonset/default/stock", Number: 1, Hash: "stock-ds-1",
				Modules: v("1")},
			"daemonset/default/stock/stock-ds-2": {Workload: "daemonset/default/stock", Number: 2, Hash: "hash2",
				Modules: v("2")},
			"statefulset/default/stock/stock-ss-1": {Workload: "statefulset/default/stock", Number: 1,
				Hash: "stock-ss-1", Modules: v("1")},
			"statefulset/default/stock/stock-ss-2": {Workload: "statefulset/default/stock", Number: 2,
				Hash: "stock-ss-2", Modules: v("2")},
		},
	}
	if diff := cmp.Diff(want, Tables{Workload: x.tables.Workload, Revision: x.tables.Revision}); diff != "" {
		t.Errorf("rows (-want +got):\n%s", diff)
	}
}

// TestActionsOnRollouts checks that the board can pause, approve and undo the rollouts of all kinds of workloads.
func TestActionsOnRollouts(t *testing.T) {
	for name, c := range map[string]struct {
		action, params string
		status         int
		answer         string
		// paused, partition and versions are the expected state after the action. versions lists the versions of the
		// Deployment, the DaemonSet and the StatefulSet.
		paused    bool
		partition int32
		versions  [3]string
	}{
		"pause a Deployment": {"pause", `{"kind":"deployment","namespace":"default","name":"stock"}`, 200,
			`{"message":"…deployment/stock…","command":"kubectl rollout pause deployment/stock -n default --context prod"}`, true, 3, [3]string{"2", "2", "2"}},
		"approve a Deployment": {"resume", `{"kind":"deployment","namespace":"default","name":"stock"}`, 200,
			`{"message":"…deployment/stock…","command":"kubectl rollout resume deployment/stock -n default --context prod"}`, false, 3, [3]string{"2", "2", "2"}},
		"a DaemonSet has no pause": {"pause", `{"kind":"daemonset","namespace":"default","name":"stock"}`, 400,
			`{"error":"…daemonset…partition…","code":"OtherUpstream.InvalidParameter"}`, false, 3,
			[3]string{"2", "2", "2"}},
		"approve a batch": {"partition", `{"kind":"statefulset","namespace":"default","name":"stock","partition":"1"}`,
			200,
			`{"message":"…statefulset/stock…1…",` +
				`"command":"kubectl patch statefulset/stock -n default -p '{\"spec\":{\"updateStrategy\":{\"rollingUpdate\":{\"partition\":1}}}}' --context prod"}`, false, 1, [3]string{"2", "2", "2"}},
		"a Deployment has no batches": {"partition",
			`{"kind":"deployment","namespace":"default","name":"stock","partition":"1"}`, 400,
			`{"error":"…deployment…partition…","code":"OtherUpstream.InvalidParameter"}`, false, 3,
			[3]string{"2", "2", "2"}},
		"take a Deployment back": {"undo", `{"kind":"deployment","namespace":"default","name":"stock"}`, 200,
			`{"message":"deployment/stock…1","command":"kubectl rollout undo deployment/stock -n default --to-revision 1 --context prod"}`, false, 3, [3]string{"1", "2", "2"}},
		"take a DaemonSet back": {"undo", `{"kind":"daemonset","namespace":"default","name":"stock"}`, 200,
			`{"message":"daemonset/stock…1","command":"kubectl rollout undo daemonset/stock -n default --to-revision 1 --context prod"}`, false, 3, [3]string{"2", "1", "2"}},
		"take a StatefulSet back": {"undo", `{"kind":"statefulset","namespace":"default","name":"stock"}`, 200,
			`{"message":"statefulset/stock…1","command":"kubectl rollout undo statefulset/stock -n default --to-revision 1 --context prod"}`, false, 3, [3]string{"2", "2", "1"}},
		"unsupported kind Job": {"undo", `{"kind":"job","namespace":"default","name":"stock"}`, 400,
			`{"error":"…\"job\"…","code":"OtherUpstream.InvalidParameter"}`, false, 3, [3]string{"2", "2", "2"}},
	} {
		t.Run(name, func(t *testing.T) {
			client := rollouts()
			s := serve(t, Options{API: client, Title: "prod", Flags: []string{"--context", "prod"}, AllowActions: true},
				nil)
			answer := s.ask(t, "POST", "/api/actions/workload."+c.action, c.params)
			if got := text(t, answer); answer.StatusCode != c.status || !matches(got, c.answer) {
				t.Errorf("%d %s\nwant %d %s", answer.StatusCode, got, c.status, c.answer)
			}
			apps, o := client.AppsV1(), metav1.GetOptions{}
			d, err := apps.Deployments("default").Get(t.Context(), "stock", o)
			if err != nil {
				t.Fatal(err)
			}
			ds, err := apps.DaemonSets("default").Get(t.Context(), "stock", o)
			if err != nil {
				t.Fatal(err)
			}
			ss, err := apps.StatefulSets("default").Get(t.Context(), "stock", o)
			if err != nil {
				t.Fatal(err)
			}
			want, got := [3]corev1.PodTemplateSpec{}, [3]corev1.PodTemplateSpec{d.Spec.Template, ds.Spec.Template,
				ss.Spec.Template}
			for i, version := range c.versions {
				want[i] = template(version)
			}
			if diff := cmp.Diff(want, got); diff != "" || d.Spec.Paused != c.paused ||
				*ss.Spec.UpdateStrategy.RollingUpdate.Partition != c.partition {
				t.Errorf("paused %v, partition %d, templates (-want +got):\n%s", d.Spec.Paused,
					*ss.Spec.UpdateStrategy.RollingUpdate.Partition, diff)
			}
		})
	}
}
