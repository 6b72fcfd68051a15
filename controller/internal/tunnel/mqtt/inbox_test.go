package mqtt

import (
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"
)

func TestSlowMessageDelaysOnlyItsBase(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newInbox(inboxWorkers)
		var mu sync.Mutex
		done := map[string][]int{}
		put := func(base string, n int, work func()) {
			if !b.put(base, 1, func() {
				work()
				mu.Lock()
				defer mu.Unlock()
				done[base] = append(done[base], n)
			}) {
				t.Errorf("message %d of %s was rejected", n, base)
			}
		}
		hang := make(chan struct{})
		for i := range inboxWorkers - 1 { // one worker is free
			base := fmt.Sprintf("slow%d", i)
			put(base, 0, func() { <-hang })
			put(base, 1, func() {})
		}
		var order []int
		for n := range 100 {
			order = append(order, n)
			put("a", n, func() {})
			put("b", n, func() {})
		}
		synctest.Wait()
		want := map[string][]int{"a": order, "b": order}
		mu.Lock()
		if diff := cmp.Diff(want, done); diff != "" {
			t.Errorf("handled while other bases are blocked (-want +got):\n%s", diff)
		}
		mu.Unlock()
		close(hang)
		synctest.Wait()
		if !slices.Equal(done["slow0"], []int{0, 1}) {
			t.Errorf("messages of a blocked base: %v", done["slow0"])
		}
		if b.size != 0 || len(b.bases) != 0 || len(b.readyQueues) != 0 {
			t.Errorf("left: %d bytes, %d bases, %d turns", b.size, len(b.bases), len(b.readyQueues))
		}
		b.stop()
	})
}

func TestInboxAlternatesBetweenBases(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newInbox(inboxWorkers)
		hang := make(chan struct{})
		for i := range inboxWorkers {
			b.put(fmt.Sprint(i), 1, func() { <-hang })
		}
		synctest.Wait()
		var mu sync.Mutex
		var order []string
		note := func(base string) func() {
			return func() { mu.Lock(); defer mu.Unlock(); order = append(order, base) }
		}
		for range 50 {
			b.put("loud", 1, note("loud"))
		}
		b.put("quiet", 1, note("quiet"))
		close(hang)
		synctest.Wait()
		if at := slices.Index(order, "quiet"); at < 0 || at > 2*inboxWorkers {
			t.Errorf("the only message of a base was handled as number %d, after messages of a busy base", at)
		}
		b.stop()
	})
}

func TestInboxLimits(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newInbox(inboxWorkers)
		hang := make(chan struct{})
		const large = 1<<20 - messageCost
		count := func(base string) (n int) {
			for b.put(base, large, func() { <-hang }) {
				n++
			}
			return n
		}
		if n := count("0"); n != 4 {
			t.Errorf("%d messages of 1 MiB of one base were queued, want 4", n)
		}
		all := 4
		for i := 1; i < 100; i++ {
			all += count(fmt.Sprint(i))
		}
		if all != 64 {
			t.Errorf("%d messages of 1 MiB were queued, want 64", all)
		}
		close(hang)
		synctest.Wait()
		if !b.put("0", large, func() {}) {
			t.Error("a message was rejected although the inbox is empty")
		}
		small := 0
		block := make(chan struct{})
		for b.put("small", 0, func() { <-block }) {
			small++
		}
		if small > inboxOfBase/messageCost {
			t.Errorf("%d empty messages were queued", small)
		}
		close(block)
		b.stop()
		if b.put("0", 1, func() {}) {
			t.Error("a stopped inbox accepts messages")
		}
	})
}
