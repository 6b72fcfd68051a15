package vpod

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
)

// FuzzInstallRecord reads arbitrary install records, because any client with write permission for Leases can change
// them. An accepted record must be the same after it is written and read again, and must not exceed the maximum size.
func FuzzInstallRecord(f *testing.F) {
	read := func(installRecord string) (*Provider, error) {
		p := &Provider{store: newStore(func(*corev1.Pod) bool { return false })}
		return p, p.store.restoreInstallRecord("base-1", installRecord, time.Time{})
	}
	f.Fuzz(func(t *testing.T, installRecord string) {
		first, err := read(installRecord)
		if err != nil {
			if !strings.Contains(err.Error(), `"base-1"`) || len(err.Error()) > 400 {
				t.Errorf("the error does not contain the base, or is too long: %.500v", err)
			}
			if left := first.InstallRecord("base-1"); left != "" {
				t.Errorf("the record was rejected, but %q was read from it", left)
			}
			return
		}
		written := first.InstallRecord("base-1")
		if len(written) > maxInstallRecord {
			t.Errorf("the record has %d bytes, want at most %d", len(written), maxInstallRecord)
		}
		second, err := read(written)
		if diff := cmp.Diff(written, second.InstallRecord("base-1")); err != nil || diff != "" {
			t.Errorf("second read: error %v (-first +second):\n%s", err, diff)
		}
	})
}
