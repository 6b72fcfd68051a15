package embedded

import (
	"context"
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	appsv1 "k8s.io/api/apps/v1"
	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// BenchmarkThousandBases is what a sandbox with 1,000 bases asks of its control plane before the
// first module is installed: 1,000 Nodes with leases that become schedulable, and one Deployment
// with a Pod for each.
//
//	go test -run '^$' -bench ThousandBases -benchtime 1x ./sandbox/internal/cluster/embedded
func BenchmarkThousandBases(b *testing.B) {
	const bases = 1000
	for b.Loop() {
		c := newControlPlane(b, b.TempDir(), nil)
		up(b, c)
		client := c.client()
		ctx, cancel := context.WithTimeout(b.Context(), 2*time.Minute)
		defer cancel()

		begin := time.Now()
		must(b, each(ctx, bases, func(ctx context.Context, i int) error { return makeNode(ctx, client, i) }))
		b.ReportMetric(time.Since(begin).Seconds(), "s/nodes-made")
		must(b, until(ctx, func(ctx context.Context) error {
			nodes, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			return counted(bases, err, len(nodes.Items), func(i int) bool { return len(nodes.Items[i].Spec.Taints) == 0 })
		}))
		b.ReportMetric(time.Since(begin).Seconds(), "s/nodes-schedulable")

		begin = time.Now()
		_, err := client.AppsV1().Deployments("default").Create(ctx, deployment(bases), metav1.CreateOptions{})
		must(b, err)
		must(b, until(ctx, func(ctx context.Context) error {
			pods, err := client.CoreV1().Pods("default").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
			return counted(bases, err, len(pods.Items), func(i int) bool { return pods.Items[i].Spec.NodeName != "" })
		}))
		b.ReportMetric(time.Since(begin).Seconds(), "s/pods-scheduled")
		for _, st := range c.o.Supervisor.Status(ctx, nil) {
			b.ReportMetric(float64(st.RSS>>20), "MB/"+st.Name)
			b.ReportMetric(st.CPU.Seconds(), "s-cpu/"+st.Name)
		}
		begin = time.Now()
		must(b, c.Down(ctx))
		b.ReportMetric(time.Since(begin).Seconds(), "s/down")
	}
}

// each does fn for 0 to n-1, at most 50 at a time.
func each(ctx context.Context, n int, fn func(context.Context, int) error) error {
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(50)
	for i := range n {
		g.Go(func() error { return fn(ctx, i) })
	}
	return g.Wait()
}

// makeNode does what the module controller does for a new base.
func makeNode(ctx context.Context, client kubernetes.Interface, i int) error {
	name := fmt.Sprintf("base-%04d", i)
	room := corev1.ResourceList{
		corev1.ResourcePods: resource.MustParse("100"), corev1.ResourceCPU: resource.MustParse("8"),
		corev1.ResourceMemory: resource.MustParse("16Gi"),
	}
	node := &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: map[string]string{corev1.LabelHostname: name}},
		Status: corev1.NodeStatus{
			Capacity: room, Allocatable: room,
			Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue, LastHeartbeatTime: metav1.Now()}},
		},
	}
	if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
		return err
	}
	now, seconds := metav1.NowMicro(), int32(40)
	_, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Create(ctx, &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &name, RenewTime: &now, LeaseDurationSeconds: &seconds},
	}, metav1.CreateOptions{})
	return err
}

func deployment(replicas int32) *appsv1.Deployment {
	labels := map[string]string{"app": "biz"}
	return &appsv1.Deployment{
		ObjectMeta: metav1.ObjectMeta{Name: "biz", Namespace: "default"},
		Spec: appsv1.DeploymentSpec{
			Replicas: &replicas, Selector: &metav1.LabelSelector{MatchLabels: labels},
			Template: corev1.PodTemplateSpec{
				ObjectMeta: metav1.ObjectMeta{Labels: labels},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{{Name: "biz", Image: "biz"}}},
			},
		},
	}
}

// counted says how many of got things are as they should be, until that is want.
func counted(want int, err error, got int, good func(int) bool) error {
	if err != nil {
		return err
	}
	n := 0
	for i := range got {
		if good(i) {
			n++
		}
	}
	if n != want {
		return fmt.Errorf("%d of %d", n, want)
	}
	return nil
}

// until polls check and returns its last error when ctx ends.
func until(ctx context.Context, check func(context.Context) error) error {
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		err := check(ctx)
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return err
		}
	}
}
