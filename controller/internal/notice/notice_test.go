package notice

import (
	"context"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"k8s.io/client-go/tools/cache"
	"k8s.io/client-go/tools/record"
	"k8s.io/utils/ptr"
)

// pods is a source of Pods that a test changes by hand.
type pods struct {
	changed func(*corev1.Pod)
	all     map[types.NamespacedName]*corev1.Pod
}

func (p *pods) Observe(changed func(*corev1.Pod)) error {
	p.changed = changed
	return nil
}

func (p *pods) Get(name types.NamespacedName) (*corev1.Pod, bool) {
	pod, ok := p.all[name]
	return pod, ok
}

func (p *pods) put(pod *corev1.Pod) {
	p.all[types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name}] = pod
	p.changed(pod)
}

func (p *pods) remove(pod *corev1.Pod) {
	delete(p.all, types.NamespacedName{Namespace: pod.Namespace, Name: pod.Name})
	p.changed(pod)
}

// said takes the Events that were recorded.
func said(r *record.FakeRecorder) []string {
	var events []string
	for len(r.Events) > 0 {
		events = append(events, <-r.Events)
	}
	return events
}

func TestPods(t *testing.T) {
	source, recorder := &pods{all: map[types.NamespacedName]*corev1.Pod{}}, record.NewFakeRecorder(10)
	mine := map[string]bool{}
	if err := Pods(PodOptions{Pods: source, Recorder: recorder, Mine: func(node string) bool { return mine[node] }}); err != nil {
		t.Fatal(err)
	}
	expect := func(when string, want ...string) {
		t.Helper()
		if diff := cmp.Diff(want, said(recorder)); diff != "" {
			t.Errorf("Events %s (-want +got):\n%s", when, diff)
		}
	}
	pod := func(uid string, change ...func(*corev1.Pod)) *corev1.Pod {
		p := &corev1.Pod{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: "p", UID: types.UID(uid)}}
		p.Spec.NodeName = "vnode.1"
		p.Spec.Containers = []corev1.Container{{Name: "biz1", StartupProbe: &corev1.Probe{}, Lifecycle: &corev1.Lifecycle{
			PreStop: &corev1.LifecycleHandler{Exec: &corev1.ExecAction{}},
		}}}
		for _, f := range change {
			f(p)
		}
		return p
	}
	const event = "Warning Unsupported startupProbe, preStop"
	source.put(pod("1", func(p *corev1.Pod) { p.Spec.NodeName = "" }))
	expect("before it is bound")
	source.put(pod("1"))
	expect("on a base of another controller")
	mine["vnode.1"] = true
	source.put(pod("1"))
	expect("once it is served", event)
	source.put(pod("1", func(p *corev1.Pod) { p.Labels = map[string]string{"a": "b"} }))
	expect("when it changes")
	source.put(pod("2"))
	expect("of another Pod of that name", event)
	source.remove(pod("2"))
	source.put(pod("2"))
	expect("after it was forgotten", event)
	source.put(pod("3", func(p *corev1.Pod) { p.Status.StartTime = ptr.To(metav1.NewTime(time.Now().Add(-time.Minute))) }))
	expect("of one that was accepted before")
	source.put(pod("4", func(p *corev1.Pod) { p.Status.StartTime = ptr.To(metav1.NewTime(time.Now().Add(time.Minute))) }))
	expect("of one that was accepted since", event)
	source.put(pod("5", func(p *corev1.Pod) {
		p.Spec.Containers = nil
		p.OwnerReferences = []metav1.OwnerReference{{Kind: "Job", Name: "j", Controller: ptr.To(true)}}
	}))
	expect("of a Job", "Warning Unsupported job")
	source.put(pod("6", func(p *corev1.Pod) { p.Spec.Containers = nil }))
	expect("of one that asks for nothing")
}

