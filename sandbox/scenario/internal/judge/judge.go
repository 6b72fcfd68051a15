package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/sandbox/events"
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

const (
	// readyTolerance is how long Ready may differ from what the base serves, once the controller can know. Between a list or a
	// response and the write of the controller are some milliseconds. A kubelet that probes at its defaults takes 10 s to
	// 30 s.
	readyTolerance = time.Second
	// switchTolerance is the same while another version serves: requests are answered, and the handover needs its writes one
	// after the other.
	switchTolerance = 5 * time.Second
	// replacementTimeout is how soon a Pod must come to a base that has lost the module by the deletion of a Pod, so that it is
	// its replacement.
	replacementTimeout = 10 * time.Second
	// decisionDelay is how long before an effect the controller may have decided it. For so long a Pod on another base must
	// have been Ready so that the old Pod of a handover was not alone, and a Pod must have had its Node so that the module
	// of a deleted Pod must stay for it.
	decisionDelay = 250 * time.Millisecond
	// watchDelay is the delay between a module becoming active and the watch event of its Pod.
	watchDelay = time.Second
)

// Options of Judge. A zero duration means its default.
type Options struct {
	// ListInterval, SilentAfter, InstallWithin, UninstallWithin and ControllerLease are the settings LIST_INTERVAL,
	// BASE_UNREACHABLE_AFTER, INSTALL_TIMEOUT, UNINSTALL_TIMEOUT and LEASE_DURATION of the controller. Default: those of
	// package controller/api.
	ListInterval, UnreachableAfter, InstallTimeout, UninstallTimeout, LeaseDuration time.Duration
	// Delay is how much earlier than its time an event of the API may have happened. Default: not at all.
	Delay time.Duration
	// Speed divides the periods of the controller, including the settings above. It does not divide the duration of
	// writes and watch events. Default: 1.
	Speed int
	// Foreign are Pods of other namespaces, with names NAMESPACE/NAME, on the bases of the run. Default: none.
	Foreign []events.PodStatus
	// MaxPodWrites is how often a Pod may be written. Default: any number.
	MaxPodWrites *int
	// MaxCommands is how often a base may be given the same command. Default: any number.
	MaxCommands *int
}

// scaled returns a period of the controller at the speed.
func (o *Options) scaled(d time.Duration) time.Duration { return d / time.Duration(max(o.Speed, 1)) }

// listDelay returns the longest time until a module list shows the modules of a base to the controller.
func (o *Options) listDelay() time.Duration {
	return api.ListedWithin(o.ListInterval, o.scaled(api.SweepInterval))
}

// detectionDelay returns the time within which the controller notices that a base sends no heartbeats.
func (o *Options) detectionDelay() time.Duration {
	return o.UnreachableAfter + o.scaled(api.SweepInterval)
}

// setDefaults sets the defaults, and divides the settings of the controller by the speed.
func (o *Options) setDefaults() {
	for p, d := range map[*time.Duration]time.Duration{
		&o.ListInterval: api.ListInterval, &o.UnreachableAfter: api.UnreachableAfter, &o.InstallTimeout: api.InstallTimeout,
		&o.UninstallTimeout: api.UninstallTimeout,
		&o.LeaseDuration:    api.ControllerLease,
	} {
		*p = o.scaled(cmp.Or(*p, d))
	}
	if o.Speed > 1 {
		o.LeaseDuration = max(o.LeaseDuration, api.MinControllerLease)
	}
}

// Result is what a check has found.
type Result struct {
	// Name of the check.
	Name string
	// Compared is how many things it has looked at; 0 = it proves nothing.
	Compared int
	// Violations in the order of time.
	Violations []Finding
	// Doubtful are violations that are none if the events of the API happened earlier by a Delay longer than truthWithin, in
	// the order of time.
	Doubtful []Finding
	// Excused are others that look like violations but were over before the controller could know,
	// or short enough, in the order of time.
	Excused []Finding
	// Handovers is the number of times in which a version took over from another one, and ShortestOverlap the shortest time in
	// which both were active (ActiveVersion).
	Handovers       int
	ShortestOverlap time.Duration
	// OnlyReady is the number of handovers of the only Ready Pod of a module (Order).
	OnlyReady int
	// Published are the Services with publishNotReadyAddresses (Truth).
	Published []string
	// Writes is the number of all writes (MaxPodWrites), Highest the highest number of writes of a Pod, or of equal commands
	// (MaxCommands).
	Writes, Highest int
}

