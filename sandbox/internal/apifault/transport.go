package apifault

import (
	"context"
	"errors"
	"io"
	"net/http"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/fault"
)

// errDropped is the error for a request whose response a fault drops. It makes the proxy close the connection.
var errDropped = errors.New("response dropped by a fault")

// transport sends the requests of one controller to the API server and applies faults to them.
type transport struct {
	replica int
	rules   *rules
	next    http.RoundTripper
	// prefix is the path of the API server's URL.
	prefix string
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	q := parseRequest(r, t.prefix)
	effects := t.rules.applyFaults(t.replica, &q, r)
	if err := sleep(r.Context(), effects.delay); err != nil {
		return nil, err
	}
	if effects.response != nil {
		return effects.response, nil
	}
	if effects.kill {
		t.rules.kill(t.replica)
		return nil, errDropped
	}
	response, err := t.next.RoundTrip(r)
	if effects.drop != nil {
		succeeded := err == nil && response.StatusCode < http.StatusMultipleChoices
		t.rules.resolveDrop(effects.drop, &q, succeeded)
		if succeeded {
			if effects.drop.Fault.Kind == v1alpha1.APIKillAfter {
				t.rules.kill(t.replica)
			}
			_, _ = io.Copy(io.Discard, response.Body) // the API server has completed the request at the end of the body
			_ = response.Body.Close()
			return nil, errDropped
		}
	}
	if err == nil && q.verb == "watch" && response.StatusCode == http.StatusOK {
		s := newStream(r.Context(), response, &q, t.replica)
		t.rules.addStream(s)
		response.Body = s
	}
	return response, err
}

// sleep blocks for a duration, or until ctx ends. It returns the cause of ctx if ctx ends first.
func sleep(ctx context.Context, delay time.Duration) error {
	if delay <= 0 {
		return nil
	}
	select {
	case <-time.After(delay):
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// effects combines the effects of all faults on a request.
type effects struct {
	delay    time.Duration
	response *http.Response // response to send in place of the response of the API server
	drop     *fault.Active  // fault that drops the response
	kill     bool           // whether to kill the controller
}

// applyFaults returns the combined effects of the faults on a request. It adds up the delays of all faults. Of the
// faults that do more than delay the request, only the one that was set first takes effect.
func (s *rules) applyFaults(replica int, q *request, r *http.Request) (e effects) {
	s.Lock()
	defer s.Unlock()
	s.record(replica, q, r)
	for x := range s.inEffect() {
		if !matches(x, replica, q) {
			continue
		}
		decided := e.response != nil || e.drop != nil || e.kill
		switch kind := x.Fault.Kind; {
		case kind == v1alpha1.APIDelay && x.ShouldTrigger():
			e.delay += x.Fault.Delay.Sample(x.Float64)
			s.RecordTrigger(x, "", q.String())
		case decided:
		case kind == v1alpha1.APIRefuse && x.ShouldTrigger():
			e.response = statusResponse(r, errorStatus(x.Fault.Status, q, time.Duration(x.Fault.RetryAfter)))
			s.RecordTrigger(x, "", q.String())
		case (kind == v1alpha1.APILoseAnswer || kind == v1alpha1.APIKillAfter) && x.ShouldTrigger():
			e.drop = x
		case kind == v1alpha1.APIKillBefore && x.ShouldTrigger():
			e.kill = true
			s.RecordTrigger(x, "", q.String())
		case kind == v1alpha1.APICutWatch && q.verb == "watch" && s.takeRelist(x, q):
			e.response = statusResponse(r, errorStatus(http.StatusGone, q, 0))
			s.RecordTrigger(x, "", q.String()+" is rejected")
			if len(s.pendingRelists[x]) == 0 {
				s.Finish(x)
			}
		case kind == v1alpha1.APIOldList && allowsStale(r, q):
			if kept := s.lists[x][listKey(r)]; kept != nil {
				e.response = newResponse(r, http.StatusOK, kept.header.Clone(), kept.body)
				s.RecordTrigger(x, "", q.String())
			}
		}
	}
	return e
}
