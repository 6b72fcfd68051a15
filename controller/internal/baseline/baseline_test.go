package baseline

import (
	"cmp"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	appslisters "k8s.io/client-go/listers/apps/v1"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

var start = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)

func base() *corev1.Node {
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "vnode.1", Labels: map[string]string{
			"virtual-kubelet.koupleless.io/component": "vnode",
			"base.koupleless.io/name":                 "base",
			"base.koupleless.io/version":              "1.0.0",
		}},
		Spec: corev1.NodeSpec{Taints: []corev1.Taint{
			{Key: "schedule.koupleless.io/virtual-node", Value: "True", Effect: corev1.TaintEffectNoExecute},
			{Key: "schedule.koupleless.io/node-env", Value: "dev", Effect: corev1.TaintEffectNoExecute},
		}},
	}
}

// template returns a Pod template. modules alternates between module names and versions.
func template(modules ...string) corev1.PodTemplateSpec {
	t := corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"virtual-kubelet.koupleless.io/component": "module"}},
		Spec: corev1.PodSpec{
			NodeSelector: map[string]string{"base.koupleless.io/name": "base"},
			Tolerations: []corev1.Toleration{
				{Key: "schedule.koupleless.io/virtual-node", Operator: corev1.TolerationOpExists},
				{Key: "schedule.koupleless.io/node-env", Value: "dev"},
			},
		},
	}
	for pair := range slices.Chunk(modules, 2) {
		t.Spec.Containers = append(t.Spec.Containers, corev1.Container{
			Name: pair[0], Image: "file:///m/" + pair[0] + "-" + pair[1] + ".jar",
			Env: []corev1.EnvVar{{Name: "BIZ_VERSION", Value: pair[1]}},
		})
	}
	return t
}

func deployment(name string, age time.Duration, t corev1.PodTemplateSpec,
	change ...func(*appsv1.Deployment)) *appsv1.Deployment {
	d := &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{
			Name: name, Namespace: "default", CreationTimestamp: metav1.NewTime(start.Add(-age)),
			Labels: map[string]string{
				"virtual-kubelet.koupleless.io/component": "module-deployment",
				"virtual-kubelet.koupleless.io/strategy":  "peer",
			},
		},
		Spec: appsv1.DeploymentSpec{Template: t},
	}
	for _, f := range change {
		f(d)
	}
	return d
}

func daemonSet(name string, t corev1.PodTemplateSpec) *appsv1.DaemonSet {
	return &appsv1.DaemonSet{
		ObjectMeta: metav1.ObjectMeta{Name: name, Namespace: "default", CreationTimestamp: metav1.NewTime(start)},
		Spec:       appsv1.DaemonSetSpec{Template: t},
	}
}

func module(name, version string) arklet.Module {
	return arklet.Module{Name: name, Version: version, URL: "file:///m/" + name + "-" + version + ".jar"}
}

