package kind

import (
	"context"
	"fmt"
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

// TestDaemonSetNodes checks that a DaemonSet that tolerates all taints gets Pods only on the nodes of the kind
// cluster, and that a DaemonSet of modules gets a Pod on every base.
func TestDaemonSetNodes(t *testing.T) {
	image := pauseImage(t)
	system := module.DaemonSet("default", "everywhere", corev1.PodTemplateSpec{
		ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{"app": "everywhere"}},
		Spec: corev1.PodSpec{
			Containers: []corev1.Container{{Name: "pause", Image: image, ImagePullPolicy: corev1.PullNever}}},
	})
	modules := module.DaemonSet("default", "modules",
		module.Template("modules", module.Container("on-every-base", "1.0.0")))
	for _, d := range []*appsv1.DaemonSet{system, modules} {
		d.Spec.Template.Spec.Tolerations = []corev1.Toleration{{Operator: corev1.TolerationOpExists}}
		if _, err := client.AppsV1().DaemonSets(d.Namespace).Create(t.Context(), d,
			metav1.CreateOptions{}); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := client.AppsV1().DaemonSets(d.Namespace).Delete(context.Background(), d.Name,
				metav1.DeleteOptions{}); err != nil {
				t.Errorf("deleting the DaemonSet: %v", err)
			}
		})
	}
	waitRolledOut := func(d *appsv1.DaemonSet, want int, onBases bool) {
		t.Helper()
		eventually(t, fmt.Sprintf("DaemonSet %s is rolled out", d.Name), func(ctx context.Context) error {
			d, err := client.AppsV1().DaemonSets(d.Namespace).Get(ctx, d.Name, metav1.GetOptions{})
			if err != nil {
				return err
			}
			if s := d.Status; s.ObservedGeneration != d.Generation || int(s.DesiredNumberScheduled) != want ||
				int(s.NumberReady) != want {
				return fmt.Errorf("generation %d, status %+v", d.Generation, s)
			}
			nodesOfBases, err := baseNodes(ctx)
			if err != nil {
				return err
			}
			pods, err := client.CoreV1().Pods(d.Namespace).List(ctx,
				metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(d.Spec.Selector)})
			if err != nil {
				return err
			}
			for i := range pods.Items {
				if p := &pods.Items[i]; nodesOfBases[p.Spec.NodeName] != onBases {
					return fmt.Errorf("Pod %s is on Node %s; deletionTimestamp %v", p.Name, p.Spec.NodeName,
						p.DeletionTimestamp)
				}
			}
			if len(pods.Items) != want {
				return fmt.Errorf("%d Pods, want %d", len(pods.Items), want)
			}
			return nil
		})
	}
	waitRolledOut(system, nodes, false)
	waitRolledOut(modules, bases, true)
}

// pauseImage returns the name of an image that is present on every node of a kind cluster.
func pauseImage(t *testing.T) string {
	t.Helper()
	list, err := client.CoreV1().Nodes().List(t.Context(),
		metav1.ListOptions{LabelSelector: module.LabelComponent + "!=vnode"})
	if err != nil || len(list.Items) != nodes {
		t.Fatalf("%d nodes, error %v; want %d", len(list.Items), err, nodes)
	}
	for _, i := range list.Items[0].Status.Images {
		for _, name := range i.Names {
			if strings.Contains(name, "/pause:") {
				return name
			}
		}
	}
	t.Fatalf("node %s has no pause image", list.Items[0].Name)
	return ""
}

// baseNodes returns the set of the names of all Nodes that represent bases.
func baseNodes(ctx context.Context) (map[string]bool, error) {
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{
		LabelSelector: module.LabelComponent + "=vnode," + labels.BaseCluster + "=" + shared.Name})
	if err != nil {
		return nil, err
	}
	names := map[string]bool{}
	for _, n := range list.Items {
		names[n.Name] = true
	}
	return names, nil
}
