package kube

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	typedfake "k8s.io/client-go/kubernetes/fake"

	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/apitest"
)

func TestRollout(t *testing.T) {
	const deployment = `{apiVersion: apps/v1, kind: Deployment, metadata: {name: d, generation: 2}, `
	const daemonSet = `{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d, generation: 2}, `
	const statefulSet = `{apiVersion: apps/v1, kind: StatefulSet, metadata: {name: d, generation: 2}, `
	tests := []struct {
		name, object string
		want         Progress
	}{
		{"not seen yet", deployment +
			`spec: {replicas: 2}, status: {observedGeneration: 1, replicas: 2, updatedReplicas: 2, availableReplicas: 2}}`,
			Progress{Reason: NotObserved, Have: 1, Want: 2}},
		{"new Pods are missing",
			deployment + `spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 2, updatedReplicas: 1, availableReplicas: 2}}`,
			Progress{Reason: NotUpdated, Have: 1, Want: 2}},
		{"old Pods are left", deployment +
			`spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 3, updatedReplicas: 2, availableReplicas: 3}}`,
			Progress{Reason: OldPods, Have: 1}},
		{"not available", deployment +
			`spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 1}}`,
			Progress{Reason: NotAvailable, Have: 1, Want: 2}},
		{"complete", deployment +
			`spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 2}}`,
			Progress{Done: true, Reason: Complete, Have: 2, Want: 2}},
		{"replicas by default",
			deployment + `spec: {}, status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, availableReplicas: 1}}`,
			Progress{Done: true, Reason: Complete, Have: 1, Want: 1}},
		{"wants nothing", deployment + `spec: {replicas: 0}, status: {observedGeneration: 2}}`,
			Progress{Reason: NoReplicas}},
		{"hopeless", deployment +
			`spec: {replicas: 2}, status: {observedGeneration: 2, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded, message: too slow}]}}`,
			Progress{Failed: true, Reason: DeadlineExceeded, Detail: "too slow"}},
		{"of the version before",
			deployment + `spec: {replicas: 1}, status: {observedGeneration: 1, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}}`,
			Progress{Reason: NotObserved, Have: 1, Want: 2}},

		{"no Node fits", daemonSet + `spec: {}, status: {observedGeneration: 2}}`, Progress{Reason: NoNode}},
		{"not updated", daemonSet +
			`spec: {}, status: {observedGeneration: 2, desiredNumberScheduled: 2, updatedNumberScheduled: 1, numberAvailable: 2}}`,
			Progress{Reason: NotUpdated, Have: 1, Want: 2}},
		{"not available", daemonSet +
			`spec: {}, status: {observedGeneration: 2, desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 1}}`,
			Progress{Reason: NotAvailable, Have: 1, Want: 2}},
		{"complete", daemonSet +
			`spec: {}, status: {observedGeneration: 2, desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 2}}`,
			Progress{Done: true, Reason: Complete, Have: 2, Want: 2}},
		{"by hand", daemonSet + `spec: {updateStrategy: {type: OnDelete}}, status: {}}`,
			Progress{Failed: true, Reason: OnDelete}},

		{"not Ready", statefulSet + `spec: {replicas: 3}, status: {observedGeneration: 2, readyReplicas: 2}}`,
			Progress{Reason: PodsNotReady, Have: 2, Want: 3}},
		{"not updated", statefulSet +
			`spec: {replicas: 3}, status: {observedGeneration: 2, readyReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}}`,
			Progress{Reason: NotUpdated, Have: 1, Want: 3}},
		{"a part is updated", statefulSet +
			`spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}}, status: {observedGeneration: 2, readyReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}}`,
			Progress{Done: true, Reason: Complete, Have: 3, Want: 1}},
		{"complete", statefulSet +
			`spec: {replicas: 3}, status: {observedGeneration: 2, readyReplicas: 3, updatedReplicas: 3, currentRevision: b, updateRevision: b}}`,
			Progress{Done: true, Reason: Complete, Have: 3, Want: 3}},

		{"no rollout", `{apiVersion: v1, kind: Pod, metadata: {name: p}}`,
			Progress{Failed: true, Reason: NoRollout}},
	}
	for _, tt := range tests {
		o := apitest.Object(t, tt.object)
		t.Run(o.GetKind()+" "+tt.name, func(t *testing.T) {
			got := Rollout(o)
			if diff := cmp.Diff(tt.want.withObject(o), got); diff != "" || got.String() == string(got.Reason) {
				t.Errorf("progress (-want +got):\n%s\n%s", diff, got)
			}
		})
	}
}

