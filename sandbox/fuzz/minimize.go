package fuzz

import (
	"context"
	"slices"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"
)

// A shrunk schedule is run again repeats * width times, where width is the number of concurrent runs.
const repeats = 3

// shrinkAll shrinks each failure, and merges failures that become equal.
func (r *run) shrinkAll(ctx context.Context) error {
	for i := 0; i < len(r.result.Failures); {
		f := r.result.Failures[i]
		if r.o.ShrinkFor > 0 && ctx.Err() == nil {
			if err := r.shrink(ctx, f); err != nil {
				return err
			}
		}
		known := findSameShape(r.result.Failures[:i], f)
		if known == nil {
			i++
		} else {
			known.Times += f.Times
			r.result.Failures = slices.Delete(r.result.Failures, i, i+1)
			if err := r.removeFiles(f); err != nil {
				return err
			}
		}
		if err := r.save(); err != nil {
			return err
		}
	}
	return nil
}

// shrink shrinks a failure until no simpler schedule has the same failure or ShrinkFor has passed.
func (r *run) shrink(ctx context.Context, f *Failure) error {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, r.o.ShrinkFor)
	defer cancel()
	for limited.Err() == nil {
		found, err := r.firstFailing(limited, f, f.Smallest.simplifications())
		if err != nil {
			return err
		}
		if found == nil {
			break
		}
		f.Smallest = *found
		r.mu.Lock()
		p := r.progress()
		p.Shrinking = len(f.Smallest.Actions)
		r.o.Progress(p)
		r.mu.Unlock()
	}
	f.Shrinking = time.Since(began)
	if ctx.Err() != nil {
		return nil
	}
	var mu sync.Mutex
	group, running := errgroup.WithContext(ctx)
	for range repeats * r.concurrentRuns(f.Smallest) {
		group.Go(func() error {
			got, report, err := r.runSchedule(running, f.Smallest)
			if err != nil {
				return err
			}
			mu.Lock()
			defer mu.Unlock()
			f.Repeated++
			if got.invariant == f.Invariant {
				f.Failed++
				f.Seen, f.Report, f.Log = got.seen, report, got.log
			}
			return nil
		})
	}
	if err := group.Wait(); ctx.Err() == nil {
		return err
	}
	return nil
}

// firstFailing runs schedules concurrently, each up to two times. It returns the first schedule in the list that has
// the same failure as f, or nil if none has.
func (r *run) firstFailing(ctx context.Context, f *Failure, list []Schedule) (*Schedule, error) {
	for batch := range slices.Chunk(list, r.concurrentRuns(f.Smallest)) {
		failed := make([]bool, len(batch))
		group, running := errgroup.WithContext(ctx)
		for i, s := range batch {
			group.Go(func() error {
				for range 2 {
					got, _, err := r.runSchedule(running, s)
					failed[i] = got.invariant == f.Invariant
					if err != nil || failed[i] {
						return err
					}
				}
				return nil
			})
		}
		err := group.Wait()
		if isDone(ctx) {
			break
		}
		if err != nil {
			return nil, err
		}
		if i := slices.Index(failed, true); i >= 0 {
			return &batch[i], nil
		}
	}
	return nil, nil
}

// concurrentRuns returns how many runs of a schedule fit into the sandboxes at the same time.
func (r *run) concurrentRuns(s Schedule) int {
	if s.needsOwnSandbox() {
		return r.o.Parallel
	}
	return r.o.Parallel * r.room
}