// evaluator evaluates the events of one run, in the order of their times.
type evaluator struct {
	o        *Options
	history  history
	active   activeCheck
	truth    truthCheck
	order    orderCheck
	install  installCheck
	commands commandCheck
}

// Evaluate returns what the checks find in the events of a run until end, always in the same order. Events may come in any
// order. Those with equal times are evaluated in their order.
//
// Watches may be late. A violation of the checks that compare events of bases and of the API counts if it exists both with
// the times of the events, and with those of the API earlier by Options.Delay.
func Evaluate(all []events.Event, end time.Time, o Options) []Result {
	o.setDefaults()
	e := evaluate(all, &o)
	active, truth := e.active.find(&e.history, end), e.truth.find(&e.history, end, &o)
	if o.Delay > 0 {
		e := evaluate(earliest(all, o.Delay), &o)
		confirmWithEarliest(&active, e.active.find(&e.history, end), &o)
		confirmWithEarliest(&truth, e.truth.find(&e.history, end, &o), &o)
	}
	return []Result{
		active, truth, e.order.result(end), e.install.result(), nothingLeft(&e.history, end, &o),
		podWrites(&e.history, o.MaxPodWrites), e.commands.result(o.MaxCommands),
	}
}

func evaluate(all []events.Event, o *Options) *evaluator {
	e := &evaluator{o: o, history: newHistory()}
	ordered := slices.Clone(all)
	slices.SortStableFunc(ordered, func(a, b events.Event) int { return a.Time.Compare(b.Time) })
	for _, event := range ordered {
		e.apply(event)
	}
	return e
}

// apply lets every check look at an event.
func (c *evaluator) apply(e events.Event) {
	x := c.history.apply(e)
	c.history.updateOutages(x, c.o)
	c.active.observe(&c.history, x)
	c.truth.observe(&c.history, x)
	c.order.observe(&c.history, x)
	c.install.observe(&c.history, x)
	c.commands.observe(x)
}

// fromAPI reports whether a watch of the API delivered the event, so that it may be late.
func fromAPI(e events.Event) bool { return e.Pod != nil || e.Endpoints != nil }

// earliest returns the events with those of the API earlier by the delay, in the order of these times.
func earliest(all []events.Event, delay time.Duration) []events.Event {
	out := slices.Clone(all)
	for i := range out {
		if fromAPI(out[i]) {
			out[i].Time = out[i].Time.Add(-delay)
		}
	}
	slices.SortStableFunc(out, func(a, b events.Event) int {
		if c := a.Time.Compare(b.Time); c != 0 || fromAPI(a) == fromAPI(b) {
			return c
		}
		if fromAPI(a) {
			return -1
		}
		return 1
	})
	return out
}

// confirmWithEarliest removes violations that do not exist with the earliest times. They are doubtful if the delay is longer than
// truthWithin.
func confirmWithEarliest(r *Result, early Result, o *Options) {
	var certain []Finding
	for _, v := range r.Violations {
		switch {
		case slices.ContainsFunc(early.Violations, v.overlaps):
			certain = append(certain, v)
		case o.Delay > readyTolerance:
			v.Delay = o.Delay
			r.Doubtful = append(r.Doubtful, v)
		}
	}
	r.Violations = certain
}

// overlaps reports whether two findings are about one Pod and base, and overlap in time.
func (f Finding) overlaps(o Finding) bool {
	return f.Base == o.Base && f.Pod == o.Pod && !f.Time.After(o.Time.Add(o.Length)) &&
		!o.Time.After(f.Time.Add(f.Length))
}

// sorted sorts findings by time, then by base and Pod, then by their text.
func sorted(all []Finding) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int {
		if c := cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Base, b.Base), cmp.Compare(a.Pod, b.Pod)); c != 0 {
			return c
		}
		return cmp.Compare(a.String(), b.String())
	})
	return all
}