func TestReady(t *testing.T) {
	const pod = `{apiVersion: v1, kind: Pod, metadata: {name: p}, status: `
	tests := []struct {
		name, object string
		want         Progress
	}{
		{"no conditions", pod + `{}}`, Progress{Reason: NoCondition}},
		{"Ready", pod + `{conditions: [{type: Ready, status: "True"}]}}`, Progress{Done: true, Reason: Complete}},
		{"not Ready", pod + `{conditions: [{type: Ready, status: "False", reason: A, message: b}]}}`,
			Progress{Reason: NotReady, Detail: "(False), A, b"}},
		{"unknown", pod + `{conditions: [{type: Ready, status: Unknown}]}}`,
			Progress{Reason: NotReady, Detail: "(Unknown)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := apitest.Object(t, tt.object)
			if diff := cmp.Diff(tt.want.withObject(o), Ready(o)); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
		})
	}
}

// TestBind checks that Bind restricts all Pods of a run to the bases of the run, for all object kinds.
func TestBind(t *testing.T) {
	const of, and = "metadata: {labels: {virtual-kubelet.koupleless.io/component: module}}, spec: " +
		"{containers: [{name: x}]", "}"
	const older = "metadata: {labels: {module-controller.koupleless.io/component: module}}, spec: " +
		"{containers: [{name: x}]"
	const bound = ", nodeSelector: {base.koupleless.io/cluster-name: g}}"
	affinity := func(operator, values string) string {
		return `{nodeAffinity: {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [` +
			`{key: base.koupleless.io/name, operator: In, values: [shop]}, ` +
			`{key: base.koupleless.io/cluster-name, operator: ` + operator + `, values: ` + values + `}]}]}}}`
	}
	tests := []struct{ name, object, want string }{
		{"a module Pod", `{kind: Pod, ` + of + `, nodeSelector: {a: b}}}`,
			`{kind: Pod, ` + of + `, nodeSelector: {a: b, base.koupleless.io/cluster-name: g}}}`},
		{"one base", `{kind: Pod, ` + of + `, nodeSelector: {base.koupleless.io/host-name: base-1}}}`,
			`{kind: Pod, ` + of +
				`, nodeSelector: {base.koupleless.io/host-name: g-base-1, base.koupleless.io/cluster-name: g}}}`},
		{"one base, by its whole host name",
			`{kind: Pod, ` + of + `, nodeSelector: {base.koupleless.io/host-name: g-base-1}}}`,
			`{kind: Pod, ` + of +
				`, nodeSelector: {base.koupleless.io/host-name: g-base-1, base.koupleless.io/cluster-name: g}}}`},
		{"the bases of another run", `{kind: Pod, ` + of + `, nodeSelector: {base.koupleless.io/cluster-name: h}}}`,
			`{kind: Pod, ` + of + bound + `}`},
		{"the cluster name in an affinity", `{kind: Pod, ` + of + `, affinity: ` + affinity("NotIn", "[prod, h]") + `}}`,
			`{kind: Pod, ` + of + `, affinity: ` + affinity("In", "[g]") + bound + `}`},
		{"a template, by the other key", `{kind: Deployment, spec: {template: {` + older + and + `}}}`,
			`{kind: Deployment, spec: {template: {` + older + bound + `}}}`},
		{"a CronJob", `{kind: CronJob, spec: {jobTemplate: {spec: {template: {` + of + and + `}}}}}`,
			`{kind: CronJob, spec: {jobTemplate: {spec: {template: {` + of + bound + `}}}}}`},
		{"a PodTemplate", `{kind: PodTemplate, template: {` + of + and + `}}`,
			`{kind: PodTemplate, template: {` + of + bound + `}}`},
		{"a custom resource with several templates",
			`{kind: Set, spec: {subsets: [{template: {` + of + and + `}}, {template: {` + older + and + `}}]}}`,
			`{kind: Set, spec: {subsets: [{template: {` + of + bound + `}}, {template: {` + older + bound + `}}]}}`},
		{"no module", `{kind: Deployment, spec: {template: {metadata: {labels: {app: x}}, spec: {containers: [{name: x}]}}}}`, ""},
		{"a Service with the label",
			`{kind: Service, metadata: {labels: {virtual-kubelet.koupleless.io/component: module}}, spec: {}}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			before, o := apitest.Object(t, tt.object), apitest.Object(t, tt.object)
			got := Bind(o, "g")
			want := before
			if tt.want != "" {
				want = apitest.Object(t, tt.want)
			}
			if diff := cmp.Diff(want.Object, got.Object); diff != "" {
				t.Errorf("object (-want +got):\n%s", diff)
			}
			if diff := cmp.Diff(before.Object, o.Object); diff != "" {
				t.Errorf("the original object was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// TestOutsideRun checks that a run may create objects in its own namespace, and cluster-scoped objects whose names
// start with the name of this namespace. All other objects must be rejected.
func TestOutsideRun(t *testing.T) {
	tests := []struct{ name, object, want string }{
		{"no namespace", `{apiVersion: v1, kind: Pod, metadata: {name: x}}`, ""},
		{"its own", `{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: run}}`, ""},
		{"another", `{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: run-2}}`, "run-2"},
		{"cluster-scoped", `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}}`,
			"${{ run.namespace }}-"},
		{"cluster-scoped, with a name of its own",
			`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: run-high}}`, ""},
		{"cluster-scoped, with a namespace",
			`{apiVersion: v1, kind: Namespace, metadata: {name: run-x, namespace: default}}`, "namespace default"},
		{"the namespaced kind of another group",
			`{apiVersion: example.com/v1, kind: PriorityClass, metadata: {name: high}}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := apitest.Object(t, tt.object)
			got := OutsideRun(o, ClusterScoped(o.GroupVersionKind().GroupKind()), "run")
			if (got == "") != (tt.want == "") || !strings.Contains(got, tt.want) {
				t.Errorf("got %q, want %q", got, tt.want)
			}
		})
	}
}

