package kube

import (
	"errors"
	"testing"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
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
		{"not seen yet", deployment + `spec: {replicas: 2}, status: {observedGeneration: 1, replicas: 2, updatedReplicas: 2, availableReplicas: 2}}`,
			Progress{Message: "the Deployment controller has not seen generation 2 yet"}},
		{"new Pods are missing", deployment + `spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 2, updatedReplicas: 1, availableReplicas: 2}}`,
			Progress{Message: "1 of 2 Pods are of the new version"}},
		{"old Pods are left", deployment + `spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 3, updatedReplicas: 2, availableReplicas: 3}}`,
			Progress{Message: "1 old Pods are still there"}},
		{"not available", deployment + `spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 1}}`,
			Progress{Message: "1 of 2 new Pods are available"}},
		{"complete", deployment + `spec: {replicas: 2}, status: {observedGeneration: 2, replicas: 2, updatedReplicas: 2, availableReplicas: 2}}`,
			Progress{Done: true, Message: "2 Pods are of the new version and available"}},
		{"replicas by default", deployment + `spec: {}, status: {observedGeneration: 2, replicas: 1, updatedReplicas: 1, availableReplicas: 1}}`,
			Progress{Done: true, Message: "1 Pods are of the new version and available"}},
		{"wants nothing", deployment + `spec: {replicas: 0}, status: {observedGeneration: 2}}`,
			Progress{Message: "the Deployment wants no Pods: wait for them to be gone instead"}},
		{"hopeless", deployment + `spec: {replicas: 2}, status: {observedGeneration: 2, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded, message: too slow}]}}`,
			Progress{Failed: true, Message: "the Deployment has passed its progressDeadlineSeconds: too slow"}},
		{"of the version before", deployment + `spec: {replicas: 1}, status: {observedGeneration: 1, conditions: [{type: Progressing, status: "False", reason: ProgressDeadlineExceeded}]}}`,
			Progress{Message: "the Deployment controller has not seen generation 2 yet"}},

		{"no Node fits", daemonSet + `spec: {}, status: {observedGeneration: 2}}`, Progress{Message: "the DaemonSet wants no Pods: no Node fits it"}},
		{"not updated", daemonSet + `spec: {}, status: {observedGeneration: 2, desiredNumberScheduled: 2, updatedNumberScheduled: 1, numberAvailable: 2}}`,
			Progress{Message: "1 of 2 Pods are of the new version"}},
		{"not available", daemonSet + `spec: {}, status: {observedGeneration: 2, desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 1}}`,
			Progress{Message: "1 of 2 new Pods are available"}},
		{"complete", daemonSet + `spec: {}, status: {observedGeneration: 2, desiredNumberScheduled: 2, updatedNumberScheduled: 2, numberAvailable: 2}}`,
			Progress{Done: true, Message: "2 Pods are of the new version and available"}},
		{"by hand", daemonSet + `spec: {updateStrategy: {type: OnDelete}}, status: {}}`,
			Progress{Failed: true, Message: "the update strategy of the DaemonSet is OnDelete: there is no rollout to wait for"}},

		{"not Ready", statefulSet + `spec: {replicas: 3}, status: {observedGeneration: 2, readyReplicas: 2}}`, Progress{Message: "2 of 3 Pods are Ready"}},
		{"not updated", statefulSet + `spec: {replicas: 3}, status: {observedGeneration: 2, readyReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}}`,
			Progress{Message: "1 of 3 Pods are of the new version"}},
		{"a part is updated", statefulSet + `spec: {replicas: 3, updateStrategy: {rollingUpdate: {partition: 2}}}, status: {observedGeneration: 2, readyReplicas: 3, updatedReplicas: 1, currentRevision: a, updateRevision: b}}`,
			Progress{Done: true, Message: "3 Pods are Ready, 1 of the new version"}},
		{"complete", statefulSet + `spec: {replicas: 3}, status: {observedGeneration: 2, readyReplicas: 3, updatedReplicas: 3, currentRevision: b, updateRevision: b}}`,
			Progress{Done: true, Message: "3 Pods are Ready, 3 of the new version"}},

		{"no rollout", `{apiVersion: v1, kind: Pod, metadata: {name: p}}`,
			Progress{Failed: true, Message: "a Pod has no rollout: name a Deployment, DaemonSet or StatefulSet"}},
	}
	for _, tt := range tests {
		o := apitest.Object(t, tt.object)
		t.Run(o.GetKind()+" "+tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Rollout(o)); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
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
		{"no conditions", pod + `{}}`, Progress{Message: "Pod p has no condition Ready"}},
		{"Ready", pod + `{conditions: [{type: Ready, status: "True"}]}}`, Progress{Done: true, Message: "Ready"}},
		{"not Ready", pod + `{conditions: [{type: Ready, status: "False", reason: A, message: b}]}}`, Progress{Message: "Pod p is not Ready (False), A, b"}},
		{"unknown", pod + `{conditions: [{type: Ready, status: Unknown}]}}`, Progress{Message: "Pod p is not Ready (Unknown)"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, Ready(apitest.Object(t, tt.object))); diff != "" {
				t.Errorf("progress (-want +got):\n%s", diff)
			}
		})
	}
}

