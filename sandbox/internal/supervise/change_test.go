package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"

	"github.com/google/go-cmp/cmp"
)

func TestChangesAreTold(t *testing.T) {
	var mu sync.Mutex
	var told []string
	b := newBench(t)
	b.changed = func(c Change) {
		mu.Lock()
		defer mu.Unlock()
		told = append(told, fmt.Sprintf("%s %s %s", c.Name, c.State, c.Exit))
	}
	b.up(t, b.spec("a", "good"))
	err := errors.Join(b.Pause("a"), b.Resume("a"), b.Kill("a"), os.Remove(filepath.Join(b.dir, "a.up")), b.Restart(context.Background(), "a"))
	if err == nil {
		err = b.WaitReady(t.Context(), "a")
	}
	check.Must(t, errors.Join(err, b.Stop(context.Background(), "a")))
	mu.Lock()
	defer mu.Unlock()
	want := []string{"a running ", "a paused ", "a running ", "a exited signal: killed", "a running ", "a exited exit status 0"}
	if diff := cmp.Diff(want, slices.Clone(told)); diff != "" {
		t.Errorf("told (-want +got):\n%s", diff)
	}
}