// TestMoveIntoRun checks that the objects of a file lose their namespaces, and that the function returns an error if
// two objects would then be the same object.
func TestMoveIntoRun(t *testing.T) {
	tests := []struct {
		name, second string
		wantErr      string
	}{
		{"another name", `{apiVersion: v1, kind: Pod, metadata: {name: y, namespace: b}}`, ""},
		{"another kind", `{apiVersion: v1, kind: Service, metadata: {name: x, namespace: b}}`, ""},
		{"the same object", `{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: a}}`, ""},
		{"another namespace", `{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: b}}`, `Pod x`},
		{"no namespace", `{apiVersion: v1, kind: Pod, metadata: {name: x}}`, `Pod x`},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			objects := []*unstructured.Unstructured{
				apitest.Object(t, `{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: a}}`), apitest.Object(t, tt.second)}
			err := MoveIntoRun(objects)
			if (err == nil) != (tt.wantErr == "") || err != nil && !strings.Contains(err.Error(), tt.wantErr) {
				t.Errorf("got %v, want %q", err, tt.wantErr)
			}
			for _, o := range objects {
				if o.GetNamespace() != "" {
					t.Errorf("%s is in namespace %q", o.GetName(), o.GetNamespace())
				}
			}
		})
	}
}

// TestSetOwner checks that the namespace of a run owns the cluster-scoped objects of the run, so that Kubernetes
// deletes them with the namespace.
func TestSetOwner(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "run", UID: "u"}}
	c, o := New(typedfake.NewClientset(namespace), nil, nil), apitest.Object(t,
		`{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: run-high}}`)
	if err := c.setOwner(t.Context(), o, "run"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "run", UID: "u"}},
		o.GetOwnerReferences()); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if err := c.setOwner(t.Context(), o, "other"); err == nil {
		t.Error("no error for a namespace that does not exist")
	}
}

// TestExplainTypeError checks that explainTypeError removes names of Go types from errors of the API server.
func TestExplainTypeError(t *testing.T) {
	const typed = `failed to create typed patch object (run/cart; /v1, Kind=Pod): .spec.containers[name="cart"].env[name="BIZ_VERSION"].value: expected string, got &value.valueUnstructured{Value:1.1}`
	got := explainTypeError(errors.New(typed)).Error()
	if !strings.Contains(got, `spec.containers[name="cart"].env[name="BIZ_VERSION"].value `) ||
		!strings.Contains(got, "1.1") || strings.Contains(got, "valueUnstructured") {
		t.Errorf("got %s", got)
	}
	if other := errors.New("denied"); !errors.Is(explainTypeError(other), other) {
		t.Error("another error was changed")
	}
}