// The Pods of a run are kept on its bases, whichever kind of object makes them.
func TestBind(t *testing.T) {
	const of, and = "metadata: {labels: {virtual-kubelet.koupleless.io/component: module}}, spec: {containers: [{name: x}]", "}"
	const older = "metadata: {labels: {module-controller.koupleless.io/component: module}}, spec: {containers: [{name: x}]"
	const bound = ", nodeSelector: {base.koupleless.io/cluster-name: g}}"
	tests := []struct{ name, object, want string }{
		{"a module Pod", `{kind: Pod, ` + of + `, nodeSelector: {a: b}}}`, `{kind: Pod, ` + of + `, nodeSelector: {a: b, base.koupleless.io/cluster-name: g}}}`},
		{"one base", `{kind: Pod, ` + of + `, nodeSelector: {base.koupleless.io/host-name: base-1}}}`,
			`{kind: Pod, ` + of + `, nodeSelector: {base.koupleless.io/host-name: g-base-1, base.koupleless.io/cluster-name: g}}}`},
		{"one base, by its whole host name", `{kind: Pod, ` + of + `, nodeSelector: {base.koupleless.io/host-name: g-base-1}}}`,
			`{kind: Pod, ` + of + `, nodeSelector: {base.koupleless.io/host-name: g-base-1, base.koupleless.io/cluster-name: g}}}`},
		{"the bases of another run", `{kind: Pod, ` + of + `, nodeSelector: {base.koupleless.io/cluster-name: h}}}`, `{kind: Pod, ` + of + bound + `}`},
		{"a template, by the other key", `{kind: Deployment, spec: {template: {` + older + and + `}}}`, `{kind: Deployment, spec: {template: {` + older + bound + `}}}`},
		{"a CronJob", `{kind: CronJob, spec: {jobTemplate: {spec: {template: {` + of + and + `}}}}}`, `{kind: CronJob, spec: {jobTemplate: {spec: {template: {` + of + bound + `}}}}}`},
		{"a PodTemplate", `{kind: PodTemplate, template: {` + of + and + `}}`, `{kind: PodTemplate, template: {` + of + bound + `}}`},
		{"a custom resource with several templates", `{kind: Set, spec: {subsets: [{template: {` + of + and + `}}, {template: {` + older + and + `}}]}}`,
			`{kind: Set, spec: {subsets: [{template: {` + of + bound + `}}, {template: {` + older + bound + `}}]}}`},
		{"no module", `{kind: Deployment, spec: {template: {metadata: {labels: {app: x}}, spec: {containers: [{name: x}]}}}}`, ""},
		{"a Service with the label", `{kind: Service, metadata: {labels: {virtual-kubelet.koupleless.io/component: module}}, spec: {}}`, ""},
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
				t.Errorf("the object itself was changed (-before +after):\n%s", diff)
			}
		})
	}
}

// A run creates objects in its own namespace, and cluster-scoped objects only with names that begin with that namespace.
func TestOutside(t *testing.T) {
	tests := []struct{ name, object, want string }{
		{"no namespace", `{apiVersion: v1, kind: Pod, metadata: {name: x}}`, ""},
		{"its own", `{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: run}}`, ""},
		{"another", `{apiVersion: v1, kind: Pod, metadata: {name: x, namespace: run-2}}`,
			"Pod x belongs to namespace run-2, but a run creates objects only in its own namespace, which is deleted at its end: remove metadata.namespace"},
		{"cluster-scoped", `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}}`,
			"PriorityClass high is cluster-scoped, so other runs would share it: begin its name with ${{ run.namespace }}-, and the run deletes it at its end"},
		{"cluster-scoped, with a name of its own", `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: run-high}}`, ""},
		{"cluster-scoped, with a namespace", `{apiVersion: v1, kind: Namespace, metadata: {name: run-x, namespace: default}}`,
			"Namespace run-x belongs to namespace default, but a run creates objects only in its own namespace, which is deleted at its end: remove metadata.namespace"},
		{"the namespaced kind of another group", `{apiVersion: example.com/v1, kind: PriorityClass, metadata: {name: high}}`, ""},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			o := apitest.Object(t, tt.object)
			if got := Outside(o, ClusterScoped(o.GroupVersionKind().GroupKind()), "run"); got != tt.want {
				t.Errorf("got  %s\nwant %s", got, tt.want)
			}
		})
	}
}

// The namespace of a run owns its cluster-scoped objects, so that they are deleted together.
func TestOwn(t *testing.T) {
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: "run", UID: "u"}}
	c, o := New(typedfake.NewClientset(namespace), nil, nil), apitest.Object(t, `{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: run-high}}`)
	if err := c.own(t.Context(), o, "run"); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]metav1.OwnerReference{{APIVersion: "v1", Kind: "Namespace", Name: "run", UID: "u"}}, o.GetOwnerReferences()); diff != "" {
		t.Errorf("owners (-want +got):\n%s", diff)
	}
	if err := c.own(t.Context(), o, "other"); err == nil {
		t.Error("an object was given to a namespace that does not exist")
	}
}

// Errors of the API server have no names of Go types.
func TestInWords(t *testing.T) {
	const typed = `failed to create typed patch object (run/cart; /v1, Kind=Pod): .spec.containers[name="cart"].env[name="BIZ_VERSION"].value: expected string, got &value.valueUnstructured{Value:1.1}`
	const want = `spec.containers[name="cart"].env[name="BIZ_VERSION"].value must be a string, but is 1.1: put the value in quotes where it is defined`
	if got := inWords(errors.New(typed)).Error(); got != want {
		t.Errorf("got  %s\nwant %s", got, want)
	}
	if other := errors.New("denied"); !errors.Is(inWords(other), other) {
		t.Error("another error was changed")
	}
}
