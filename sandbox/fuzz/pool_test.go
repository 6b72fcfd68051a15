package fuzz

import (
	"os"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// poolOf returns a pool whose sandboxes already exist.
func poolOf(t *testing.T, sandboxes int) *pool {
	t.Helper()
	p, err := openPool(Options{Parallel: sandboxes})
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range p.boxes {
		b.in = &sandbox.Sandbox{}
	}
	t.Cleanup(func() {
		if err := os.RemoveAll(p.work); err != nil {
			t.Error(err)
		}
	})
	return p
}

// TestRoom checks that schedules share a sandbox until it is full. A schedule that needs its own sandbox must wait
// until a sandbox is empty. In the meantime, no other schedule may start in this sandbox.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := poolOf(t, 2)
		running := map[*box]int{}
		var mu sync.Mutex
		start := func(room int64) (end func()) {
			ended := make(chan struct{})
			go func() {
				err := p.withSandbox(t.Context(), room, func(b *box) error {
					mu.Lock()
					running[b] += int(room)
					mu.Unlock()
					<-ended
					mu.Lock()
					running[b] -= int(room)
					mu.Unlock()
					return nil
				})
				if err != nil {
					t.Error(err)
				}
			}()
			synctest.Wait()
			return func() {
				close(ended)
				synctest.Wait()
			}
		}
		var got [][2]int
		record := func() {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, [2]int{running[p.boxes[0]], running[p.boxes[1]]})
		}
		var ends []func()
		for range maxConcurrent + 1 {
			ends = append(ends, start(1))
		}
		record()
		exclusive := start(maxConcurrent)
		last := start(1)
		record()
		ends[maxConcurrent]() // the second sandbox is empty
		record()
		for _, end := range ends[:maxConcurrent] {
			end()
		}
		record()
		exclusive()
		last()
		record()
		want := [][2]int{{maxConcurrent, 1}, {maxConcurrent, 1}, {maxConcurrent, maxConcurrent}, {1, maxConcurrent},
			{0, 0}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("running (-want +got):\n%s", diff)
		}
	})
}

// TestBrokenSandbox checks that no schedule starts in a broken sandbox that cannot be replaced.
func TestBrokenSandbox(t *testing.T) {
	p := poolOf(t, 1)
	p.boxes[0].broken.Store(true)
	p.o.Home, p.o.Config = t.TempDir(), &v1alpha1.Sandbox{} // sandbox.Up rejects it
	err := p.withSandbox(t.Context(), 1, func(*box) error {
		t.Error("schedule was started")
		return nil
	})
	if err == nil || p.boxes[0].load != 0 {
		t.Errorf("error = %v, load = %d; want an error, 0", err, p.boxes[0].load)
	}
}
