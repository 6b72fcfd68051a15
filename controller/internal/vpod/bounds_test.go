package vpod

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/runtime"
	clienttesting "k8s.io/client-go/testing"
)

// TestRefusedDeletionDoesNotBlockOtherPods checks that if the API server refuses to delete one Pod, the other Pods of
// the module are deleted nevertheless.
func TestRefusedDeletionDoesNotBlockOtherPods(t *testing.T) {
	names := []string{"p1", "p2", "p3"}
	for _, stays := range names { // each position in the order of the Pods
		runTest(t, "refused for "+stays, Options{}, func(t *testing.T, w *fixture) {
			var refused atomic.Bool
			refused.Store(true)
			w.api.PrependReactor("delete", "pods", func(a clienttesting.Action) (bool, runtime.Object, error) {
				d := a.(clienttesting.DeleteActionImpl)
				force := d.DeleteOptions.GracePeriodSeconds != nil && *d.DeleteOptions.GracePeriodSeconds == 0
				if d.Name != stays || !force || !refused.Load() {
					return false, nil, nil
				}
				return true, nil, errors.New("admission webhook denied the request")
			})
			for _, name := range names {
				w.create(name, container("biz1", "1"))
			}
			w.advance(2 * time.Second)
			for _, name := range names {
				w.delete(name)
			}
			w.advance(20 * time.Second) // before the end of their grace period
			for _, name := range names {
				if deleted := w.pod(name) == nil; deleted == (name == stays) {
					t.Errorf("pod %s: deleted is %t, want %t", name, deleted, !deleted)
				}
			}
			refused.Store(false)
			w.advance(5 * time.Second)
			w.wantSummary(stays, "gone")
		})
	}
}
