package vpod

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"
	corev1client "k8s.io/client-go/kubernetes/typed/core/v1"
	clienttesting "k8s.io/client-go/testing"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// slowAPI is an API whose writes of Pods take a second each. It knows how many of them were under way at
// once at most.
type slowAPI struct {
	kubernetes.Interface
	mu        sync.Mutex
	now, most int
}

func (a *slowAPI) CoreV1() corev1client.CoreV1Interface { return slowCore{a.Interface.CoreV1(), a} }

func (a *slowAPI) take() {
	a.mu.Lock()
	a.now++
	a.most = max(a.most, a.now)
	a.mu.Unlock()
	time.Sleep(time.Second) // in a synctest bubble: no real time passes
	a.mu.Lock()
	a.now--
	a.mu.Unlock()
}

type slowCore struct {
	corev1client.CoreV1Interface
	api *slowAPI
}

func (c slowCore) Pods(namespace string) corev1client.PodInterface {
	return slowPods{c.CoreV1Interface.Pods(namespace), c.api}
}

type slowPods struct {
	corev1client.PodInterface
	api *slowAPI
}

func (p slowPods) UpdateStatus(ctx context.Context, pod *corev1.Pod, o metav1.UpdateOptions) (*corev1.Pod, error) {
	p.api.take()
	return p.PodInterface.UpdateStatus(ctx, pod, o)
}

func (p slowPods) Patch(ctx context.Context, name string, of types.PatchType, data []byte, o metav1.PatchOptions, sub ...string) (*corev1.Pod, error) {
	p.api.take()
	return p.PodInterface.Patch(ctx, name, of, data, o, sub...)
}

// However many Pods have something to be written, a slow API server has so many writes at once and no
// more: the Leases need room beside them.
func TestWritesOfPodsAtOnce(t *testing.T) {
	in(t, "", Options{AddTolerationFor: "dev"}, func(t *testing.T, w *world) {
		const pods = 120
		w.base.with(func(b *fakeBase) {
			for i := range pods {
				b.install(arklet.Module{Name: fmt.Sprint("biz", i), Version: "1"})
			}
		})
		w.base.tell()
		api := &slowAPI{Interface: w.api}
		w.writer.client = api
		for i := range pods {
			w.create(fmt.Sprint("p", i), container(fmt.Sprint("biz", i), "1"))
			unbound := &corev1.Pod{
				ObjectMeta: metav1.ObjectMeta{Name: fmt.Sprint("u", i), Namespace: "default", UID: types.UID(fmt.Sprint("u", i)), Labels: map[string]string{labels.Component: labels.Module}},
				Spec:       corev1.PodSpec{Containers: []corev1.Container{container("biz", "1")}, Tolerations: []corev1.Toleration{{Key: labels.TaintVirtualNode, Operator: corev1.TolerationOpExists}}},
			}
			if _, err := w.api.CoreV1().Pods("default").Create(t.Context(), unbound, metav1.CreateOptions{}); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(2 * time.Minute)
		for i := range pods {
			w.wantShow(fmt.Sprint("p", i), "Running Ready")
			if n := len(w.pod(fmt.Sprint("u", i)).Spec.Tolerations); n != 2 {
				t.Errorf("u%d has %d tolerations, want 2", i, n)
			}
		}
		if api.most != publishAtOnce+choresAtOnce {
			t.Errorf("%d writes of Pods at once, want %d", api.most, publishAtOnce+choresAtOnce)
		}
	})
}

// A Pod that the API server does not let go keeps no other of its module.
func TestAPodThatStaysKeepsNoOther(t *testing.T) {
	names := []string{"p1", "p2", "p3"}
	for _, stays := range names { // in whatever order they are looked at
		in(t, stays+" stays", Options{}, func(t *testing.T, w *world) {
			var refused atomic.Bool
			refused.Store(true)
			w.api.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				d := a.(clienttesting.DeleteActionImpl)
				forGood := d.DeleteOptions.GracePeriodSeconds != nil && *d.DeleteOptions.GracePeriodSeconds == 0
				if d.Name != stays || !forGood || !refused.Load() {
					return false, nil, nil
				}
				return true, nil, errors.New("admission webhook denied the request")
			})
			for _, name := range names {
				w.create(name, container("biz1", "1"))
			}
			w.pass(2 * time.Second)
			for _, name := range names {
				w.delete(name)
			}
			w.pass(20 * time.Second) // before the end of their grace period
			for _, name := range names {
				if gone := w.pod(name) == nil; gone == (name == stays) {
					t.Errorf("pod %s is gone: %t", name, gone)
				}
			}
			refused.Store(false)
			w.pass(5 * time.Second)
			w.wantShow(stays, "gone")
		})
	}
}