func TestSelect(t *testing.T) {
	biz1 := template("biz1", "1.0.0")
	noEnv := template("biz1", "1.0.0")
	noEnv.Spec.Tolerations = noEnv.Spec.Tolerations[:1]
	elsewhere := template("biz1", "1.0.0")
	elsewhere.Spec.NodeSelector = map[string]string{"base.koupleless.io/name": "other"}
	plainPods := template("biz1", "1.0.0")
	plainPods.Labels = nil
	noJar := template("biz1", "1.0.0", "biz2", "1.0.0", "biz3", "")
	noJar.Spec.Containers[1].Image = "busybox"
	download := template("biz1", "1.0.0")
	download.Spec.Containers[0].Image = "https://h/download?name=biz1"
	refused := template("biz1", "1.0.0", "biz2", " 1.0.0", "biz3", "1.0.0")
	refused.Spec.Containers[0].Image = "/m/biz1.jar"
	refused.Spec.Containers[1].Env[0].Value = " 1.0.0"
	byLabel := template("biz1", "1.0.0")
	byLabel.Labels["version"] = "1.0.0"
	byLabel.Spec.Containers[0].Env[0] = corev1.EnvVar{Name: "BIZ_VERSION", ValueFrom: &corev1.EnvVarSource{
		FieldRef: &corev1.ObjectFieldSelector{FieldPath: "metadata.labels['version']"},
	}}

	tests := []struct {
		name    string
		objects []metav1.Object
		change  func(*Options)
		want    []arklet.Module
	}{
		{name: "no workloads", want: []arklet.Module{}},
		{
			name: "peer Deployments and DaemonSets, sorted by name",
			objects: []metav1.Object{
				deployment("d", 0, template("biz3", "1.0.0", "biz1", "1.0.0")),
				daemonSet("s", template("biz2", "1.0.0")),
			},
			want: []arklet.Module{module("biz1", "1.0.0"), module("biz2", "1.0.0"), module("biz3", "1.0.0")},
		},
		{
			name:    "Deployment without the peer strategy",
			objects: []metav1.Object{deployment("d", 0, biz1, func(d *appsv1.Deployment) { d.Labels = nil })},
			want:    []arklet.Module{},
		},
		{
			name: "another environment",
			objects: []metav1.Object{deployment("d", 0, biz1, func(d *appsv1.Deployment) {
				d.Labels["virtual-kubelet.koupleless.io/env"] = "test"
			})},
			want: []arklet.Module{},
		},
		{
			name: "a URL without .jar", objects: []metav1.Object{deployment("d", 0, download)},
			want: []arklet.Module{{Name: "biz1", Version: "1.0.0", URL: "https://h/download?name=biz1"}},
		},
		{name: "other bases", objects: []metav1.Object{deployment("d", 0, elsewhere)}, want: []arklet.Module{}},
		{name: "not a module", objects: []metav1.Object{daemonSet("s", plainPods)}, want: []arklet.Module{}},
		{name: "environment not tolerated", objects: []metav1.Object{deployment("d", 0, noEnv)},
			want: []arklet.Module{}},
		{
			name:    "toleration of the environment is added to a Deployment",
			objects: []metav1.Object{deployment("d", 0, noEnv)},
			change:  func(o *Options) { o.AddTolerationFor = "dev" }, want: []arklet.Module{module("biz1", "1.0.0")},
		},
		{
			name:    "toleration of the environment is not added to a DaemonSet",
			objects: []metav1.Object{daemonSet("s", noEnv)},
			change:  func(o *Options) { o.AddTolerationFor = "dev" }, want: []arklet.Module{},
		},
		{
			name:    "invalid modules: an image without a scheme, a version with a space",
			objects: []metav1.Object{deployment("d", 0, refused)},
			want:    []arklet.Module{module("biz3", "1.0.0")},
		},
		{
			name:    "paused",
			objects: []metav1.Object{deployment("d", 0, biz1, func(d *appsv1.Deployment) { d.Spec.Paused = true })},
			want:    []arklet.Module{},
		},
		{
			name: "being deleted",
			objects: []metav1.Object{deployment("d", 0, biz1, func(d *appsv1.Deployment) {
				d.DeletionTimestamp = &metav1.Time{Time: start}
			})},
			want: []arklet.Module{},
		},
		{
			name: "no replicas yet",
			objects: []metav1.Object{
				deployment("d", 0, biz1, func(d *appsv1.Deployment) { d.Spec.Replicas = ptr.To[int32](0) })},
			want: []arklet.Module{module("biz1", "1.0.0")},
		},
		{
			name: "no replicas, set by the user",
			objects: []metav1.Object{deployment("d", 0, biz1, func(d *appsv1.Deployment) {
				d.Spec.Replicas = ptr.To[int32](0)
				d.Labels["virtual-kubelet.koupleless.io/replicas-control"] = "true"
			})},
			want: []arklet.Module{},
		},
		{
			name:    "version in a label of the template",
			objects: []metav1.Object{deployment("d", 0, byLabel)},
			want:    []arklet.Module{module("biz1", "1.0.0")},
		},
		{name: "containers that are not modules", objects: []metav1.Object{deployment("d", 0, noJar)},
			want: []arklet.Module{module("biz1", "1.0.0")}},
		{
			name: "highest version, independent of the age of the workload",
			objects: []metav1.Object{
				deployment("a", 0, template("biz1", "1.9.0")), deployment("b", time.Hour, template("biz1", "1.10.0")),
				daemonSet("c", template("biz1", "1.2.0")),
			},
			want: []arklet.Module{module("biz1", "1.10.0")},
		},
		{
			name: "a release is newer than its snapshot",
			objects: []metav1.Object{deployment("a", time.Hour, template("biz1", "1.0.0")),
				deployment("b", 0, template("biz1", "1.0.0-SNAPSHOT"))},
			want: []arklet.Module{module("biz1", "1.0.0")},
		},
		{
			name: "a number is newer than a word",
			objects: []metav1.Object{deployment("a", time.Hour, template("biz1", "0.1")),
				deployment("b", 0, template("biz1", "latest"))},
			want: []arklet.Module{module("biz1", "0.1")},
		},
		{
			name: "versions without numbers: newest workload",
			objects: []metav1.Object{deployment("a", 0, template("biz1", "blue")),
				deployment("b", time.Hour, template("biz1", "green"))},
			want: []arklet.Module{module("biz1", "blue")},
		},
		{
			name: "equal age: by name",
			objects: []metav1.Object{deployment("b", 0, template("biz1", "green")),
				deployment("a", 0, template("biz1", "blue"))},
			want: []arklet.Module{module("biz1", "green")},
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			reversed := slices.Clone(tt.objects)
			slices.Reverse(reversed)
			for _, objects := range [][]metav1.Object{tt.objects, reversed} {
				o := Options{Env: "dev"}
				o.Deployments, o.DaemonSets = listers(t, objects)
				if tt.change != nil {
					tt.change(&o)
				}
				got, err := New(o).Select(base())
				if err != nil {
					t.Fatal(err)
				}
				if diff := gocmp.Diff(tt.want, got); diff != "" {
					t.Errorf("modules (-want +got):\n%s", diff)
				}
			}
		})
	}
}

