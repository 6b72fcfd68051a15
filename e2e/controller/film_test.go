package controller

import (
	"context"
	"sync"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/koupleless/koupsandbox/e2e/internal/module"
)

// frame is a Pod after one write of the API server, or its end.
type frame struct {
	pod     *corev1.Pod
	ready   bool
	deleted bool
	at      time.Time // when the watch told
}

// film is every frame of the Pods of a namespace, in the API server's order.
type film struct {
	ns     string
	mu     sync.Mutex
	frames []frame
}

// record films a namespace until the test ends.
func record(t *testing.T, ns string) *film {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	list, err := client.CoreV1().Pods(ns).List(ctx, metav1.ListOptions{})
	must(t, err)
	w, err := client.CoreV1().Pods(ns).Watch(ctx, metav1.ListOptions{ResourceVersion: list.ResourceVersion})
	must(t, err)
	f := &film{ns: ns}
	for i := range list.Items {
		f.add(&list.Items[i], false)
	}
	var running sync.WaitGroup
	running.Go(func() {
		for e := range w.ResultChan() {
			if p, ok := e.Object.(*corev1.Pod); ok {
				f.add(p, e.Type == watch.Deleted)
			}
		}
	})
	t.Cleanup(func() {
		cancel()
		w.Stop()
		running.Wait()
	})
	return f
}

func (f *film) add(p *corev1.Pod, deleted bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.frames = append(f.frames, frame{p, module.IsReady(p), deleted, time.Now()})
}

// caughtUp waits until the film shows what the API server has now: a watch tells a little later than a read.
func (f *film) caughtUp(t *testing.T) {
	t.Helper()
	eventually(t, "the watch has told everything", func(ctx context.Context) error {
		list, err := client.CoreV1().Pods(f.ns).List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		there := map[types.UID]string{}
		for _, p := range list.Items {
			there[p.UID] = p.ResourceVersion
		}
		f.mu.Lock()
		defer f.mu.Unlock()
		shown := map[types.UID]string{}
		for _, one := range f.frames {
			shown[one.pod.UID] = one.pod.ResourceVersion
			if one.deleted {
				delete(shown, one.pod.UID)
			}
		}
		return same(there, shown)
	})
}

// turns are the frames, up to now, in which a Pod turned Ready or Not Ready, or went.
func (f *film) turns(t *testing.T) []frame {
	t.Helper()
	f.caughtUp(t)
	f.mu.Lock()
	defer f.mu.Unlock()
	ready := map[types.UID]bool{}
	var list []frame
	for _, one := range f.frames {
		if one.deleted || one.ready != ready[one.pod.UID] {
			list = append(list, one)
		}
		ready[one.pod.UID] = one.ready
	}
	return list
}
