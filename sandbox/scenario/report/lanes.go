package report

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// laneKind is the subject of a lane.
type laneKind string

// The kinds of lanes, in their order on the page.
const (
	laneComponent laneKind = "component"
	// laneFaults has the faults of all bases.
	laneFaults  laneKind = "faults"
	laneService laneKind = "service"
	// laneWaiting has the Pods that are not bound to a base.
	laneWaiting laneKind = "waiting"
	laneBase    laneKind = "base"
)

var laneKinds = []laneKind{laneComponent, laneFaults, laneService, laneWaiting, laneBase}

// thing is the subject of a span.
type thing string

// The things. A lane of a base has those from thingLife to thingPod.
const (
	thingLife      thing = "life"
	thingNode      thing = "node"
	thingModule    thing = "module"
	thingPod       thing = "pod"
	thingProcess   thing = "process"
	thingFault     thing = "fault"
	thingEndpoints thing = "endpoints"
)

// things are in the order of their rows within a lane.
var things = []thing{thingLife, thingNode, thingModule, thingPod, thingProcess, thingFault, thingEndpoints}

// States that no event contains: of bases, of Pods, and of the endpoints of a Service.
const (
	baseStarting     = "starting"
	baseConnected    = "connected"
	baseReady        = "ready"
	baseDisconnected = "disconnected"
	baseDown         = "down"

	podPending     = "pending"
	podReady       = "ready"
	podNotReady    = "notReady"
	podTerminating = "terminating"

	endpointsAll   = "all"
	endpointsSome  = "some"
	endpointsNone  = "none"
	endpointsEmpty = "empty"
)

// lane has the spans and marks of one base, component or Service.
type lane struct {
	kind laneKind
	// name is empty for the kinds that have only one lane.
	name string
	// spans are in the order of their beginning, marks in the order of their events.
	spans []*span
	marks []mark

	taken map[thing][]bool // tracks with a span that has not ended
}

// span is the life of one thing, such as a Pod.
type span struct {
	thing         thing
	name, version string
	// track is the row within the lane and the thing. Spans of one track do not overlap.
	track    int
	segments []segment
}

// segment is a state of a span. The segments of a span follow each other without a gap.
type segment struct {
	from, to    time.Time // to is zero until the segment has ended
	state, text string
}

// markKind is the kind of a mark.
type markKind string

// The kinds of marks. markFailure is a command that a base has answered with an error.
const (
	markCommand markKind = "command"
	markFailure markKind = "failure"
	markLost    markKind = "lost"
	markFired   markKind = "fired"
)

// mark is a single event in a lane.
type mark struct {
	kind     markKind
	from, to time.Time
	text     string
}

// laneBuilder makes lanes from events.
type laneBuilder struct {
	state timeline.State
	lanes map[laneKey]*lane
	open  map[spanKey]*span
}

type laneKey struct {
	kind laneKind
	name string
}

type spanKey struct {
	lane  laneKey
	thing thing
	name  string
}

func newLaneBuilder() *laneBuilder {
	return &laneBuilder{lanes: map[laneKey]*lane{}, open: map[spanKey]*span{}}
}

// sorted returns the lanes in their order on the page.
func (b *laneBuilder) sorted() []*lane {
	list := make([]*lane, 0, len(b.lanes))
	for _, l := range b.lanes {
		list = append(list, l)
	}
	slices.SortFunc(list, func(a, b *lane) int {
		return cmp.Or(cmp.Compare(slices.Index(laneKinds, a.kind), slices.Index(laneKinds, b.kind)), plain.CompareNames(a.name, b.name))
	})
	return list
}

// end closes all open spans.
func (b *laneBuilder) end(t time.Time) {
	for key := range b.open {
		b.close(key, t)
	}
}

func (b *laneBuilder) lane(key laneKey) *lane {
	l := b.lanes[key]
	if l == nil {
		l = &lane{kind: key.kind, name: key.name, taken: map[thing][]bool{}}
		b.lanes[key] = l
	}
	return l
}

