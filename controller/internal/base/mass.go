package base

import (
	"cmp"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
)

// MassOptions configure the detection of mass outages. If many bases of one tunnel miss heartbeats at the same time,
// the Registry assumes a network failure, and none of these bases becomes unreachable. The zero value of a field
// selects the default in package api.
type MassOptions struct {
	// Percent is the minimum percentage of bases that miss heartbeats in a mass outage; a negative value disables the
	// detection.
	Percent int
	// MinBases is the minimum number of all bases. With fewer bases, no mass outage is assumed.
	MinBases int
	// Window is the time within which all bases of a mass outage begin to miss heartbeats.
	Window time.Duration
	// MaxDuration is the maximum duration of a mass outage. After this time, missed heartbeats are no longer ignored.
	MaxDuration time.Duration
}

func (o *MassOptions) complete() {
	o.Percent = cmp.Or(o.Percent, api.MassPercent)
	o.MinBases = cmp.Or(o.MinBases, api.MassMinBases)
	o.Window = cmp.Or(o.Window, api.MassWindow)
	o.MaxDuration = cmp.Or(o.MaxDuration, api.MassAtMost)
}

// missingBase is a base that misses heartbeats.
type missingBase struct {
	identity      string
	missedSince   time.Time // time from which missed heartbeats are evaluated
	lastMessageAt time.Time // time of the last message, or when this controller adopted the base
	appearedAt    time.Time // when the base appeared; zero if unknown
	replaced      bool      // another base replaced this base
}

// massFailure returns the identities of the bases that are in a mass outage, which requires that at least Percent of
// all bases began to miss heartbeats within Window. appeared contains the times when the bases that are not in list
// appeared. Bases in list that one of those bases has replaced, as in a rollout of bases, do not count. massFailure
// sorts its arguments.
func (o MassOptions) massFailure(list []missingBase, appeared []time.Time, all int,
	margin time.Duration) map[string]bool {
	if o.Percent < 0 || all < o.MinBases || len(list) == 0 {
		return nil
	}
	all -= o.markReplaced(list, appeared, margin)
	slices.SortFunc(list, func(a, b missingBase) int { return a.missedSince.Compare(b.missedSince) })
	inOutage := map[string]bool{}
	missing := 0          // in the window
	first, marked := 0, 0 // list[first:i+1] is in one window; list[:marked] was evaluated
	for i, s := range list {
		if !s.replaced {
			missing++
		}
		for ; s.missedSince.Sub(list[first].missedSince) > o.Window; first++ {
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

// markReplaced marks the missing bases that were replaced by another base, and returns their number. A base replaces
// a missing base if it appeared at most Window before the last message of the missing base. It must also have
// appeared at least margin after the missing base, because bases that appear at the same time do not replace each
// other.
func (o MassOptions) markReplaced(list []missingBase, appeared []time.Time, margin time.Duration) (replaced int) {
	since := func(s missingBase) time.Time {
		since := s.lastMessageAt.Add(-o.Window)
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

// budget limits the number of bases that are removed per minute. In the zero value, no removals have been used.
type budget struct {
	spent     float64 // number of recent removals; decreases over time
	updatedAt time.Time
}

// tryRemove reports whether one more base may be removed now, and records the removal. The limit per minute is percent
// of all bases, but at least one base. With 100 percent, there is no limit.
func (b *budget) tryRemove(percent, all int, now time.Time, timeScale pace.TimeScale) bool {
	if percent >= 100 {
		return true
	}
	perMinute := max(1, float64(percent*all/100))
	if !b.updatedAt.IsZero() {
		b.spent = max(0, b.spent-perMinute*float64(now.Sub(b.updatedAt))/float64(timeScale.Of(time.Minute)))
	}
	b.updatedAt = now
	if b.spent+1 > perMinute+1e-9 {
		return false
	}
	b.spent++
	return true
}
