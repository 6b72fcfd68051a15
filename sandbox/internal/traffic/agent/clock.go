package agent

import (
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// toLocal converts times from the clock of the agent to the clock of this machine, in place.
func (s *session) toLocal(times ...*time.Time) {
	for _, t := range times {
		if !t.IsZero() {
			*t = t.Add(-s.ahead)
		}
	}
}

func (s *session) record(r traffic.Record) traffic.Record {
	s.toLocal(&r.Due, &r.Sent, &r.Done)
	return r
}

func (s *session) localizeResult(e *traffic.StreamResult) {
	s.toLocal(&e.Started, &e.Ended)
	for i := range e.Seconds {
		s.toLocal(&e.Seconds[i].Start)
	}
	for i := range e.LostRequests {
		e.LostRequests[i] = s.record(e.LostRequests[i])
	}
}