func TestDaemonSets(t *testing.T) {
	daemonSet := func(name string, change ...func(*appsv1.DaemonSet)) *appsv1.DaemonSet {
		d := &appsv1.DaemonSet{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name, Generation: 1, Labels: map[string]string{}}}
		d.Spec.Template.Labels = map[string]string{"virtual-kubelet.koupleless.io/component": "module"}
		d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Key: "schedule.koupleless.io/virtual-node", Operator: corev1.TolerationOpExists}}
		for _, f := range change {
			f(d)
		}
		return d
	}
	const event = "Warning EnvironmentNotTolerated a DaemonSet makes a Pod only where its template tolerates the taints of the Node, " +
		"and it does not tolerate schedule.koupleless.io/node-env of any base: " +
		"add {key: schedule.koupleless.io/node-env, operator: Equal, value: dev, effect: NoExecute} to spec.template.spec.tolerations"
	tolerate := func(key, value string) func(*appsv1.DaemonSet) {
		return func(d *appsv1.DaemonSet) {
			d.Spec.Template.Spec.Tolerations = append(d.Spec.Template.Spec.Tolerations, corev1.Toleration{Key: key, Value: value, Operator: corev1.TolerationOpExists})
		}
	}
	for name, tt := range map[string]struct {
		change func(*appsv1.DaemonSet)
		want   []string
	}{
		"names none":             {func(*appsv1.DaemonSet) {}, []string{event}},
		"names this environment": {tolerate("schedule.koupleless.io/node-env", ""), nil},
		"tolerates everything":   {tolerate("", ""), nil},
		"no modules":             {func(d *appsv1.DaemonSet) { d.Spec.Template.Labels = nil }, nil},
		"not meant for bases":    {func(d *appsv1.DaemonSet) { d.Spec.Template.Spec.Tolerations = nil }, nil},
		"of another environment": {func(d *appsv1.DaemonSet) { d.Labels["virtual-kubelet.koupleless.io/env"] = "test" }, nil},
		"of this environment":    {func(d *appsv1.DaemonSet) { d.Labels["virtual-kubelet.koupleless.io/env"] = "dev" }, []string{event}},
	} {
		t.Run(name, func(t *testing.T) {
			ctx, stop := context.WithCancel(t.Context())
			client := fake.NewClientset(daemonSet("d", tt.change))
			factory, recorder := informers.NewSharedInformerFactory(client, 0), record.NewFakeRecorder(10)
			informer := factory.Apps().V1().DaemonSets()
			if err := DaemonSets(informer, "dev", recorder); err != nil {
				t.Fatal(err)
			}
			// A handler after it hears what it has heard.
			heard := make(chan int64, 10)
			after, err := informer.Informer().AddEventHandler(cache.ResourceEventHandlerFuncs{
				UpdateFunc: func(_, object any) { heard <- object.(*appsv1.DaemonSet).Generation },
			})
			if err != nil {
				t.Fatal(err)
			}
			factory.Start(ctx.Done())
			defer factory.Shutdown()
			defer stop()
			if !cache.WaitForCacheSync(ctx.Done(), after.HasSynced) {
				t.Fatal("not synced")
			}
			got := receive(t, recorder, len(tt.want))
			if diff := cmp.Diff(tt.want, got); diff != "" {
				t.Errorf("Events at first (-want +got):\n%s", diff)
			}
			changed := daemonSet("d", tt.change)
			for _, generation := range []int64{1, 2} { // a status, then a spec
				changed.Generation = generation
				changed.Status.ObservedGeneration = generation
				if _, err := client.AppsV1().DaemonSets("default").Update(ctx, changed, metav1.UpdateOptions{}); err != nil {
					t.Fatal(err)
				}
				<-heard
			}
			if diff := cmp.Diff(tt.want, receive(t, recorder, len(tt.want))); diff != "" {
				t.Errorf("Events after a change of the status, and one of the spec (-want +got):\n%s", diff)
			}
		})
	}
}

// receive takes n Events, and what is there beside.
func receive(t *testing.T, r *record.FakeRecorder, n int) []string {
	t.Helper()
	var events []string
	for range n {
		select {
		case e := <-r.Events:
			events = append(events, e)
		case <-time.After(10 * time.Second):
			t.Fatalf("only %q came", events)
		}
	}
	return append(events, said(r)...)
}
