package fuzz

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

// poolOf has sandboxes that are up, and brings no other up.
func poolOf(sandboxes int) *pool {
	p := &pool{o: &Options{Parallel: sandboxes}, changed: make(chan struct{})}
	for range sandboxes {
		p.boxes = append(p.boxes, &box{})
	}
	return p
}

// usedOf is how much of each sandbox is in use.
func (p *pool) usedOf() (used []int) {
	for _, b := range p.boxes {
		used = append(used, b.used)
	}
	return used
}

// Schedules that may be beside each other share a sandbox before another one is used; one that must be
// alone waits until one is empty, and meanwhile no other one begins.
func TestRoom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := poolOf(2)
		take := func(room int) *box {
			b, err := p.take(t.Context(), room)
			if err != nil {
				t.Error(err)
			}
			return b
		}
		leave := func(b *box, room int) {
			if err := p.leave(t.Context(), b, room); err != nil {
				t.Error(err)
			}
		}
		var shared []*box
		for range beside + 1 {
			shared = append(shared, take(1))
		}
		got := [][]int{p.usedOf()}
		done := make(chan string, 2)
		alone := make(chan *box, 1)
		go func() {
			alone <- take(beside)
			done <- "alone"
		}()
		synctest.Wait()
		go func() {
			take(1)
			done <- "beside"
		}()
		synctest.Wait()
		got = append(got, p.usedOf())
		leave(shared[0], 1) // there is room for one beside the others, but one waits to be alone
		synctest.Wait()
		got = append(got, p.usedOf())
		leave(shared[beside], 1)
		synctest.Wait()
		got = append(got, p.usedOf())
		leave(<-alone, beside)
		synctest.Wait()
		got = append(got, p.usedOf())
		want := [][]int{{beside, 1}, {beside, 1}, {beside - 1, 1}, {beside, beside}, {beside, 0}}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("used (-want +got):\n%s", diff)
		}
		began := []string{<-done, <-done} // at the same moment, one in each
		slices.Sort(began)
		if diff := cmp.Diff([]string{"alone", "beside"}, began); diff != "" {
			t.Errorf("who began (-want +got):\n%s", diff)
		}
	})
}

// Nothing begins in a sandbox that is broken, and who waits for another one goes when it is stopped.
func TestNoRoomInWhatIsBroken(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p := poolOf(1)
		p.boxes[0].broken = true
		ctx, stop := context.WithCancel(t.Context())
		got := make(chan error, 1)
		go func() {
			_, err := p.take(ctx, 1)
			got <- err
		}()
		synctest.Wait()
		if diff := cmp.Diff([]int{0}, p.usedOf()); diff != "" {
			t.Errorf("used (-want +got):\n%s", diff)
		}
		stop()
		if err := <-got; !errors.Is(err, context.Canceled) {
			t.Errorf("error %v", err)
		}
	})
}

// What the fuzzer writes on its way is its user's alone, whatever the umask, and goes with it.
func TestSchedulesArePrivate(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	umask := syscall.Umask(0)
	defer syscall.Umask(umask)
	p, err := openPool(&Options{})
	if err != nil {
		t.Fatal(err)
	}
	file, err := p.write(generator{}.draw(1))
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]fs.FileMode{}
	for what, path := range map[string]string{"the fuzzer's folder": p.work, "a schedule's folder": filepath.Dir(file), "a schedule": file} {
		info, err := os.Stat(path)
		if err != nil {
			t.Fatal(err)
		}
		got[what] = info.Mode().Perm()
	}
	want := map[string]fs.FileMode{"the fuzzer's folder": 0o700, "a schedule's folder": 0o700, "a schedule": 0o600}
	if diff := cmp.Diff(want, got); diff != "" || filepath.Dir(filepath.Dir(file)) != p.work {
		t.Errorf("permissions (-want +got), in %s:\n%s", file, diff)
	}
	if err := p.close(t.Context()); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(p.work); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the fuzzer leaves its folder: %v", err)
	}
}
