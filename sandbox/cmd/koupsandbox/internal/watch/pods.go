package watch

import (
	"context"
	"fmt"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/tools/cache"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// selectors selects module Pods by the current label and by the older label. The selectors do not overlap: a Pod with
// both labels matches only the first, so only one watch reports it.
var selectors = []string{labels.Component + "=" + labels.Module,
	labels.OlderComponent + "=" + labels.Module + "," + labels.Component + "!=" + labels.Module}

// pods waits until the existing bases are known, then reports Pod changes until ctx ends. It returns the cause of
// ctx.
func (f *follower) pods(ctx context.Context) error {
	select {
	case <-f.synced:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc: func(o any) { f.pod(o.(*corev1.Pod), false) },
		UpdateFunc: func(before, o any) {
			old, pod := before.(*corev1.Pod), o.(*corev1.Pod)
			if old.UID != pod.UID {
				f.pod(old, true)
			}
			if old.ResourceVersion != pod.ResourceVersion {
				f.pod(pod, false)
			}
		},
		DeleteFunc: func(o any) {
			if unknown, ok := o.(cache.DeletedFinalStateUnknown); ok {
				o = unknown.Obj
			}
			f.pod(o.(*corev1.Pod), true)
		},
	}
	for _, selector := range selectors {
		factory := informers.NewSharedInformerFactoryWithOptions(f.o.API, 0, informers.WithNamespace(f.o.Group),
			informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
		informer := factory.Core().V1().Pods().Informer()
		// The component events report an unavailable API server. By default, client-go would log it over the screen.
		err := informer.SetWatchErrorHandlerWithContext(func(context.Context, *cache.Reflector, error) {})
		if err == nil {
			_, err = informer.AddEventHandler(handler)
		}
		if err != nil {
			return fmt.Errorf("watching Pods: %w", err)
		}
		factory.Start(ctx.Done())
		defer factory.Shutdown()
	}
	<-ctx.Done()
	return context.Cause(ctx)
}

// pod reports a change of one Pod.
func (f *follower) pod(pod *corev1.Pod, deleted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.emit(events.Event{Time: f.o.Clock.Now(), Pod: f.state.PodEvent(pod, deleted)})
}
