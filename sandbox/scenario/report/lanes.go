package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

type laneKind string

// The kinds of lanes, in the order in which the page shows them.
const (
	laneComponent laneKind = "component"
	// laneFaults is the lane that shows all faults.
	laneFaults  laneKind = "faults"
	laneService laneKind = "service"
	// laneWaiting is the lane that shows the Pods that are not bound to a Node.
	laneWaiting laneKind = "waiting"
	laneBase    laneKind = "base"
)

var laneKinds = []laneKind{laneComponent, laneFaults, laneService, laneWaiting, laneBase}

type rowKind string

// The kinds of rows. The lane of a base has rows of the kinds rowLife, rowNode, rowModule and rowPod.
const (
	rowLife      rowKind = "life"
	rowNode      rowKind = "node"
	rowModule    rowKind = "module"
	rowPod       rowKind = "pod"
	rowProcess   rowKind = "process"
	rowFault     rowKind = "fault"
	rowEndpoints rowKind = "endpoints"
)

// rowKinds lists the kinds of rows in the order in which a lane shows them.
var rowKinds = []rowKind{rowLife, rowNode, rowModule, rowPod, rowProcess, rowFault, rowEndpoints}

// endpointsAll and the following constants are the states of the endpoints of a Service.
const (
	endpointsAll   = "all"
	endpointsSome  = "some"
	endpointsNone  = "none"
	endpointsEmpty = "empty"
)

// lane contains the spans and marks of one base, component or Service.
type lane struct {
	kind laneKind
	// name is the name of the base, component or Service; empty for kinds that have only one lane.
	name string
	// spans are sorted by their start. marks are in the order of their events.
	spans []*span
	marks []mark

	usedTracks map[rowKind][]bool // whether each track has an open span, by kind of row
}

// span is the lifetime of one object, such as a Pod, in a lane.
type span struct {
	kind          rowKind
	name, version string
	// track is the index, from 0, of the span's row among the rows of its kind. Spans on the same track do not
	// overlap.
	track    int
	segments []segment
}

// segment is a period of a span during which the object has the same state. The segments of a span are contiguous.
type segment struct {
	from, to    time.Time // to is zero until the segment has ended
	state, text string
}

type markKind string

// The kinds of marks. markFailure marks a command with an error response.
const (
	markCommand markKind = "command"
	markFailure markKind = "failure"
	markLost    markKind = "lost"
	markFired   markKind = "fired"
)

type mark struct {
	kind     markKind
	from, to time.Time
	text     string
}

type laneBuilder struct {
	state events.State
	lanes map[laneKey]*lane
	open  map[spanKey]*span
}

type laneKey struct {
	kind laneKind
	name string
}

type spanKey struct {
	lane laneKey
	kind rowKind
	name string
}

func newLaneBuilder() *laneBuilder {
	return &laneBuilder{lanes: map[laneKey]*lane{}, open: map[spanKey]*span{}}
}

// sorted returns the lanes in the order in which the page shows them.
func (b *laneBuilder) sorted() []*lane {
	list := make([]*lane, 0, len(b.lanes))
	for _, l := range b.lanes {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(slices.Index(laneKinds, a.kind), slices.Index(laneKinds, b.kind)),
			plain.CompareNames(a.name, b.name))
	})
	return list
}

func (b *laneBuilder) end(t time.Time) {
	for key := range b.open {
		b.close(key, t)
	}
}

func (b *laneBuilder) lane(key laneKey) *lane {
	l := b.lanes[key]
	if l == nil {
		l = &lane{kind: key.kind, name: key.name, usedTracks: map[rowKind][]bool{}}
		b.lanes[key] = l
	}
	return l
}

// span returns the open span with the given key. If no such span is open, it starts a new one.
func (b *laneBuilder) span(key spanKey) *span {
	if s := b.open[key]; s != nil {
		return s
	}
	l := b.lane(key.lane)
	tracks := l.usedTracks[key.kind]
	track := slices.Index(tracks, false)
	if track < 0 {
		track = len(tracks)
		tracks = append(tracks, true)
	}
	tracks[track] = true
	l.usedTracks[key.kind] = tracks
	s := &span{kind: key.kind, name: key.name, track: track}
	l.spans = append(l.spans, s)
	b.open[key] = s
	return s
}

