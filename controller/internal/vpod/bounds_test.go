package vpod

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

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
