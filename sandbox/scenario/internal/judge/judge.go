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
	MaxCommands   = "maxCommands"
)

// Options of a judgement. A zero duration means its default.
type Options struct {
	// TruthWithin is how long Ready may differ from what the base serves, once the controller can
	// know. Between what a list or an answer says and the controller's write lie some milliseconds;
	// a kubelet that probes at its defaults takes 10 s to 30 s. Default: 1s.
	TruthWithin time.Duration
	// SwitchWithin is the same where another version serves: requests are answered, and the
	// handover needs its writes one after the other. Default: 5s.
	SwitchWithin time.Duration
	// ReplacedWithin is how soon a Pod must come to a base that has lost the module by the deletion
	// of a Pod so that it counts as its replacement. Default: 10s.
	ReplacedWithin time.Duration
	// DecidedWithin is how long before something happens the controller may have decided it. So long
	// another base's Pod must have been Ready so that the old Pod of a handover was not alone, and a Pod
	// must have had its Node so that the module of a deleted one must stay for it. Default: 250ms.
	DecidedWithin time.Duration
	// ToldWithin is how late the watch may tell of the Pod whose module has come. Default: 1s.
	ToldWithin time.Duration
	// ListEvery is how often the controller asks a base for its modules, its LIST_INTERVAL.
	// Default: 15s.
	ListEvery time.Duration
	// SilentAfter is the silence after which it takes a base for unreachable, its
	// BASE_UNREACHABLE_AFTER. Default: 25s.
	SilentAfter time.Duration
	// InstallWithin is how long a command may take at most, its INSTALL_TIMEOUT. Default: 5m.
	InstallWithin time.Duration
	// UninstallWithin is how long an uninstall may take at most, its UNINSTALL_TIMEOUT. Default: 1m.
	UninstallWithin time.Duration
	// Speed divides the times above that are the system's, those that are set, too, and the recoveries
	// that have no setting; 0 = 1. What a watch or a write takes is not divided.
	Speed int
	// Foreign are Pods of other namespaces, with names NAMESPACE/NAME, on the bases of the run. Default: none.
	Foreign []timeline.PodStatus
	// MaxPodWrites is how often a Pod may be written. Default: any number.
	MaxPodWrites *int
	// MaxCommands is how often a base may be given the same command. Default: any number.
	MaxCommands *int
}

// sweep is how often the controller looks who is due for a question, or has been silent.
const sweep = time.Second

// of is how long a period takes at the speed.
func (o *Options) of(d time.Duration) time.Duration { return d / time.Duration(max(o.Speed, 1)) }

// listed is within what time a list tells the controller what a base has: the interval, the tenth
// that spreads the bases over it, and a sweep.
func (o *Options) listed() time.Duration { return o.ListEvery + o.ListEvery/10 + o.of(sweep) }

// silent is within what time the controller knows that a base says nothing any more.
func (o *Options) silent() time.Duration { return o.SilentAfter + o.of(sweep) }

// Result is what a check has found.
type Result struct {
	// Name of the check.
	Name string
	// Compared is how many things it has looked at; 0 = it proves nothing.
	Compared int
	// Violations in the order of time.
	Violations []Violation
	// Doubtful are violations only if the watch told at once: what ended them may have been written
	// in time, and told late. In the order of time.
	Doubtful []Violation
	// Excused are others that look like violations but were over before the controller could know,
	// or short enough, in the order of time.
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

// court is what looks at the events of one run, in the order of their times.
type court struct {
	o       Options
	w       world
	active  activeCheck
	truth   truthCheck
	order   orderCheck
	install installCheck
	orders  commandCheck
}

// Judge returns what the checks find in the events of a run until end, always in the same order.
// What lasts is as long as it is then. Events may come in any order: the bases' come on another way
// than those of the API, and each way may be late. Those of one moment count as they come.
func Judge(events []timeline.Event, end time.Time, o Options) []Result {
	for p, d := range map[*time.Duration]time.Duration{
		&o.TruthWithin: time.Second, &o.SwitchWithin: 5 * time.Second, &o.ReplacedWithin: 10 * time.Second,
		&o.DecidedWithin: 250 * time.Millisecond, &o.ToldWithin: time.Second, &o.ListEvery: 15 * time.Second,
		&o.SilentAfter: 25 * time.Second, &o.InstallWithin: 5 * time.Minute, &o.UninstallWithin: time.Minute,
	} {
		if *p == 0 {
			*p = d
		}
	}
	for _, p := range []*time.Duration{&o.ListEvery, &o.SilentAfter, &o.InstallWithin, &o.UninstallWithin} {
		*p = o.of(*p)
	}
	c := court{o: o, w: newWorld()}
	ordered := slices.Clone(events)
	slices.SortStableFunc(ordered, func(a, b timeline.Event) int { return a.Time.Compare(b.Time) })
	for _, e := range ordered {
		c.take(e)
	}
	return []Result{
		c.active.result(&c.w, end, &c.o), c.truth.result(&c.w, end, &c.o), c.order.result(end),
		c.install.result(), nothingLeft(&c.w, end, &c.o), podWrites(&c.w, o.MaxPodWrites), c.orders.result(o.MaxCommands),
	}
}

// take lets every check look at an event.
func (c *court) take(e timeline.Event) {
	x := c.w.apply(e)
	c.w.disturb(x, &c.o)
	c.active.note(&c.w, x, &c.o)
	c.truth.note(&c.w, x, &c.o)
	c.order.note(&c.w, x, &c.o)
	c.install.note(&c.w, x, &c.o)
	c.orders.note(x)
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