// TestSelectForCordonedBase checks that for a cordoned base, Select returns the modules of a DaemonSet, but not the
// modules of a Deployment.
func TestSelectForCordonedBase(t *testing.T) {
	o := Options{Env: "dev"}
	o.Deployments, o.DaemonSets = listers(t,
		[]metav1.Object{deployment("d", 0, template("biz1", "1.0.0")), daemonSet("s", template("biz2", "1.0.0"))})
	node := base()
	node.Spec.Unschedulable = true
	got, err := New(o).Select(node)
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff([]arklet.Module{module("biz2", "1.0.0")}, got); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
}

// TestSettled checks that Settled omits the modules of workloads that are being rolled out.
func TestSettled(t *testing.T) {
	rolling := func(d *appsv1.Deployment) { d.Status.Replicas, d.Status.UpdatedReplicas = 2, 1 }
	notObserved := func(d *appsv1.Deployment) { d.Generation = 1 }
	daemons := daemonSet("s", template("biz4", "1.0.0"))
	daemons.Status.CurrentNumberScheduled = 1
	o := Options{Env: "dev"}
	o.Deployments, o.DaemonSets = listers(t, []metav1.Object{
		deployment("a", 0, template("biz1", "1.0.0")), deployment("b", 0, template("biz2", "1.0.0"), rolling),
		deployment("c", 0, template("biz3", "1.0.0"), notObserved), daemons, daemonSet("t", template("biz5", "1.0.0")),
	})
	got, err := New(o).Settled(base())
	if err != nil {
		t.Fatal(err)
	}
	if diff := gocmp.Diff([]arklet.Module{module("biz1", "1.0.0"), module("biz5", "1.0.0")}, got); diff != "" {
		t.Errorf("modules (-want +got):\n%s", diff)
	}
}

func listers(t *testing.T, objects []metav1.Object) (appslisters.DeploymentLister, appslisters.DaemonSetLister) {
	t.Helper()
	deployments := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	daemonSets := cache.NewIndexer(cache.MetaNamespaceKeyFunc, cache.Indexers{})
	for _, object := range objects {
		indexer := deployments
		if _, ok := object.(*appsv1.DaemonSet); ok {
			indexer = daemonSets
		}
		if err := indexer.Add(object); err != nil {
			t.Fatal(err)
		}
	}
	return appslisters.NewDeploymentLister(deployments), appslisters.NewDaemonSetLister(daemonSets)
}

type brokenDeployments struct{ appslisters.DeploymentLister }

func (brokenDeployments) List(labels.Selector) ([]*appsv1.Deployment, error) {
	return nil, errors.ErrUnsupported
}

func TestSelectReturnsErrors(t *testing.T) {
	_, daemonSets := listers(t, nil)
	_, err := New(Options{Deployments: brokenDeployments{}, DaemonSets: daemonSets}).Select(base())
	if !errors.Is(err, errors.ErrUnsupported) || !strings.Contains(err.Error(), "Deployments") {
		t.Errorf("error %v, want one that contains Deployments", err)
	}
}

func TestCompareVersions(t *testing.T) {
	ascending := []string{"latest", "0.0.1-SNAPSHOT", "0.0.1", "0.0.2-rc", "0.2", "0.10", "1.0.0-a", "1.0.0", "v1.1",
		"10", "2026.01.05", "99999999999999999999"}
	for i, a := range ascending {
		for j, b := range ascending {
			if got, want := compareVersions(a, b), cmp.Compare(i, j); got != want {
				t.Errorf("compareVersions(%q, %q) = %d, want %d", a, b, got, want)
			}
		}
	}
	if got := compareVersions("1.0", "1.0.0"); got != 0 {
		t.Errorf("compareVersions(1.0, 1.0.0) = %d, want 0", got)
	}
}
