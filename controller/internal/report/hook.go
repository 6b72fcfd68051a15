package report

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"sync/atomic"
	"time"

	"golang.org/x/time/rate"
	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/koupleless/koupsandbox/controller/errcode"
)

const (
	attemptTimeout = 5 * time.Second
	// attempts is the maximum number of attempts to send a message. The delay between attempts starts at firstDelay
	// and increases.
	attempts   = 4
	firstDelay = time.Second
	// perMinute is the maximum number of messages per minute. If a hook sends more messages, DingTalk blocks the
	// robot for ten minutes.
	perMinute = 20
	// queueSize is the maximum number of queued events for one hook.
	queueSize = 256
)

// hook is a webhook with its queue of events.
type hook struct {
	o       Options
	name    string // host name of the URL
	robot   robot
	client  *http.Client
	queue   chan Event
	limit   *rate.Limiter
	dropped atomic.Int64 // number of events that were dropped since the last log line
}

func newHook(o Options, address *url.URL) *hook {
	return &hook{
		o: o, name: address.Host, robot: newRobot(address),
		// A redirect would send the token to another host.
		client: &http.Client{Transport: o.Transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }},
		queue: make(chan Event, queueSize),
		limit: rate.NewLimiter(rate.Every(time.Minute/perMinute), perMinute),
	}
}

func (h *hook) enqueue(e Event) {
	select {
	case h.queue <- e:
	default:
		h.drop()
	}
}

func (h *hook) drop() {
	h.dropped.Add(1)
	h.o.Counters.Dropped.Inc()
}

// send sends the queued events until ctx is done.
func (h *hook) send(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case e := <-h.queue:
			err := h.deliver(ctx, e)
			switch {
			case ctx.Err() != nil && err != nil:
				h.drop()
				return
			case err != nil:
				h.o.Counters.Failed.Inc()
				h.o.Logger.ErrorContext(ctx, "could not send an event to a report hook", "hook", h.name,
					"event", e.Event, "traceID", e.TraceID, "code", errcode.Of(err), "err",
					h.robot.hide(errcode.Message(err)))
			default:
				h.o.Counters.Sent.Inc()
			}
		}
	}
}

// deliver sends one event. It retries after errors that are not permanent.
func (h *hook) deliver(ctx context.Context, e Event) error {
	body, err := e.body()
	if err != nil {
		return fmt.Errorf("encoding event %q: %w", e.Event, err)
	}
	var last error
	backoff := wait.Backoff{Duration: firstDelay, Factor: 3, Jitter: 0.1, Steps: attempts}
	err = wait.ExponentialBackoffWithContext(ctx, backoff, func(ctx context.Context) (bool, error) {
		if err := h.limit.Wait(ctx); err != nil {
			return false, err
		}
		permanent, err := h.post(ctx, body)
		last = err
		if permanent {
			return false, err
		}
		return err == nil, nil
	})
	if wait.Interrupted(err) && last != nil {
		return errcode.New(errcode.ModuleControllerRetryTimesExceeded, "%d attempts failed: %w", attempts, last)
	}
	return err
}

// post makes one attempt to send a message. permanent reports whether another attempt would fail in the same way.
func (h *hook) post(ctx context.Context, body []byte) (permanent bool, err error) {
	ctx, cancel := context.WithTimeout(ctx, attemptTimeout)
	defer cancel()
	request, err := http.NewRequestWithContext(ctx, http.MethodPost, h.robot.url(time.Now()), bytes.NewReader(body))
	if err != nil {
		return true, withoutAddress(err)
	}
	request.Header.Set("Content-Type", "application/json")
	response, err := h.client.Do(request)
	if err != nil {
		return false, withoutAddress(err)
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(io.LimitReader(response.Body, 4096))
	if err != nil {
		return false, fmt.Errorf("reading the response: %w", err)
	}
	return checkResponse(response.StatusCode, text)
}
