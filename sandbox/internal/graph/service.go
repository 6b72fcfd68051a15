package graph

import (
	"context"
	"sync"
)

// Service makes s a step that starts something long-lived: its Run returns at once while start goes
// on in a goroutine, and its Undo ends the context of start and waits until it has returned. ended
// is told when start returns an error, whenever that is. The context of start does not end with
// that of Run.
func Service(s Step, start func(context.Context) error, ended func(error)) Step {
	var (
		running sync.WaitGroup
		end     context.CancelFunc
	)
	s.Run = func(ctx context.Context) error {
		ctx, end = context.WithCancel(context.WithoutCancel(ctx)) //nolint:gosec // the undo of the step calls it
		running.Go(func() {
			if err := start(ctx); err != nil {
				ended(err)
			}
		})
		return nil
	}
	s.Undo = func(context.Context) error {
		end()
		running.Wait()
		return nil
	}
	return s
}

// Chain has each step need what the one before gives: it adds a condition for each that gives none.
func Chain(steps ...Step) []Step {
	for i := range steps {
		if i == 0 {
			continue
		}
		before := &steps[i-1]
		if len(before.Gives) == 0 {
			before.Gives = []Condition{Condition(before.Name)}
		}
		steps[i].Needs = append(steps[i].Needs, before.Gives[0])
	}
	return steps
}