// span returns the open span of a key. It begins one if there is none.
func (b *laneBuilder) span(key spanKey) *span {
	if s := b.open[key]; s != nil {
		return s
	}
	l := b.lane(key.lane)
	tracks := l.taken[key.thing]
	track := slices.Index(tracks, false)
	if track < 0 {
		track = len(tracks)
		tracks = append(tracks, true)
	}
	tracks[track] = true
	l.taken[key.thing] = tracks
	s := &span{thing: key.thing, name: key.name, track: track}
	l.spans = append(l.spans, s)
	b.open[key] = s
	return s
}

// close ends the open span of a key, if there is one.
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
	b.lanes[key.lane].taken[key.thing][s.track] = false
}

func (b *laneBuilder) mark(key laneKey, kind markKind, e timeline.Event, text string) {
	l := b.lane(key)
	l.marks = append(l.marks, mark{kind: kind, from: e.Time.Add(-e.Elapsed), to: e.Time, text: text})
}

// change begins a segment, unless the state and the text are the same as before.
func (s *span) change(t time.Time, state, text string) {
	if n := len(s.segments); n > 0 {
		last := &s.segments[n-1]
		if last.state == state && last.text == text {
			return
		}
		if !last.from.Before(t) { // a state without a duration is not drawn
			last.state, last.text = state, text
			return
		}
		last.to = t
	}
	s.segments = append(s.segments, segment{from: t, state: state, text: text})
}

// mostNames is the maximum number of names in a text. A Service may have thousands of endpoints.
const mostNames = 8

// observe adds an event. Events of one kind must be in the order of time. Steps are not drawn as lanes.
func (b *laneBuilder) observe(e timeline.Event) {
	base, pod := b.state.Bases.Get(e.Base), (*timeline.PodStatus)(nil)
	if e.Pod != nil {
		pod = b.state.Pods.Get(e.Pod.PodKey())
	}
	b.state.Apply(e)
	switch e.Kind {
	case timeline.Base:
		b.base(e, base, b.state.Bases.Get(e.Base))
	case timeline.Module:
		b.module(e, b.state.Bases.Get(e.Base))
	case timeline.Command:
		b.command(e)
	case timeline.Pod:
		if e.Pod != nil {
			b.pod(e, pod, b.state.Pods.Get(e.Pod.PodKey()))
		}
	case timeline.Endpoints:
		b.endpoints(e)
	case timeline.Node:
		b.node(e)
	case timeline.Component:
		b.span(spanKey{laneKey{laneComponent, e.Name}, thingProcess, e.Name}).change(e.Time, e.State, e.Message)
	case timeline.Fault, timeline.API, timeline.MQTT:
		b.fault(e)
	case timeline.Request:
		if e.Base != "" {
			b.mark(laneKey{laneBase, e.Base}, markLost, e, timeline.Join(": ", e.State, e.Message))
		}
	}
}

func (b *laneBuilder) base(e timeline.Event, before, base *timeline.BaseStatus) {
	if base == nil {
		return // the base ended before the recording began
	}
	if before != nil && len(base.Modules) == 0 { // the modules ended with the process
		for _, m := range before.Modules {
			b.close(moduleKey(e.Base, m.ModuleRef), e.Time)
		}
	}
	state := baseStarting
	switch {
	case !base.Running:
		state = baseDown
	case base.Connected && base.Ready:
		state = baseReady
	case base.Connected:
		state = baseConnected
	case base.Ready || timeline.BaseChange(e.State) == timeline.BaseDisconnected:
		state = baseDisconnected
	}
	key := laneKey{laneBase, e.Base}
	b.span(spanKey{key, thingLife, e.Base}).change(e.Time, state, timeline.Join("; ", e.Identity, e.Message))
}

