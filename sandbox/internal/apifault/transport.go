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

// errLost breaks a request off whose answer is to be lost.
var errLost = errors.New("the answer is lost")

// transport takes the requests of one controller to the API server, under the rules.
type transport struct {
	replica int
	rules   *rules
	next    http.RoundTripper
	// prefix is the path of the API server's URL.
	prefix string
}

// RoundTrip implements http.RoundTripper.
func (t *transport) RoundTrip(r *http.Request) (*http.Response, error) {
	q := read(r, t.prefix)
	v := t.rules.judge(t.replica, &q, r)
	if err := wait(r.Context(), v.delay); err != nil {
		return nil, err
	}
	if v.response != nil {
		return v.response, nil
	}
	if v.kill {
		t.rules.kill(t.replica)
		return nil, errLost
	}
	response, err := t.next.RoundTrip(r)
	if v.lose != nil {
		done := err == nil && response.StatusCode < http.StatusMultipleChoices
		t.rules.answered(v.lose, &q, done)
		if done {
			if v.lose.Fault.Kind == v1alpha1.APIKillAfter {
				t.rules.kill(t.replica)
			}
			_, _ = io.Copy(io.Discard, response.Body) // it is done when all of it has come
			_ = response.Body.Close()
			return nil, errLost
		}
	}
	if err == nil && q.verb == "watch" && response.StatusCode == http.StatusOK {
		s := newStream(r.Context(), response, &q, t.replica)
		t.rules.follow(s)
		response.Body = s
	}
	return response, err
}

// wait waits for a delay, or until nobody waits for the answer.
func wait(ctx context.Context, delay time.Duration) error {
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

// verdict is what becomes of a request.
type verdict struct {
	delay    time.Duration
	response *http.Response // in place of the API server's
	lose     *fault.Active  // whose answer is to be lost
	kill     bool           // the controller, in place of all that
}

// judge says what becomes of a request. Delays add up; of the rest the fault that was set first decides.
func (s *rules) judge(replica int, q *request, r *http.Request) (v verdict) {
	s.Lock()
	defer s.Unlock()
	s.note(replica, q, r)
	for x := range s.live() {
		if !meets(x, replica, q) {
			continue
		}
		decided := v.response != nil || v.lose != nil || v.kill
		switch kind := x.Fault.Kind; {
		case kind == v1alpha1.APIDelay && x.ShouldTrigger():
			v.delay += x.Fault.Delay.Sample(x.Float64)
			s.RecordTrigger(x, "", q.String())
		case decided:
		case kind == v1alpha1.APIRefuse && x.ShouldTrigger():
			v.response = answer(r, refusal(x.Fault.Status, q, time.Duration(x.Fault.RetryAfter)))
			s.RecordTrigger(x, "", q.String())
		case (kind == v1alpha1.APILoseAnswer || kind == v1alpha1.APIKillAfter) && x.ShouldTrigger():
			v.lose = x
		case kind == v1alpha1.APIKillBefore && x.ShouldTrigger():
			v.kill = true
			s.RecordTrigger(x, "", q.String())
		case kind == v1alpha1.APICutWatch && q.verb == "watch" && s.refuses(x, q):
			v.response = answer(r, refusal(http.StatusGone, q, 0))
			s.RecordTrigger(x, "", q.String()+" begins again")
			if len(s.cutAgain[x]) == 0 {
				s.Finish(x)
			}
		case kind == v1alpha1.APIOldList && old(r, q):
			if kept := s.lists[x][listKey(r)]; kept != nil {
				v.response = respond(r, http.StatusOK, kept.header.Clone(), kept.body)
				s.RecordTrigger(x, "", q.String())
			}
		}
	}
	return v
}
