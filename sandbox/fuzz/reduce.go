package fuzz

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"
)

// repeats is the number of times that a shrunk schedule is run again, per concurrent run.
const repeats = 3

// reduceAll shrinks each failure, and merges failures that become the same.
func (r *run) reduceAll(ctx context.Context) error {
	for i := 0; i < len(r.result.Failures); {
		f := r.result.Failures[i]
		if r.o.ShrinkFor > 0 && ctx.Err() == nil {
			if err := r.reduce(ctx, f); err != nil {
				return err
			}
		}
		known := alike(r.result.Failures[:i], f)
		if known == nil {
			i++
		} else {
			known.Times += f.Times
			r.result.Failures = slices.Delete(r.result.Failures, i, i+1)
			if err := r.forget(f); err != nil {
				return err
			}
		}
		if err := r.save(); err != nil {
			return err
		}
	}
	return nil
}

// reduce shrinks a failure as long as a simpler schedule has the same failure.
func (r *run) reduce(ctx context.Context, f *Failure) error {
	began := time.Now()
	limited, cancel := context.WithTimeout(ctx, r.o.ShrinkFor)
	defer cancel()
	for limited.Err() == nil {
		found, err := r.first(limited, f, f.Smallest.smaller())
		if err != nil {
			return err
		}
		if found == nil {
			break
		}
		f.Smallest = *found
		r.mu.Lock()
		p := r.progress()
		p.Shrinking = len(f.Smallest.Moves)
		r.o.Progress(p)
		r.mu.Unlock()
	}
	f.Shrinking = time.Since(began)
	if ctx.Err() != nil {
		return nil
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	var errs []error
	for range repeats * r.width(f.Smallest) {
		wg.Go(func() {
			got, report, err := r.try(ctx, f.Smallest)
			mu.Lock()
			defer mu.Unlock()
			if err != nil {
				errs = append(errs, err)
				return
			}
			f.Repeated++
			if got.invariant == f.Invariant {
				f.Failed++
				f.Seen = got.seen
				f.Report, f.Log = report, got.log
			}
		})
	}
	wg.Wait()
	if ctx.Err() != nil {
		return nil
	}
	return errors.Join(errs...)
}

// first runs schedules concurrently, each up to two times. It returns the first one in the list that has the same
// failure as f, or nil.
func (r *run) first(ctx context.Context, f *Failure, list []Schedule) (*Schedule, error) {
	for len(list) > 0 && !over(ctx) {
		batch := list[:min(len(list), r.width(list[0]))]
		list = list[len(batch):]
		failed := make([]bool, len(batch))
		errs := make([]error, len(batch))
		var wg sync.WaitGroup
		for i, s := range batch {
			wg.Go(func() {
				for range 2 {
					got, _, err := r.try(ctx, s)
					if errs[i] = err; err != nil || got.invariant == f.Invariant {
						failed[i] = err == nil
						return
					}
				}
			})
		}
		wg.Wait()
		if over(ctx) {
			break
		}
		if err := errors.Join(errs...); err != nil {
			return nil, err
		}
		for i := range batch {
			if failed[i] {
				return &batch[i], nil
			}
		}
	}
	return nil, nil
}

// width returns the number of concurrent runs of a schedule.
func (r *run) width(s Schedule) int {
	if s.alone() {
		return r.o.Parallel
	}
	return r.o.Parallel * r.room
}
