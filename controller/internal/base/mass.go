package base

import (
	"cmp"
	"slices"
	"time"

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
	o.Percent = cmp.Or(o.Percent, 50)
	o.AtLeast = cmp.Or(o.AtLeast, 3)
	o.Window = cmp.Or(o.Window, DefaultMassWindow)
	o.AtMost = cmp.Or(o.AtMost, DefaultMassAtMost)
}

// silent is one base that has been silent for a while.
type silent struct {
	identity string
	heard    time.Time
	came     time.Time // zero if it was known before this controller began
}

// mass returns which of the silent bases are too many at once: those that fell silent within a
// window in which at least Percent of all bases did. all counts the bases that are not silent too.
//
// came is when bases came that speak. Those that came in the time of the window, and later than the
// silent ones by a margin, have taken their places, as when bases are released: nobody comes over a
// broken way. Neither they count, nor as many of the silent ones. It sorts its arguments.
func (o MassOptions) mass(list []silent, came []time.Time, all int, margin time.Duration) map[string]bool {
	if o.Percent < 0 || all < o.AtLeast || len(list) == 0 {
		return nil
	}
	slices.SortFunc(list, func(a, b silent) int { return a.heard.Compare(b.heard) })
	slices.SortFunc(came, time.Time.Compare)
	held := map[string]bool{}
	var last time.Time    // when the last of the silent ones came
	first, marked := 0, 0 // list[first:i+1] lies in one window; list[:marked] was looked at
	for i, s := range list {
		for s.heard.Sub(list[first].heard) > o.Window {
			first++
		}
		if s.came.After(last) {
			last = s.came
		}
		since := list[first].heard.Add(-o.Window)
		if later := last.Add(margin); !last.IsZero() && later.After(since) {
			since = later
		}
		n, _ := slices.BinarySearchFunc(came, since, time.Time.Compare)
		fresh := len(came) - n
		if missing := i + 1 - first - fresh; missing <= 0 || missing*100 < o.Percent*(all-fresh) {
			continue
		}
		for _, m := range list[max(first, marked) : i+1] {
			held[m.identity] = true
		}
		marked = i + 1
	}
	return held
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
