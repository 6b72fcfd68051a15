package rpc

import (
	"context"
	"math"
	"net/http"
	"time"
)

const clock Unary[None, time.Time] = "Clock"

// samples is the number of requests of Ahead. The fastest answer is the most accurate one.
const samples = 5

// HandleClock lets clients call Ahead.
func HandleClock(mux *http.ServeMux) {
	clock.Handle(mux, func(context.Context, None) (time.Time, error) { return time.Now(), nil })
}

// Ahead asks how far the clock of a server, which may be that of another machine, is ahead of this
// one's; less than zero = behind. What the time of an answer's way can explain is zero. It blocks for
// five answers, or until ctx ends.
func (c *Client) Ahead(ctx context.Context) (time.Duration, error) {
	ahead, least := time.Duration(0), time.Duration(math.MaxInt64)
	for range samples {
		sent := time.Now()
		theirs, err := clock.Call(ctx, c, None{})
		if err != nil {
			return 0, err
		}
		if took := time.Since(sent); took < least {
			ahead, least = theirs.Sub(sent.Add(took/2)), took
		}
	}
	if ahead.Abs() <= least/2 {
		return 0, nil
	}
	return ahead, nil
}
