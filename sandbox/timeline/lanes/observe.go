package lanes

import (
	"fmt"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// mostNames is how many names a text lists before it only counts: more could not
// be read, and a Service may have thousands of endpoints.
const mostNames = 8

// Observe takes the next event. Events of a kind come in the order of time. Steps
// are not for the board: a run lists them, with those that they group.
func (b *Board) Observe(e timeline.Event) {
	switch e.Kind {
	case timeline.Base:
		b.base(e)
	case timeline.Module:
		b.module(e)
	case timeline.Command:
		b.command(e)
	case timeline.Pod:
		b.pod(e)
	case timeline.Endpoints:
		b.endpoints(e)
	case timeline.Node:
		b.node(e)
	case timeline.Component:
		b.component(e)
	case timeline.Fault:
		b.fault(e)
	case timeline.Request:
		if e.Base != "" {
			b.mark(laneKey{Base, e.Base}, Lost, e, join(": ", e.State, e.Message))
		}
	}
}

func (b *Board) base(e timeline.Event) {
	if e.Base == "" {
		return // the end of what was there before the stream began
	}
	p := b.bases[e.Base]
	if p == nil {
		p = &base{}
		b.bases[e.Base] = p
	}
	switch e.State {
	case "up":
		p.up = true
	case "ready":
		p.up, p.ready = true, true
	case "connected":
		p.up, p.connected = true, true
	case "disconnected":
		p.connected = false
	case "down":
		*p = base{}
		b.stopped(e.Base, e.Time)
	}
	state := Starting
	switch {
	case !p.up:
		state = Down
	case p.connected && p.ready:
		state = Ready
	case p.connected:
		state = Connected
	case p.ready || e.State == "disconnected":
		state = Disconnected
	}
	key := laneKey{Base, e.Base}
	b.span(spanKey{key, Life, e.Base}).turn(e.Time, state, join("; ", e.Identity, e.Message))
}

// stopped ends what a base's process takes with it.
func (b *Board) stopped(name string, t time.Time) {
	for _, s := range b.lane(laneKey{Base, name}).Spans {
		if s.Thing == Module && s.open() != nil {
			b.close(moduleKey(name, s.Module, s.Version), t)
		}
	}
}

func moduleKey(base, module, version string) spanKey {
	return spanKey{laneKey{Base, base}, Module, module + ":" + version}
}

func (b *Board) module(e timeline.Event) {
	key := moduleKey(e.Base, e.Module, e.Version)
	if e.State == "" {
		b.close(key, e.Time)
		return
	}
	s := b.span(key)
	s.Module, s.Version = e.Module, e.Version
	s.turn(e.Time, e.State, e.Message)
}

func (b *Board) command(e timeline.Event) {
	if Routine(e) {
		return
	}
	kind := Command
	if e.Code != "" {
		kind = Failure
	}
	text := join(" ", e.Name, join(":", e.Module, e.Version))
	b.mark(laneKey{Base, e.Base}, kind, e, join(": ", text, e.Code, e.Message))
}

func (b *Board) pod(e timeline.Event) {
	p := e.Pod
	if p == nil {
		return
	}
	id := p.UID
	if id == "" {
		id = p.Name
	}
	lane := laneKey{Base, e.Base}
	switch {
	case e.Base != "":
	case p.Node != "":
		lane.name = p.Node
	default:
		lane = laneKey{kind: Waiting}
	}
	key := spanKey{lane, Pod, id}
	place, known := b.pods[id]
	if p.Gone {
		if known {
			b.close(place, e.Time)
		}
		delete(b.pods, id)
		return
	}
	switch {
	case !known || place == key:
	case e.Base == "" && place.lane.kind == Base:
		key = place // the base behind its Node is not known any more
	default:
		b.close(place, e.Time)
	}
	b.pods[id] = key
	s := b.span(key)
	s.Name = p.Name
	if len(p.Modules) > 0 {
		s.Module, s.Version = p.Modules[0].Name, p.Modules[0].Version
	}
	s.turn(e.Time, podState(p), podText(p))
}

func podState(p *timeline.PodState) string {
	switch {
	case p.Deleting:
		return Terminating
	case p.Ready:
		return Ready
	case p.Phase == "Pending":
		return Pending
	default:
		return NotReady
	}
}

func podText(p *timeline.PodState) string {
	text := p.Phase
	if p.Deleting {
		if text += ", still Ready"; !p.Ready {
			text = p.Phase + ", not Ready"
		}
	}
	modules := make([]string, 0, len(p.Modules))
	for _, m := range p.Modules {
		modules = append(modules, join(":", m.Name, m.Version))
	}
	return join("; ", join(", ", text, p.Reason), names(modules), p.Owner)
}

func (b *Board) endpoints(e timeline.Event) {
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
		rest = append(rest, firstOf(p.Base, p.Pod, p.IP))
	}
	state := SomeReady
	switch {
	case len(e.Endpoints) == 0:
		state = NoEndpoints
	case ready == 0:
		state = NoneReady
	case ready == len(e.Endpoints):
		state = AllReady
	}
	text := fmt.Sprintf("%d of %d ready", ready, len(e.Endpoints))
	if serving > 0 {
		text += fmt.Sprintf(", %d terminating that still serve", serving)
	}
	if len(rest) > 0 {
		text += "; not ready: " + names(rest)
	}
	b.span(spanKey{laneKey{Service, e.Name}, Endpoints, e.Name}).turn(e.Time, state, text)
}

func (b *Board) node(e timeline.Event) {
	if e.Base == "" {
		return // not a base's
	}
	key := spanKey{laneKey{Base, e.Base}, Node, e.Base}
	if e.State == "" {
		b.close(key, e.Time)
		return
	}
	s := b.span(key)
	s.Name = firstOf(e.Name, e.Base)
	s.turn(e.Time, e.State, e.Message)
}

func (b *Board) component(e timeline.Event) {
	b.span(spanKey{laneKey{Component, e.Name}, Process, e.Name}).turn(e.Time, e.State, e.Message)
}

func (b *Board) fault(e timeline.Event) {
	lane := laneKey{kind: Faults}
	name := join(" on ", e.Name, e.Base)
	key := spanKey{lane, Fault, name}
	switch e.State {
	case "set":
		b.span(key).turn(e.Time, e.State, e.Message)
	case "cleared":
		b.close(key, e.Time)
	default:
		b.mark(lane, Fired, e, join(": ", name, e.Message))
	}
}

// Routine tells whether an event is a question that a base has answered well: the
// controller asks all the time.
func Routine(e timeline.Event) bool {
	return e.Kind == timeline.Command && e.Code == "" && (e.Name == "health" || strings.HasPrefix(e.Name, "query"))
}

// join joins what is not empty.
func join(separator string, parts ...string) string {
	var text strings.Builder
	for _, p := range parts {
		if p == "" {
			continue
		}
		if text.Len() > 0 {
			text.WriteString(separator)
		}
		text.WriteString(p)
	}
	return text.String()
}

func names(list []string) string {
	if more := len(list) - mostNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:mostNames], ", "), more)
	}
	return strings.Join(list, ", ")
}

func firstOf(names ...string) string {
	for _, n := range names {
		if n != "" {
			return n
		}
	}
	return ""
}
