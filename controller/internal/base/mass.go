package base

import (
	"cmp"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
)

// MassOptions configure the detection of mass outages: if many bases of one tunnel miss heartbeats at the same time,
// a network failure is assumed, and none of them becomes unreachable. A zero value means the default, which is in
// package api.
type MassOptions struct {
	// Percent is the share of all bases; negative disables the detection.
	Percent int
	// AtLeast is the number of bases below which there is no mass outage.
	AtLeast int
	// Window is the time within which the bases must begin to miss heartbeats.
	Window time.Duration
	// AtMost is the maximum duration of a mass outage. After it, each base is evaluated by itself.
	AtMost time.Duration
}

func (o *MassOptions) complete() {
	o.Percent = cmp.Or(o.Percent, api.MassPercent)
	o.AtLeast = cmp.Or(o.AtLeast, api.MassMinBases)
	o.Window = cmp.Or(o.Window, api.MassWindow)
	o.AtMost = cmp.Or(o.AtMost, api.MassAtMost)
}

// silent is a base that misses heartbeats.
type silent struct {
	identity string
	heard    time.Time // since when missed heartbeats count
	last     time.Time // its last message, or when this controller adopted it
	came     time.Time // zero if that is not known
	replaced bool      // another base has taken its place
}

// mass returns the bases that miss heartbeats in a mass outage: within Window, at least Percent of all bases began
// to. came has the times when the other bases came. Some of them may replace bases that miss heartbeats, as in a
// release of bases; those are not counted. mass sorts its arguments.
func (o MassOptions) mass(list []silent, came []time.Time, all int, margin time.Duration) map[string]bool {
	if o.Percent < 0 || all < o.AtLeast || len(list) == 0 {
		return nil
	}
	all -= o.replace(list, came, margin)
	slices.SortFunc(list, func(a, b silent) int { return a.heard.Compare(b.heard) })
	held := map[string]bool{}
	missing := 0          // in the window
	first, marked := 0, 0 // list[first:i+1] lies in one window; list[:marked] was looked at
	for i, s := range list {
		if !s.replaced {
			missing++
		}
		for ; s.heard.Sub(list[first].heard) > o.Window; first++ {
			if !list[first].replaced {
				missing--
			}
		}
		if !api.MassOutage(missing, all, o.Percent, 0) {
			continue
		}
		for _, m := range list[max(first, marked) : i+1] {
			held[m.identity] = true
		}
		marked = i + 1
	}
	return held
}

// replace marks bases that another one has replaced, and returns their number. The other one came at most Window
// before the last message of the replaced base, and later than the replaced base by margin: bases that come together
// replace none.
func (o MassOptions) replace(list []silent, came []time.Time, margin time.Duration) (replaced int) {
	since := func(s silent) time.Time {
		since := s.last.Add(-o.Window)
		if later := s.came.Add(margin); !s.came.IsZero() && later.After(since) {
			return later
		}
		return since
	}
	slices.SortFunc(list, func(a, b silent) int { return since(a).Compare(since(b)) })
	slices.SortFunc(came, time.Time.Compare)
	for _, at := range came {
		if replaced < len(list) && !at.Before(since(list[replaced])) {
			list[replaced].replaced = true
			replaced++
		}
	}
	return replaced
}

// budget limits how many bases are removed per minute. The zero value is full.
type budget struct {
	spent float64 // that has not come back yet
	at    time.Time
}

// take reports whether one more base may be removed: percent of all bases per minute, at least one. With 100 percent
// there is no limit.
func (b *budget) take(percent, all int, now time.Time, speed pace.TimeScale) bool {
	if percent >= 100 {
		return true
	}
	aMinute := max(1, float64(percent*all/100))
	if !b.at.IsZero() {
		b.spent = max(0, b.spent-aMinute*float64(now.Sub(b.at))/float64(speed.Of(time.Minute)))
	}
	b.at = now
	if b.spent+1 > aMinute+1e-9 {
		return false
	}
	b.spent++
	return true
}
