package rpc

import (
	"context"
	"math"
	"net/http"
	"time"
)

const clock Unary[Empty, time.Time] = "Clock"

// samples is the number of requests that ClockOffset sends. The fastest response gives the most accurate offset.
const samples = 5

// HandleClock registers the RPC method that ClockOffset calls.
func HandleClock(mux *http.ServeMux) {
	clock.Handle(mux, func(context.Context, Empty) (time.Time, error) { return time.Now(), nil })
}

// ClockOffset returns the time by which the clock of the server is ahead of the local clock. It is negative if the
// clock of the server is behind. ClockOffset returns zero if the round-trip time can explain the difference. It
// blocks until five responses have arrived or ctx is done.
func (c *Client) ClockOffset(ctx context.Context) (time.Duration, error) {
	offset, fastest := time.Duration(0), time.Duration(math.MaxInt64)
	for range samples {
		sent := time.Now()
		serverTime, err := clock.Call(ctx, c, Empty{})
		if err != nil {
			return 0, err
		}
		if took := time.Since(sent); took < fastest {
			offset, fastest = serverTime.Sub(sent.Add(took/2)), took
		}
	}
	if offset.Abs() <= fastest/2 {
		return 0, nil
	}
	return offset, nil
}
