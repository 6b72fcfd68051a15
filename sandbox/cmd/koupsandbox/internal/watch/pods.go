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

// selectors find the Pods of modules by either spelling of the label. No Pod matches both: two
// watches of one Pod could tell its states in the wrong order.
var selectors = []string{labels.Component + "=" + labels.Module, labels.OlderComponent + "=" + labels.Module + "," + labels.Component + "!=" + labels.Module}

// pods tells the changes of Pods, from when the bases are known.
func (f *follower) pods(ctx context.Context) error {
	select {
	case <-f.synced:
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	told := map[string]string{} // resource versions by UID
	handler := cache.ResourceEventHandlerFuncs{
		AddFunc:    func(o any) { f.pod(told, o, false) },
		UpdateFunc: func(_, o any) { f.pod(told, o, false) },
		DeleteFunc: func(o any) { f.pod(told, o, true) },
	}
	for _, selector := range selectors {
		factory := informers.NewSharedInformerFactoryWithOptions(f.o.API, 0, informers.WithNamespace(f.o.Group),
			informers.WithTweakListOptions(func(o *metav1.ListOptions) { o.LabelSelector = selector }))
		informer := factory.Core().V1().Pods().Informer()
		// An API server that is away shows as a component; the library would log it across the
		// screen.
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

// pod tells a change; what a new list of all Pods repeats is none.
func (f *follower) pod(told map[string]string, o any, gone bool) {
	if d, ok := o.(cache.DeletedFinalStateUnknown); ok {
		o = d.Obj
	}
	pod, ok := o.(*corev1.Pod)
	if !ok {
		return
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	id := string(pod.UID)
	before, known := told[id]
	if gone && !known || !gone && before == pod.ResourceVersion {
		return
	}
	state := events.PodStateOf(pod)
	state.Gone = gone
	if before := f.state.Pods.Get(id); before != nil {
		state.Writes = before.Writes
	}
	if gone {
		delete(told, id)
	} else {
		state.Writes++
		told[id] = pod.ResourceVersion
	}
	f.tell(events.Event{Time: f.o.Clock.Now(), Pod: &events.PodEvent{Base: f.state.BaseOf(pod.Spec.NodeName), PodState: *state}})
}