// close ends the open span with the given key. It has no effect if no such span is open.
func (b *laneBuilder) close(key spanKey, t time.Time) {
	s := b.open[key]
	if s == nil {
		return
	}
	last := &s.segments[len(s.segments)-1]
	last.to = t
	if t.Before(last.from) {
		last.to = last.from
	}
	delete(b.open, key)
	b.lanes[key.lane].usedTracks[key.kind][s.track] = false
}

func (b *laneBuilder) mark(key laneKey, kind markKind, to time.Time, elapsed time.Duration, text string) {
	l := b.lane(key)
	l.marks = append(l.marks, mark{kind: kind, from: to.Add(-elapsed), to: to, text: text})
}

// change starts a new segment of the span. It has no effect if the state and the text are unchanged.
func (s *span) change(t time.Time, state, text string) {
	if n := len(s.segments); n > 0 {
		last := &s.segments[n-1]
		if last.state == state && last.text == text {
			return
		}
		if !last.from.Before(t) { // states without a duration are not drawn
			last.state, last.text = state, text
			return
		}
		last.to = t
	}
	s.segments = append(s.segments, segment{from: t, state: state, text: text})
}

// maxNames is the maximum number of names in a text, because a Service may have thousands of endpoints.
const maxNames = 8

// observe adds an event to the lanes. Events of the same kind must be added in chronological order. Step events are
// ignored, because steps have no lane.
func (b *laneBuilder) observe(e events.Event) {
	name := e.BaseName()
	base, pod := b.state.Bases.Get(name), (*events.PodStatus)(nil)
	if e.Pod != nil {
		pod = b.state.Pods.Get(e.Pod.PodKey())
	}
	b.state.Apply(e)
	switch {
	case e.Base != nil:
		b.base(e.Base, e.Time, base, b.state.Bases.Get(name))
	case e.Health != nil:
		b.life(b.state.Bases.Get(name), e.Time)
	case e.Module != nil:
		b.module(e.Module, e.Time, b.state.Bases.Get(name))
	case e.Command != nil:
		if !e.Routine() {
			b.command(e.Command, e.Time)
		}
	case e.Pod != nil:
		b.pod(e.Time, pod, b.state.Pods.Get(e.Pod.PodKey()))
	case e.Endpoints != nil:
		b.endpoints(e.Endpoints, e.Time)
	case e.Node != nil:
		b.node(e.Node, e.Time)
	case e.Component != nil:
		c := e.Component
		b.span(spanKey{laneKey{laneComponent, c.Name}, rowProcess, c.Name}).change(e.Time, string(c.State), c.Message)
	case e.Fault != nil:
		b.fault(e.Fault, e.Time)
	case e.Request != nil:
		if name != "" {
			b.mark(laneKey{laneBase, name}, markLost, e.Time, e.Request.Elapsed,
				events.Join(": ", string(e.Request.Result), e.Request.Message))
		}
	}
}

func (b *laneBuilder) base(e *events.BaseEvent, now time.Time, before, base *events.BaseStatus) {
	if base == nil {
		return // the base was removed before the recording started
	}
	if before != nil && len(base.Modules) == 0 { // the process of the base has ended
		for _, m := range before.Modules {
			b.close(moduleKey(e.Base, m.ModuleRef), now)
		}
	}
	b.life(base, now)
}

// life adds the state and the health of a base to its lane. A nil base is ignored.
func (b *laneBuilder) life(base *events.BaseStatus, now time.Time) {
	if base == nil {
		return
	}
	state, health := string(base.State()), ""
	if base.Health != "" && base.Health != "UP" {
		health = "health " + base.Health
	}
	if base.Health == "DOWN" && base.State() == events.BaseStateReady {
		state = "unhealthy"
	}
	key := laneKey{laneBase, base.Name}
	b.span(spanKey{key, rowLife, base.Name}).change(now, state, events.Join("; ", base.Identity, health))
}

func moduleKey(base string, m events.ModuleRef) spanKey {
	return spanKey{laneKey{laneBase, base}, rowModule, m.Name + ":" + m.Version}
}

