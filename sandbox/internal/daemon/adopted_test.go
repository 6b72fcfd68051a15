package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
)

// TestFailedUpKeepsAdoptedCluster checks that a failed up keeps an existing cluster unless down is called during the
// up, and that it removes a cluster that it created.
func TestFailedUpKeepsAdoptedCluster(t *testing.T) {
	for name, tc := range map[string]struct{ adopted, down, want bool }{
		"created by this up":        {want: true},
		"existed before":            {adopted: true},
		"existed before, then down": {adopted: true, down: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			b.cluster.adopted = tc.adopted
			down := make(chan error, 1)
			b.cluster.rest = func(ctx context.Context) error {
				if tc.down {
					go func() { down <- b.Down(context.WithoutCancel(ctx)) }()
					<-ctx.Done()
				}
				return errors.New("no scheduler")
			}
			_, err := b.Up(t.Context(), request("good", 1), func(progress.Event) {})
			kept := err != nil && strings.Contains(err.Error(), errClusterKept.Error())
			if err == nil || kept == tc.want {
				t.Errorf("up returned %v", err)
			}
			if tc.down {
				if err := <-down; err != nil {
					t.Errorf("down returned %v", err)
				}
			}
			if err := <-b.ended; (err != nil) != !tc.want { // a kept cluster is reported as an error
				t.Errorf("Start returned %v", err)
			}
			b.cluster.mu.Lock()
			defer b.cluster.mu.Unlock()
			if got := slices.Contains(b.cluster.calls, "down"); got != tc.want {
				t.Errorf("calls: %q", b.cluster.calls)
			}
		})
	}
}
