package watch

import (
	"cmp"
	"context"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// ratePeriod is the interval between queries of the stream counters.
const ratePeriod = time.Second

// Streams returns the counters of request streams. control.Client implements it.
type Streams interface {
	Bases(ctx context.Context, group string) ([]control.Base, error)
	Traffic(ctx context.Context, group string) ([]traffic.Summary, error)
}

// rate is the request rate of a stream.
type rate struct {
	name            string
	sent, lostTotal int     // requests sent since the start of the stream
	ok, lost        float64 // successful requests per second
	at              time.Time
	answered        int
}

// Rates updates the request rates on the screen every second. It blocks until ctx ends. It shows the streams of the
// given group, or of all groups if group is empty.
func (s *Screen) Rates(ctx context.Context, streams Streams, group string) {
	wait.UntilWithContext(ctx, func(ctx context.Context) {
		groups := []string{group}
		bases, err := streams.Bases(ctx, group)
		if err != nil {
			return // the events report that the sandbox has stopped
		}
		for _, b := range bases {
			if group == "" && !slices.Contains(groups, b.Group) {
				groups = append(groups, b.Group)
			}
		}
		var all []traffic.Summary
		for _, g := range groups {
			summaries, err := streams.Traffic(ctx, g)
			if err != nil {
				return
			}
			for _, summary := range summaries {
				if g != group {
					summary.Name = g + "/" + summary.Name
				}
				all = append(all, summary)
			}
		}
		s.updateRates(all)
	}, ratePeriod)
}

// updateRates computes the request rates from the new and the previous stream counters.
func (s *Screen) updateRates(all []traffic.Summary) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.o.Clock.Now()
	var rates []rate
	for _, summary := range all {
		if !summary.Ended.IsZero() {
			continue
		}
		r := rate{name: summary.Name, sent: summary.Sent, lostTotal: summary.Lost, at: now,
			answered: summary.Sent - summary.Open - summary.Lost}
		i := slices.IndexFunc(s.rates, func(r rate) bool { return r.name == summary.Name })
		if i >= 0 {
			before := s.rates[i]
			elapsed := now.Sub(before.at).Seconds()
			r.ok, r.lost = float64(r.answered-before.answered)/elapsed, float64(r.lostTotal-before.lostTotal)/elapsed
		}
		rates = append(rates, r)
	}
	slices.SortFunc(rates, func(a, b rate) int { return cmp.Compare(a.name, b.name) })
	s.rates = rates
}