func (b *laneBuilder) module(e *events.ModuleEvent, now time.Time, base *events.BaseStatus) {
	m := base.Module(e.ModuleRef)
	if m == nil {
		b.close(moduleKey(e.Base, e.ModuleRef), now)
		return
	}
	s := b.span(moduleKey(e.Base, e.ModuleRef))
	s.version = m.Version
	s.change(now, string(m.State), e.Message)
}

func (b *laneBuilder) command(e *events.CommandEvent, now time.Time) {
	kind := markCommand
	if e.Code != "" {
		kind = markFailure
	}
	text := events.Join(" ", e.Name, e.Module.String())
	b.mark(laneKey{laneBase, e.Base}, kind, now, e.Elapsed, events.Join(": ", text, e.Code, e.Message))
}

func (b *laneBuilder) pod(now time.Time, before, p *events.PodStatus) {
	if before != nil && (p == nil || podKey(p) != podKey(before)) {
		b.close(podKey(before), now)
	}
	if p == nil {
		return
	}
	s := b.span(podKey(p))
	s.name = p.Name
	if len(p.Modules) > 0 {
		s.version = p.Modules[0].Version
	}
	s.change(now, string(p.Stage()), podText(&p.PodState))
}

// podKey returns the key of the span of a Pod. The span is in the lane of the Pod's base. If the base of the Node is
// unknown, the span is in a lane with the name of the Node. Pods without a Node are in laneWaiting.
func podKey(p *events.PodStatus) spanKey {
	lane := laneKey{kind: laneWaiting}
	if name := cmp.Or(p.Base, p.Node); name != "" {
		lane = laneKey{laneBase, name}
	}
	return spanKey{lane, rowPod, p.PodKey()}
}

func podText(p *events.PodState) string {
	text := p.Phase
	if p.Deleting {
		text += ", still Ready"
		if !p.Ready {
			text = p.Phase + ", not Ready"
		}
	}
	return events.Join("; ", events.Join(", ", text, p.Reason), names(p.ModuleNames()), p.Owner)
}

func (b *laneBuilder) endpoints(e *events.EndpointsEvent, now time.Time) {
	ready, serving := 0, 0
	var rest []string
	for _, p := range e.Endpoints {
		switch {
		case p.Ready:
			ready++
			continue
		case p.Serving && p.Terminating:
			serving++
		}
		rest = append(rest, cmp.Or(p.Base, p.Pod, p.IP))
	}
	state := endpointsSome
	switch {
	case len(e.Endpoints) == 0:
		state = endpointsEmpty
	case ready == 0:
		state = endpointsNone
	case ready == len(e.Endpoints):
		state = endpointsAll
	}
	text := fmt.Sprintf("%d of %d ready", ready, len(e.Endpoints))
	if serving > 0 {
		text += fmt.Sprintf(", %d terminating and serving", serving)
	}
	if len(rest) > 0 {
		text += "; not ready: " + names(rest)
	}
	b.span(spanKey{laneKey{laneService, e.Service}, rowEndpoints, e.Service}).change(now, state, text)
}

func (b *laneBuilder) node(e *events.NodeEvent, now time.Time) {
	if e.Base == "" {
		return // the Node does not belong to a base
	}
	key := spanKey{laneKey{laneBase, e.Base}, rowNode, e.Base}
	if e.State == "" {
		b.close(key, now)
		return
	}
	s := b.span(key)
	s.name = cmp.Or(e.Name, e.Base)
	s.change(now, string(e.State), e.Message)
}

func (b *laneBuilder) fault(e *events.FaultEvent, now time.Time) {
	lane := laneKey{kind: laneFaults}
	name := events.Join(" on ", e.ID, e.Base)
	key := spanKey{lane, rowFault, name}
	switch e.Change {
	case events.FaultSet:
		b.span(key).change(now, string(e.Change), events.Join(": ", string(e.Kind), e.Message))
	case events.FaultCleared:
		b.close(key, now)
	case events.FaultTriggered:
		b.mark(lane, markFired, now, 0, events.Join(": ", name, string(e.Kind), e.Message))
	}
}

func names(list []string) string {
	if more := len(list) - maxNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:maxNames], ", "), more)
	}
	return strings.Join(list, ", ")
}
