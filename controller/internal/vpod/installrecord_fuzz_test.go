package vpod

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// FuzzLedger reads what stands on the Lease of a Node, which anybody who may write Leases can change:
// what is taken is the same when it is written and read again, and is never longer than may be.
func FuzzLedger(f *testing.F) {
	read := func(ledger string) (*Provider, error) {
		p := &Provider{store: newStore(func(*corev1.Pod) bool { return false })}
		return p, p.store.restore("base-1", ledger, time.Time{})
	}
	f.Fuzz(func(t *testing.T, ledger string) {
		first, err := read(ledger)
		if err != nil {
			if !strings.Contains(err.Error(), `"base-1"`) || len(err.Error()) > 400 {
				t.Errorf("the error names no base, or is long: %.500v", err)
			}
			if left := first.InstallRecord("base-1"); left != "" {
				t.Errorf("it was refused, and %q was taken", left)
			}
			return
		}
		written := first.InstallRecord("base-1")
		if len(written) > maxLedger {
			t.Errorf("a ledger of %d bytes", len(written))
		}
		second, err := read(written)
		if diff := cmp.Diff(written, second.InstallRecord("base-1")); err != nil || diff != "" {
			t.Errorf("read again: %v (-first +second):\n%s", err, diff)
		}
	})
}
