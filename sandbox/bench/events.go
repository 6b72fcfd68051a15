package bench

import (
	"slices"
	"time"

	"golang.org/x/perf/benchfmt"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// measureKey precedes the name of the measure in a benchmark name.
const measureKey = "/measure="

// second is the interval over which throughput is measured. clusterloader2 uses 5 s, but most runs schedule all Pods
// in less than 5 s.
const second = time.Second

// podTimes holds the times at which a Pod reached certain states. A zero time means that the Pod has not reached the
// state.
type podTimes struct {
	base    string
	modules []events.ModuleRef
	// created, scheduled and ready are the times at which the watch first showed the Pod as created, scheduled and
	// Ready. begun is the time when the base started to install the first module. running is the time when the last
	// module became active.
	created, scheduled, begun, running, ready time.Time
	// earliest is the creation timestamp of the Pod, truncated to seconds. The other times are not before earliest.
	earliest time.Time
	// served is the time when a Service first had a ready endpoint for the Pod.
	served time.Time
}

type installKey struct {
	base string
	events.ModuleRef
}

type stateChange struct {
	at    time.Time
	state events.ModuleState
}

type podTimeline struct {
	all     []*podTimes // in order of creation
	byUID   map[string]*podTimes
	byName  map[string]*podTimes // the newest Pod with each name
	served  map[string]time.Time // times of first ready endpoints, by Pod name, for Pods not yet watched
	bases   map[string]bool
	changes map[installKey][]stateChange
}

// readEvents builds a podTimeline from events, which must be in order. It ignores Pods that were created before
// since.
func readEvents(all []events.Event, since time.Time) *podTimeline {
	l := &podTimeline{byUID: map[string]*podTimes{}, byName: map[string]*podTimes{}, served: map[string]time.Time{},
		bases: map[string]bool{}, changes: map[installKey][]stateChange{}}
	for _, e := range all {
		switch {
		case e.Base != nil:
			l.bases[e.Base.Base] = true
		case e.Pod != nil:
			l.pod(e.Pod, e.Time, since)
		case e.Module != nil:
			at := installKey{e.Module.Base, e.Module.ModuleRef}
			l.changes[at] = append(l.changes[at], stateChange{e.Time, e.Module.State})
		case e.Endpoints != nil:
			l.endpoints(e.Endpoints, e.Time)
		}
	}
	for _, one := range l.all {
		l.install(one)
	}
	return l
}

func (l *podTimeline) pod(p *events.PodEvent, now, since time.Time) {
	if p.Gone || p.Created.Before(since) {
		return
	}
	one := l.byUID[p.UID]
	if one == nil {
		one = &podTimes{created: now, earliest: p.Created, modules: p.Modules, served: l.served[p.Name]}
		delete(l.served, p.Name)
		if one.earliest.IsZero() || one.earliest.After(now) {
			one.earliest = now
		}
		l.all = append(l.all, one)
		l.byUID[p.UID], l.byName[p.Name] = one, one
	}
	if one.scheduled.IsZero() && p.Node != "" {
		one.scheduled = now
	}
	if one.base == "" {
		one.base = p.Base
	}
	if one.ready.IsZero() && p.Ready {
		one.ready = now
	}
}

// install sets the times at which the base of a Pod installed the modules of the Pod. It sets neither time if a
// module was already on the base. The base can start the installation before the watch shows the Pod, so install
// ignores only state changes before the creation timestamp of the Pod.
func (l *podTimeline) install(o *podTimes) {
	for _, module := range o.modules {
		var begun, running time.Time
		for _, c := range l.changes[installKey{o.base, module}] {
			switch {
			case c.at.Before(o.earliest), !o.ready.IsZero() && c.at.After(o.ready):
			case c.state == events.ModuleResolved && begun.IsZero():
				begun = c.at
			case c.state == events.ModuleActivated && !begun.IsZero() && running.IsZero():
				running = c.at
			}
		}
		if running.IsZero() {
			o.begun, o.running = time.Time{}, time.Time{}
			return
		}
		if o.begun.IsZero() || begun.Before(o.begun) {
			o.begun = begun
		}
		if running.After(o.running) {
			o.running = running
		}
	}
}

func (l *podTimeline) endpoints(e *events.EndpointsEvent, now time.Time) {
	for _, point := range e.Endpoints {
		one := l.byName[point.Pod]
		switch {
		case !point.Ready:
		case one == nil:
			l.served[point.Pod] = now
		case one.served.IsZero():
			one.served = now
		}
	}
}

// results returns one result for each measure that has samples.
func (l *podTimeline) results() []*benchfmt.Result {
	var list []*benchfmt.Result
	for _, phase := range []struct {
		name     string
		from, to func(*podTimes) time.Time
	}{
		{"create_to_schedule", func(o *podTimes) time.Time { return o.created },
			func(o *podTimes) time.Time { return o.scheduled }},
		{"schedule_to_install", func(o *podTimes) time.Time { return o.scheduled },
			func(o *podTimes) time.Time { return o.begun }},
		{"install_to_run", func(o *podTimes) time.Time { return o.begun },
			func(o *podTimes) time.Time { return o.running }},
		{"run_to_watch", func(o *podTimes) time.Time { return o.running },
			func(o *podTimes) time.Time { return o.ready }},
		{"pod_startup", func(o *podTimes) time.Time { return o.created },
			func(o *podTimes) time.Time { return o.ready }},
		{"network_programming", func(o *podTimes) time.Time { return o.ready },
			func(o *podTimes) time.Time { return o.served }},
	} {
		var took []float64
		for _, one := range l.all {
			from, to := phase.from(one), phase.to(one)
			if from.IsZero() || to.IsZero() {
				continue
			}
			// The two times come from different watches, so the order can be reversed.
			took = append(took, max(0, float64(to.Sub(from))/float64(time.Millisecond)))
		}
		if len(took) > 0 {
			list = append(list, measurement(measureKey+phase.name, milliseconds, took))
		}
	}
	if rates := l.rates(); len(rates) > 0 {
		result := measurement(measureKey+"scheduling_throughput", podsPerSec, rates)
		result.Values = append(result.Values, benchfmt.Value{Unit: "max-" + podsPerSec, Value: slices.Max(rates)})
		list = append(list, result)
	}
	return list
}

// rates returns the number of Pods that were scheduled in each second, from the creation of the first Pod until
// the last Pod is scheduled.
func (l *podTimeline) rates() []float64 {
	var rates []float64
	for _, one := range l.all {
		if one.scheduled.IsZero() {
			continue
		}
		at := int(max(0, one.scheduled.Sub(l.all[0].created)) / second)
		for len(rates) <= at {
			rates = append(rates, 0)
		}
		rates[at]++
	}
	return rates
}
