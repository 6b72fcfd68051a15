package rpc_test

import (
	"context"
	"errors"
	"slices"
	"testing"
	"testing/synctest"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/rpc"
)

func TestQueueKeepsOrder(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q rpc.Queue[int]
		var got, want []int
		go func() {
			for i := range 1000 {
				q.Put(2*i, 2*i+1)
			}
			q.Close()
		}()
		for i := range 2000 {
			want = append(want, i)
		}
		if err := q.Read(t.Context(), func(i int) { got = append(got, i) }); err != nil {
			t.Error(err)
		}
		if d := cmp.Diff(want, got); d != "" || q.Count() != 2000 {
			t.Errorf("Count() = %d; values (-want +got):\n%s", q.Count(), d)
		}
	})
}

// TestQueueOverflow checks that Put does not block. When the limit is exceeded, the reader must receive the values
// that were queued before, and then ErrOverflow.
func TestQueueOverflow(t *testing.T) {
	var q rpc.Queue[int]
	q.Put(1, 2, 3, 4)
	q.Limit(3) // values that are already queued are kept
	var got []int
	read := func() error {
		got = nil
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		return q.Read(ctx, func(i int) {
			got = append(got, i)
			if i == 4 {
				cancel()
			}
		})
	}
	if err := read(); err != nil || !slices.Equal(got, []int{1, 2, 3, 4}) {
		t.Errorf("values = %v, error = %v", got, err)
	}
	q.Put(5, 6)
	q.Put(7, 8) // exceeds the limit, so neither value is queued
	q.Put(9)    // values after an overflow are dropped
	if err := read(); !errors.Is(err, rpc.ErrOverflow) || !slices.Equal(got, []int{5, 6}) {
		t.Errorf("values = %v, error = %v", got, err)
	}
	if err := read(); !errors.Is(err, rpc.ErrOverflow) || len(got) > 0 {
		t.Errorf("second Read: values = %v, error = %v; want only ErrOverflow", got, err)
	}
}

func TestReadReturnsWhenContextEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var q rpc.Queue[int]
		ctx, cancel := context.WithCancel(t.Context())
		done := make(chan error)
		go func() { done <- q.Read(ctx, func(int) {}) }()
		synctest.Wait()
		cancel()
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

func TestReadCounter(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var m rpc.ReadCounter
		wait := func(ctx context.Context, n uint64) <-chan error {
			done := make(chan error, 1)
			go func() { done <- m.Wait(ctx, n) }()
			synctest.Wait()
			return done
		}
		if err := m.Wait(t.Context(), 0); err != nil {
			t.Error(err)
		}
		canceled, lost := errors.New("canceled"), errors.New("connection lost")
		ctx, cancel := context.WithCancelCause(t.Context())
		first, second, third, late := wait(t.Context(), 1), wait(t.Context(), 2), wait(t.Context(), 3), wait(ctx, 3)
		m.Add()
		if err := <-first; err != nil {
			t.Error(err)
		}
		cancel(canceled)
		if err := <-late; !errors.Is(err, canceled) {
			t.Errorf("Wait() after the context has ended = %v, want its cause", err)
		}
		synctest.Wait()
		if len(second)+len(third) > 0 {
			t.Error("Wait() returned too early")
		}
		m.Add()
		m.End(lost)
		if err := <-second; err != nil {
			t.Errorf("Wait() for read values = %v, want nil", err)
		}
		if err := <-third; !errors.Is(err, lost) {
			t.Errorf("Wait() after End = %v, want the error of End", err)
		}
	})
}
