package wait

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

const quietPollInterval = 100 * time.Millisecond

// untilQuiet waits until the controllers have written nothing, except to Leases, for the duration that the step
// requires. It ignores writes to objects of other runs.
func untilQuiet(ctx context.Context, e *steps.Env, long time.Duration) (string, error) {
	var first, now map[string]int
	err := steps.Poll(ctx, quietPollInterval, func() (bool, error) {
		all, err := e.Sandbox.Faults(ctx, e.Group)
		if err != nil {
			return false, fmt.Errorf("requesting the API writes of the controllers: %w", err)
		}
		now = writes(all)
		if first == nil {
			first = now
		}
		return time.Since(all.Writes.Last) >= long, nil
	})
	if err != nil {
		return "", steps.TimeoutFailure(ctx, err,
			func() *steps.Failure {
				return steps.Fail("the controllers are still writing: %s", mostFrequentWrites(first, now))
			})
	}
	return fmt.Sprintf("the controllers wrote nothing for %s", long), nil
}

// writes counts the write requests of the controllers by verb and resource. It ignores writes to Leases.
func writes(faults control.Faults) map[string]int {
	sum := map[string]int{}
	for _, writes := range faults.Writes.By {
		for what, n := range writes {
			if !strings.HasSuffix(what, " leases") {
				sum[what] += n
			}
		}
	}
	return sum
}

// mostFrequentWrites formats the three kinds of writes whose counts have increased most from first to now.
func mostFrequentWrites(first, now map[string]int) string {
	writes := map[string]int{}
	for what, n := range now {
		if n > first[what] {
			writes[what] = n - first[what]
		}
	}
	list := slices.SortedFunc(maps.Keys(writes),
		func(a, b string) int { return cmp.Or(writes[b]-writes[a], strings.Compare(a, b)) })
	list = list[:min(3, len(list))]
	for i, what := range list {
		list[i] = fmt.Sprintf("%s %s", what, plain.Count(writes[what], "time"))
	}
	return strings.Join(list, ", ")
}
