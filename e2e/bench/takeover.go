package main

import (
	"context"
	"fmt"
	"maps"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// takeoverTarget is how long the bases of a controller that has died may have none, in seconds: its
// lease holds for 15 s. It is for a few bases: the more there are, the longer the API server writes.
const takeoverTarget = 16

// takeover kills one of two controllers, and measures until the other one has all its bases.
func takeover(ctx context.Context, b *bench) error {
	took, err := b.takeoverOf(ctx, 20)
	if err != nil {
		return err
	}
	b.judge("takeover, 20 bases and two controllers", took, "s", takeoverTarget)
	if err := b.Down(ctx); err != nil {
		return err
	}
	if took, err = b.takeoverOf(ctx, b.bases()); err == nil {
		b.note(fmt.Sprintf("takeover, %d bases and two controllers", b.bases()), took, "s")
	}
	return err
}

// takeoverOf measures with n bases, in seconds.
func (b *bench) takeoverOf(ctx context.Context, n int) (float64, error) {
	if err := b.Up(ctx, v1alpha1.Spec{
		Bases:      v1alpha1.Bases{Count: &n},
		Controller: v1alpha1.Controller{Replicas: ptr.To(2)},
		Wait:       &metav1.Duration{Duration: limit},
	}); err != nil {
		return 0, err
	}
	client, err := b.api()
	if err != nil {
		return 0, err
	}
	factory := informers.NewSharedInformerFactory(client, 0)
	nodes := factory.Core().V1().Nodes().Informer().GetStore()
	stop, err := watch(ctx, factory)
	if err != nil {
		return 0, err
	}
	defer stop()
	before := holders(nodes)
	if err := b.Must(ctx, "component", "kill", "module-controller"); err != nil { // the first one, which serves all bases when they are few
		return 0, err
	}
	killed := time.Now()
	if err := wait.PollUntilContextTimeout(ctx, countEvery, limit, true, func(context.Context) (bool, error) {
		now := holders(nodes)
		return len(now) == 1 && !maps.Equal(now, before), nil
	}); err != nil {
		return 0, fmt.Errorf("waiting until one controller has all bases: %w; they have %v", err, holders(nodes))
	}
	return time.Since(killed).Seconds(), nil
}

// holders counts the bases of each controller.
func holders(nodes cache.Store) map[string]int {
	count := map[string]int{}
	for _, object := range nodes.List() {
		if n, is := object.(*corev1.Node); is {
			count[n.Annotations[labels.Holder]]++
		}
	}
	return count
}
