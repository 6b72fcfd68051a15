package bench

import (
	"strconv"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// second is the time that throughput is counted by. clusterloader2 counts by 5 s; the Pods of most runs are
// scheduled in less.
const second = time.Second

// life is when what happened to a Pod; the zero time = it has not.
type life struct {
	base    string
	modules []timeline.ModuleRef
	// created, scheduled and ready are when a watch told it first; begun is when its base began to install
	// its first module, running when the last one ran.
	created, scheduled, begun, running, ready time.Time
	// earliest is when the API has made the Pod, in whole seconds: nothing happened to it before.
	earliest time.Time
	// served is when the first of its Services listed it as ready.
	served time.Time
}

// place is a module on a base.
type place struct {
	base string
	timeline.ModuleRef
}

// change is that of a module's state.
type change struct {
	at    time.Time
	state timeline.ModuleState
}

// lives follows the Pods of a run through its events.
type lives struct {
	all     []*life // in the order of their creation
	byUID   map[string]*life
	byName  map[string]*life     // the youngest of the name
	served  map[string]time.Time // by the name of a Pod that no watch has told of yet
	bases   map[string]bool
	changes map[place][]change
}

// follow goes through the events in their order. Pods that were created before since are left out.
func follow(events []timeline.Event, since time.Time) *lives {
	l := &lives{byUID: map[string]*life{}, byName: map[string]*life{}, served: map[string]time.Time{}, bases: map[string]bool{}, changes: map[place][]change{}}
	for i := range events {
		switch e := &events[i]; e.Kind {
		case timeline.Base:
			l.bases[e.Base] = true
		case timeline.Pod:
			l.pod(e, since)
		case timeline.Module:
			at := place{e.Base, timeline.ModuleRef{Name: e.Module, Version: e.Version}}
			l.changes[at] = append(l.changes[at], change{e.Time, timeline.ModuleState(e.State)})
		case timeline.Endpoints:
			l.endpoints(e)
		}
	}
	for _, one := range l.all {
		l.install(one)
	}
	return l
}

func (l *lives) pod(e *timeline.Event, since time.Time) {
	p := e.Pod
	if p == nil || p.Gone || p.Created.Before(since) {
		return
	}
	one := l.byUID[p.UID]
	if one == nil {
		one = &life{created: e.Time, earliest: p.Created, modules: p.Modules, served: l.served[p.Name]}
		delete(l.served, p.Name)
		if one.earliest.IsZero() || one.earliest.After(e.Time) {
			one.earliest = e.Time
		}
		l.all = append(l.all, one)
		l.byUID[p.UID], l.byName[p.Name] = one, one
	}
	if one.scheduled.IsZero() && p.Node != "" {
		one.scheduled = e.Time
	}
	if one.base == "" {
		one.base = e.Base
	}
	if one.ready.IsZero() && p.Ready {
		one.ready = e.Time
	}
}

// install finds when the base of a Pod installed its modules. A Pod that finds its modules on the base waits
// for no install, and has neither time. A base may be told of the Pod, and have installed it, before this
// watch is told: what counts is the time that the API gives the Pod, in whole seconds.
func (l *lives) install(o *life) {
	for _, module := range o.modules {
		var begun, running time.Time
		for _, c := range l.changes[place{o.base, module}] {
			switch {
			case c.at.Before(o.earliest), !o.ready.IsZero() && c.at.After(o.ready):
			case c.state == timeline.ModuleResolved && begun.IsZero():
				begun = c.at
			case c.state == timeline.ModuleActivated && !begun.IsZero() && running.IsZero():
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

// endpoints notes when a Service has a Pod as a ready endpoint.
func (l *lives) endpoints(e *timeline.Event) {
	for _, point := range e.Endpoints {
		one := l.byName[point.Pod]
		switch {
		case !point.Ready:
		case one == nil:
			l.served[point.Pod] = e.Time
		case one.served.IsZero():
			one.served = e.Time
		}
	}
}

// items are the measures. One that there is no sample of is left out.
func (l *lives) items() []Item {
	var list []Item
	for _, phase := range []struct {
		measurement, name string
		from, to          func(*life) time.Time
	}{
		{PodStartup, "create_to_schedule", func(o *life) time.Time { return o.created }, func(o *life) time.Time { return o.scheduled }},
		{PodStartup, "schedule_to_install", func(o *life) time.Time { return o.scheduled }, func(o *life) time.Time { return o.begun }},
		{PodStartup, "install_to_run", func(o *life) time.Time { return o.begun }, func(o *life) time.Time { return o.running }},
		{PodStartup, "run_to_watch", func(o *life) time.Time { return o.running }, func(o *life) time.Time { return o.ready }},
		{PodStartup, "pod_startup", func(o *life) time.Time { return o.created }, func(o *life) time.Time { return o.ready }},
		{NetworkProgramming, "network_programming", func(o *life) time.Time { return o.ready }, func(o *life) time.Time { return o.served }},
	} {
		var took []float64
		for _, one := range l.all {
			from, to := phase.from(one), phase.to(one)
			if from.IsZero() || to.IsZero() {
				continue
			}
			// Two watches tell of two things: the earlier may be told later.
			took = append(took, max(0, float64(to.Sub(from))/float64(time.Millisecond)))
		}
		if len(took) > 0 {
			list = append(list, Item{Measurement: phase.measurement, Data: percentiles(took), Unit: milliseconds,
				Labels: map[string]string{metricLabel: phase.name, countLabel: strconv.Itoa(len(took))}})
		}
	}
	if rates := l.rates(); len(rates) > 0 {
		item := Item{Measurement: Throughput, Data: percentiles(rates), Unit: podsASecond,
			Labels: map[string]string{metricLabel: "scheduling_throughput", countLabel: strconv.Itoa(len(rates))}}
		item.Data[Max] = maximum(rates)
		list = append(list, item)
	}
	return list
}

// rates are the Pods that were scheduled in each second, from the first Pod's creation to the last one's
// scheduling. The last second counts whole.
func (l *lives) rates() []float64 {
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

func maximum(values []float64) (most float64) {
	for _, v := range values {
		most = max(most, v)
	}
	return most
}
