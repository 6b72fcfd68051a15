package agent

import (
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// here makes of times by the clock of an agent those of this machine.
func (s *session) here(times ...*time.Time) {
	for _, t := range times {
		if !t.IsZero() {
			*t = t.Add(-s.ahead)
		}
	}
}

func (s *session) record(r traffic.Record) traffic.Record {
	s.here(&r.Due, &r.Sent, &r.Done)
	return r
}

func (s *session) end(e *traffic.StreamResult) {
	s.here(&e.Started, &e.Ended)
	for i := range e.Seconds {
		s.here(&e.Seconds[i].Start)
	}
	for i := range e.LostRequests {
		e.LostRequests[i] = s.record(e.LostRequests[i])
	}
}
