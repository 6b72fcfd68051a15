package base

import (
	"cmp"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/pace"
)

// MassOptions say when the silence of many bases of one tunnel is taken for a fault of the way to
// them, as Envoy's panic threshold and the zones of Kubernetes' node lifecycle controller do: then
// none of them turns unreachable or gone. A zero value means its default.
type MassOptions struct {
	// Percent of all bases that are silent at once; default 50, negative turns this off.
	Percent int
	// AtLeast is how many bases there must be; default 3. With fewer each is judged by itself.
	AtLeast int
	// Window is within which time they fell silent; default 60 s.
	Window time.Duration
	// AtMost is for how long it is believed; default 30 min. After that each base is judged by
	// itself again.
	AtMost time.Duration
}

func (o *MassOptions) complete() {
	o.Percent = cmp.Or(o.Percent, api.MassPercent)
	o.AtLeast = cmp.Or(o.AtLeast, api.MassMinBases)
	o.Window = cmp.Or(o.Window, DefaultMassWindow)
	o.AtMost = cmp.Or(o.AtMost, DefaultMassAtMost)
}

// silent is one base that has been silent for a while.
type silent struct {
	identity string
	heard    time.Time // since when its silence counts
	last     time.Time // when it was heard, or known to this controller, last
	came     time.Time // zero if that is not known
	replaced bool      // another base has taken its place
}

// mass returns which of the silent bases are too many at once: those that fell silent within a
// window in which at least Percent of all bases did. all counts the bases that are not silent too.
//
// came is when bases came that speak. Some of them have taken the place of silent ones, as when bases
// are released: nobody comes over a broken way. Neither they count, nor the ones that they replace. It
// sorts its arguments.
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

// replace finds silent bases whose place another one has taken, and returns how many. That one came in
// the time of a window before the silent one was heard last, or after it, and later than that one by a
// margin: bases that come together, as after an outage, replace nobody.
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

// budget limits how many bases are given up in a minute. The zero value is full.
type budget struct {
	spent float64 // that has not come back yet
	at    time.Time
}

// take says whether one more may go: percent of all bases in a minute, one at least; of 100 percent
// there is no limit.
func (b *budget) take(percent, all int, now time.Time, speed pace.Speed) bool {
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