func moduleKey(base string, m timeline.ModuleRef) spanKey {
	return spanKey{laneKey{laneBase, base}, thingModule, m.Name + ":" + m.Version}
}

func (b *laneBuilder) module(e timeline.Event, base *timeline.BaseStatus) {
	ref := timeline.ModuleRef{Name: e.Module, Version: e.Version}
	m := base.Module(ref)
	if m == nil {
		b.close(moduleKey(e.Base, ref), e.Time)
		return
	}
	s := b.span(moduleKey(e.Base, ref))
	s.version = m.Version
	s.change(e.Time, string(m.State), e.Message)
}

func (b *laneBuilder) command(e timeline.Event) {
	if e.Routine() {
		return
	}
	kind := markCommand
	if e.Code != "" {
		kind = markFailure
	}
	text := timeline.Join(" ", e.Name, timeline.Join(":", e.Module, e.Version))
	b.mark(laneKey{laneBase, e.Base}, kind, e, timeline.Join(": ", text, e.Code, e.Message))
}

func (b *laneBuilder) pod(e timeline.Event, before, p *timeline.PodStatus) {
	if before != nil && (p == nil || podKey(p) != podKey(before)) {
		b.close(podKey(before), e.Time)
	}
	if p == nil {
		return
	}
	s := b.span(podKey(p))
	s.name = p.Name
	if len(p.Modules) > 0 {
		s.version = p.Modules[0].Version
	}
	s.change(e.Time, podState(&p.PodState), podText(&p.PodState))
}

// podKey returns the key of a Pod's span. The span is in the lane of the Pod's base, or of its Node
// while the base of the Node is unknown, or in the lane of Pods without a base.
func podKey(p *timeline.PodStatus) spanKey {
	lane := laneKey{kind: laneWaiting}
	if name := cmp.Or(p.Base, p.Node); name != "" {
		lane = laneKey{laneBase, name}
	}
	return spanKey{lane, thingPod, p.PodKey()}
}

func podState(p *timeline.PodState) string {
	switch {
	case p.Deleting:
		return podTerminating
	case p.Ready:
		return podReady
	case p.Phase == "Pending":
		return podPending
	default:
		return podNotReady
	}
}

func podText(p *timeline.PodState) string {
	text := p.Phase
	if p.Deleting {
		if text += ", still Ready"; !p.Ready {
			text = p.Phase + ", not Ready"
		}
	}
	return timeline.Join("; ", timeline.Join(", ", text, p.Reason), names(p.ModuleNames()), p.Owner)
}

func (b *laneBuilder) endpoints(e timeline.Event) {
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
		text += fmt.Sprintf(", %d terminating that still serve", serving)
	}
	if len(rest) > 0 {
		text += "; not ready: " + names(rest)
	}
	b.span(spanKey{laneKey{laneService, e.Name}, thingEndpoints, e.Name}).change(e.Time, state, text)
}

func (b *laneBuilder) node(e timeline.Event) {
	if e.Base == "" {
		return // the Node does not belong to a base
	}
	key := spanKey{laneKey{laneBase, e.Base}, thingNode, e.Base}
	if e.State == "" {
		b.close(key, e.Time)
		return
	}
	s := b.span(key)
	s.name = cmp.Or(e.Name, e.Base)
	s.change(e.Time, e.State, e.Message)
}

func (b *laneBuilder) fault(e timeline.Event) {
	lane := laneKey{kind: laneFaults}
	name := timeline.Join(" on ", e.Name, e.Base)
	key := spanKey{lane, thingFault, name}
	switch timeline.FaultChange(e.State) {
	case timeline.FaultSet:
		b.span(key).change(e.Time, e.State, e.Message)
	case timeline.FaultCleared:
		b.close(key, e.Time)
	default:
		b.mark(lane, markFired, e, timeline.Join(": ", name, e.Message))
	}
}

func names(list []string) string {
	if more := len(list) - mostNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:mostNames], ", "), more)
	}
	return strings.Join(list, ", ")
}
