package daemon

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
)

// A cluster that was there before outlives an up that fails, but no down; one that this up has made
// goes.
func TestUpThatFailsLeavesWhatWasThere(t *testing.T) {
	for name, tc := range map[string]struct{ adopted, down, want bool }{
		"made by this up":            {want: true},
		"there before":               {adopted: true},
		"there before, and not kept": {adopted: true, down: true, want: true},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
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
			if left := err != nil && strings.Contains(err.Error(), errClusterKept.Error()); err == nil || left == tc.want {
				t.Errorf("up gave %v", err)
			}
			if tc.down {
				if err := <-down; err != nil {
					t.Errorf("down gave %v", err)
				}
			}
			if err := <-b.ended; (err != nil) != !tc.want { // that something was left is told
				t.Errorf("the daemon ended with %v", err)
			}
			b.cluster.mu.Lock()
			defer b.cluster.mu.Unlock()
			if got := slices.Contains(b.cluster.calls, "down"); got != tc.want {
				t.Errorf("calls of the cluster: %q", b.cluster.calls)
			}
		})
	}
}
