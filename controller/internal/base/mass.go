package base

import (
	"cmp"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
)

// MassOptions configure the detection of mass outages. If many bases of one tunnel miss heartbeats at the same time, a
// network failure is assumed, and none of them becomes unreachable. A zero value means the default in package api.
type MassOptions struct {
	// Percent is the minimum percentage of unreachable bases; a negative value disables the detection.
	Percent int
	// MinBases is the minimum number of bases for a mass outage.
	MinBases int
	// Window is the time within which the bases of a mass outage begin to miss heartbeats.
	Window time.Duration
	// MaxDuration is the maximum duration of a mass outage. After it, the missed heartbeats of each base count.
	MaxDuration time.Duration
}

func (o *MassOptions) complete() {
	o.Percent = cmp.Or(o.Percent, api.MassPercent)
	o.MinBases = cmp.Or(o.MinBases, api.MassMinBases)
	o.Window = cmp.Or(o.Window, api.MassWindow)
	o.MaxDuration = cmp.Or(o.MaxDuration, api.MassAtMost)
}

// missingBase is a base that missedLists heartbeats.
type missingBase struct {
	identity   string
	heard      time.Time // since when missed heartbeats count
	last       time.Time // last message, or when this controller adopted the base
	appearedAt time.Time // zero if unknown
	replaced   bool      // by another base
}

// massFailure returns the identities of the bases in a mass outage: at least Percent of all bases began to miss
// heartbeats within Window. appeared contains the times when the other bases appeared. A base that was replaced by one
// of them, as in a rollout of bases, is not counted. massFailure sorts its arguments.
func (o MassOptions) massFailure(list []missingBase, appeared []time.Time, all int,
	margin time.Duration) map[string]bool {
	if o.Percent < 0 || all < o.MinBases || len(list) == 0 {
		return nil
	}
	all -= o.markReplaced(list, appeared, margin)
	slices.SortFunc(list, func(a, b missingBase) int { return a.heard.Compare(b.heard) })
	inOutage := map[string]bool{}
	missing := 0          // in the window
	first, marked := 0, 0 // list[first:i+1] is in one window; list[:marked] was evaluated
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
			inOutage[m.identity] = true
		}
		marked = i + 1
	}
	return inOutage
}

// markReplaced marks the bases that were replaced by another base, and returns their number. The other base appeared at
// most Window before the last message of the replaced base. It also appeared later than the replaced base by at least
// margin, because bases that appear at the same time do not replace each other.
func (o MassOptions) markReplaced(list []missingBase, appeared []time.Time, margin time.Duration) (replaced int) {
	since := func(s missingBase) time.Time {
		since := s.last.Add(-o.Window)
		if later := s.appearedAt.Add(margin); !s.appearedAt.IsZero() && later.After(since) {
			return later
		}
		return since
	}
	slices.SortFunc(list, func(a, b missingBase) int { return since(a).Compare(since(b)) })
	slices.SortFunc(appeared, time.Time.Compare)
	for _, at := range appeared {
		if replaced < len(list) && !at.Before(since(list[replaced])) {
			list[replaced].replaced = true
			replaced++
		}
	}
	return replaced
}

// budget limits the number of bases that are removed per minute. The zero value is the full budget.
type budget struct {
	spent float64 // number of recent removals, which decreases over time
	at    time.Time
}

// take reports whether one more base may be removed, and records the removal. The limit is percent of all bases per
// minute, at least one base. There is no limit for 100 percent.
func (b *budget) take(percent, all int, now time.Time, timeScale pace.TimeScale) bool {
	if percent >= 100 {
		return true
	}
	perMinute := max(1, float64(percent*all/100))
	if !b.at.IsZero() {
		b.spent = max(0, b.spent-perMinute*float64(now.Sub(b.at))/float64(timeScale.Of(time.Minute)))
	}
	b.at = now
	if b.spent+1 > perMinute+1e-9 {
		return false
	}
	b.spent++
	return true
}
