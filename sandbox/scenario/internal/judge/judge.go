package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// The names of the checks, as a scenario writes them.
const (
	ActiveVersion = "activeVersion"
	Truth         = "truth"
	Order         = "order"
	InstalledOnce = "installedOnce"
	NothingLeft   = "nothingLeft"
	MaxPodWrites  = "maxPodWrites"
)

// Options of a Judge.
type Options struct {
	// TruthWithin is how long Ready may differ from what the base serves. Between the base's change
	// and the controller's write lie an answer, a query and a write, some milliseconds each; a
	// kubelet that probes at its defaults takes 10 s to 30 s. Default: 1s.
	TruthWithin time.Duration
	// SwitchWithin is the same where another version serves: requests are answered, and the
	// handover needs its writes one after the other. Default: 5s.
	SwitchWithin time.Duration
	// ReplacedWithin is how soon a Pod must come to a base that has lost the module by the deletion
	// of a Pod so that it counts as its replacement. Default: 10s.
	ReplacedWithin time.Duration
	// AloneWithin is how long another base's Pod must have been Ready so that the old Pod of a
	// handover was not alone: the controller decides before it writes. Default: 250ms.
	AloneWithin time.Duration
	// Window is how late an event may come behind younger ones: the bases' come on another way than
	// those of the API. Default: 1s.
	Window time.Duration
	// MaxPodWrites is how often a Pod may be written. Default: any number.
	MaxPodWrites *int
}

// Result is what a check has found.
type Result struct {
	// Name of the check.
	Name string
	// Compared is how many things it has looked at; 0 = it proves nothing.
	Compared int
	// Violations in the order of time.
	Violations []Violation
	// Excused are others that look like violations but are the end of a base's process, or short
	// enough, in the order of time.
	Excused []Violation
	// Summary is a sentence with the figures.
	Summary string
	// Figures by name; times are in milliseconds.
	Figures map[string]float64
}

// Violation is one thing that must not be. It has the fields of the report's.
type Violation struct {
	Time    time.Time
	Length  time.Duration
	Base    string
	Pod     string
	Message string
}

// Judge looks at the events of one run. Its methods must not be called concurrently.
type Judge struct {
	o       Options
	pending []timeline.Event // by time
	w       world
	active  activeCheck
	truth   truthCheck
	order   orderCheck
	install installCheck
}

// New returns a Judge who has seen nothing.
func New(o Options) *Judge {
	for p, d := range map[*time.Duration]time.Duration{
		&o.TruthWithin: time.Second, &o.SwitchWithin: 5 * time.Second, &o.ReplacedWithin: 10 * time.Second,
		&o.AloneWithin: 250 * time.Millisecond, &o.Window: time.Second,
	} {
		if *p == 0 {
			*p = d
		}
	}
	return &Judge{o: o, w: newWorld()}
}

// Observe takes the next event. Events may come a little out of order; see Options.Window.
func (j *Judge) Observe(e timeline.Event) {
	at := len(j.pending)
	for at > 0 && j.pending[at-1].Time.After(e.Time) {
		at--
	}
	j.pending = slices.Insert(j.pending, at, e)
	newest := j.pending[len(j.pending)-1].Time
	ripe := 0
	for ripe < len(j.pending) && newest.Sub(j.pending[ripe].Time) > j.o.Window {
		j.take(j.pending[ripe])
		ripe++
	}
	j.pending = slices.Delete(j.pending, 0, ripe)
}

// take lets every check look at an event, in the order of times.
func (j *Judge) take(e timeline.Event) {
	c := j.w.apply(e)
	j.active.note(&j.w, c, &j.o)
	j.truth.note(&j.w, c)
	j.order.note(&j.w, c, &j.o)
	j.install.note(&j.w, c)
}

// Results returns what the checks have found until end, always in the same order. What lasts is as
// long as it is then. More events may follow.
func (j *Judge) Results(end time.Time) []Result {
	for _, e := range j.pending {
		j.take(e)
	}
	j.pending = nil
	return []Result{
		j.active.result(end), j.truth.result(end, &j.o), j.order.result(end),
		j.install.result(), nothingLeft(&j.w, end), podWrites(&j.w, j.o.MaxPodWrites),
	}
}

// sorted puts violations in the order of time, then of place: those of one moment came in an order
// that says nothing.
func sorted(all []Violation) []Violation {
	slices.SortStableFunc(all, func(a, b Violation) int {
		return cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Base, b.Base), cmp.Compare(a.Pod, b.Pod), cmp.Compare(a.Message, b.Message))
	})
	return all
}

// brief leaves out of a time what nobody reads.
func brief(d time.Duration) time.Duration {
	if d < time.Second {
		return d.Round(100 * time.Microsecond)
	}
	return d.Round(time.Millisecond)
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }
