package lanes

import (
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// Board keeps the lanes of what it has observed. It is not for concurrent use.
type Board struct {
	state  timeline.State
	lanes  map[laneKey]*Lane
	spans  map[spanKey]*Span // those that last
	sorted []*Lane           // nil = to be built anew
}

type laneKey struct {
	kind Kind
	name string
}

type spanKey struct {
	lane  laneKey
	thing Thing
	name  string
}

// NewBoard returns an empty board.
func NewBoard() *Board {
	return &Board{lanes: map[laneKey]*Lane{}, spans: map[spanKey]*Span{}}
}

// State returns what the events so far leave. It changes with the next event.
func (b *Board) State() *timeline.State { return &b.state }

// Lanes returns the lanes in the order in which they are to be shown. They change with the next
// event.
func (b *Board) Lanes() []*Lane {
	if b.sorted == nil {
		b.sorted = make([]*Lane, 0, len(b.lanes))
		for _, l := range b.lanes {
			b.sorted = append(b.sorted, l)
		}
		slices.SortFunc(b.sorted, compare)
	}
	return b.sorted
}

// End ends what lasts.
func (b *Board) End(t time.Time) {
	for key := range b.spans {
		b.close(key, t)
	}
}

// Forget drops what was over before t, and lanes in which nothing is left.
func (b *Board) Forget(t time.Time) {
	for key, l := range b.lanes {
		l.Spans = slices.DeleteFunc(l.Spans, func(s *Span) bool {
			s.Segments = slices.DeleteFunc(s.Segments, func(g Segment) bool { return !g.To.IsZero() && g.To.Before(t) })
			if g := s.open(); g != nil && g.State == Down && g.From.Before(t) {
				b.close(spanKey{key, Life, key.name}, t) // a base that is gone for good
				return true
			}
			return len(s.Segments) == 0
		})
		l.Marks = slices.DeleteFunc(l.Marks, func(m Mark) bool { return m.To.Before(t) })
		if len(l.Spans) == 0 && len(l.Marks) == 0 {
			delete(b.lanes, key)
			b.sorted = nil
		}
	}
}

func (b *Board) lane(key laneKey) *Lane {
	l := b.lanes[key]
	if l == nil {
		l = &Lane{Kind: key.kind, Name: key.name}
		b.lanes[key] = l
		b.sorted = nil
	}
	return l
}

// span returns the span that lasts, or a new one of the lane.
func (b *Board) span(key spanKey) *Span {
	if s := b.spans[key]; s != nil {
		return s
	}
	l := b.lane(key.lane)
	s := &Span{Thing: key.thing, Name: key.name, Track: l.take(key.thing)}
	l.Spans = append(l.Spans, s)
	b.spans[key] = s
	return s
}

// close ends a span, if it lasts.
func (b *Board) close(key spanKey, t time.Time) {
	if s := b.spans[key]; s != nil {
		s.end(t)
		delete(b.spans, key)
		b.lanes[key.lane].taken[key.thing][s.Track] = false
	}
}

// mark adds a mark to a lane.
func (b *Board) mark(key laneKey, kind MarkKind, e timeline.Event, text string) {
	l := b.lane(key)
	l.Marks = append(l.Marks, Mark{Kind: kind, From: e.Time.Add(-e.Elapsed), To: e.Time, Text: text, Code: e.Code})
}
