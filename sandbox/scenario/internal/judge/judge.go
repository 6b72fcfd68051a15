package judge

import (
	"cmp"
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// The names of the checks in scenario files.
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
	// readyTolerance is how long a Pod may stay Ready without its modules after the controller can detect this. The
	// controller needs a few milliseconds between a module list or a response and its write to the API. For
	// comparison, a kubelet with default probes needs 10 s to 30 s.
	readyTolerance = time.Second
	// switchTolerance replaces readyTolerance while another version is active: requests still succeed, and the handover
	// needs several writes in sequence.
	switchTolerance = 5 * time.Second
	// replacementTimeout is how long after the deletion of a Pod a new Pod on the base is treated as its replacement.
	replacementTimeout = 10 * time.Second
	// decisionDelay is the longest time between a decision of the controller and its visible effect. The controller
	// is assumed to know only Pods that had been Ready, or bound to a Node, for at least decisionDelay.
	decisionDelay = 250 * time.Millisecond
	// watchDelay is the maximum delay between the activation of a module and the watch event of its Pod.
	watchDelay = time.Second
)

// Options configures Evaluate. If a duration is zero, its default applies.
type Options struct {
	// ListInterval, UnreachableAfter, InstallTimeout, UninstallTimeout and LeaseDuration are the controller settings
	// LIST_INTERVAL, BASE_UNREACHABLE_AFTER, INSTALL_TIMEOUT, UNINSTALL_TIMEOUT and LEASE_DURATION. Default: the
	// constants of package controller/api.
	ListInterval, UnreachableAfter, InstallTimeout, UninstallTimeout, LeaseDuration time.Duration
	// Delay is the maximum time by which a watch may have delivered an event late. Default: 0.
	Delay time.Duration
	// Speed is the time scale of the sandbox. The periods of the controller, including the settings above, are
	// divided by Speed. The assumed durations of writes and watch events are not divided. Default: 1.
	Speed int
	// Foreign lists the Pods of other namespaces that run on bases of the run. Each Name has the form NAMESPACE/NAME.
	// Default: none.
	Foreign []events.PodStatus
	// MaxPodWrites is the maximum number of writes to a Pod; nil means no limit.
	MaxPodWrites *int
	// MaxCommands is the maximum number of identical commands to a base; nil means no limit.
	MaxCommands *int
}

// scaled divides a period of the controller by the speed.
func (o *Options) scaled(d time.Duration) time.Duration { return d / time.Duration(max(o.Speed, 1)) }

// listDelay returns the maximum time until the controller receives the next module list of a base.
func (o *Options) listDelay() time.Duration {
	return api.ListedWithin(o.ListInterval, o.scaled(api.SweepInterval))
}

// detectionDelay returns the maximum time that the controller needs to detect that a base no longer sends heartbeats.
func (o *Options) detectionDelay() time.Duration {
	return o.UnreachableAfter + o.scaled(api.SweepInterval)
}

// setDefaults sets the defaults, and divides the controller settings by the speed.
func (o *Options) setDefaults() {
	for p, d := range map[*time.Duration]time.Duration{
		&o.ListInterval: api.ListInterval, &o.UnreachableAfter: api.UnreachableAfter,
		&o.InstallTimeout:   api.InstallTimeout,
		&o.UninstallTimeout: api.UninstallTimeout,
		&o.LeaseDuration:    api.ControllerLease,
	} {
		*p = o.scaled(cmp.Or(*p, d))
	}
	if o.Speed > 1 {
		o.LeaseDuration = max(o.LeaseDuration, api.MinControllerLease)
	}
}

// Result is the result of a check.
type Result struct {
	// Name is the name of the check.
	Name string
	// Compared is the number of compared items. If it is 0, the check proves nothing.
	Compared int
	// Violations lists the violations in chronological order.
	Violations []Finding
	// Doubtful lists, in chronological order, the violations that disappear if the API events are moved earlier by
	// Options.Delay. It is empty unless Options.Delay is longer than readyTolerance.
	Doubtful []Finding
	// Excused lists the tolerated mismatches in chronological order. A mismatch is tolerated if it ended before the
	// controller could detect it, or within the tolerance.
	Excused []Finding
	// Handovers is how often one version replaced another version. ShortestOverlap is the shortest time for which
	// both versions were active. Only the check ActiveVersion sets these fields.
	Handovers       int
	ShortestOverlap time.Duration
	// OnlyReady is the number of handovers in which the older Pod was the only Ready Pod of the module (set only by
	// Order).
	OnlyReady int
	// Published lists the Services with publishNotReadyAddresses (set only by Truth).
	Published []string
	// Writes is the total number of writes; only the check MaxPodWrites sets it. Highest is the highest number of
	// writes to one Pod (MaxPodWrites), or of identical commands (MaxCommands).
	Writes, Highest int
}

// evaluator evaluates the events of one run in chronological order.
type evaluator struct {
	o        *Options
	history  history
	active   activeCheck
	truth    truthCheck
	order    orderCheck
	install  installCheck
	commands commandCheck
}

// Evaluate evaluates all checks for the events of a run until end. It returns their results, always in the same
// order. The events may be in any order. Events with equal times are evaluated in the given order.
//
// Watch events may be late. Checks that compare base events with API events are therefore evaluated twice: with the
// recorded times, and with the API events moved earlier by Options.Delay. A mismatch is a violation only if both
// evaluations find it.
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

// apply passes an event to every check.
func (c *evaluator) apply(e events.Event) {
	x := c.history.apply(e)
	c.history.updateOutages(x, c.o)
	c.active.observe(&c.history, x)
	c.truth.observe(&c.history, x)
	c.order.observe(&c.history, x)
	c.install.observe(&c.history, x)
	c.commands.observe(x)
}

// fromAPI reports whether the event was delivered by an API watch, and may therefore be late.
func fromAPI(e events.Event) bool { return e.Pod != nil || e.Endpoints != nil }

// earliest returns a copy of the events, sorted by time, in which the API events are moved earlier by delay.
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

// confirmWithEarliest removes those violations from r that early does not confirm with an overlapping violation. If
// Options.Delay is longer than readyTolerance, the removed violations become doubtful.
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

// overlaps reports whether two findings concern the same Pod and base, and overlap in time.
func (f Finding) overlaps(o Finding) bool {
	return f.Base == o.Base && f.Pod == o.Pod && !f.Time.After(o.Time.Add(o.Length)) &&
		!o.Time.After(f.Time.Add(f.Length))
}

// sorted sorts findings by time, then by base and Pod, and then by their texts.
func sorted(all []Finding) []Finding {
	slices.SortStableFunc(all, func(a, b Finding) int {
		if c := cmp.Or(a.Time.Compare(b.Time), cmp.Compare(a.Base, b.Base), cmp.Compare(a.Pod, b.Pod)); c != 0 {
			return c
		}
		return cmp.Compare(a.String(), b.String())
	})
	return all
}
