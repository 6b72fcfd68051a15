package lanes

import (
	"cmp"
	"fmt"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// mostNames is how many names a text lists before it only counts: more could not be read, and a
// Service may have thousands of endpoints.
const mostNames = 8

// Observe takes the next event. Events of a kind come in the order of time. Steps are not for the
// board: a run lists them, with those that they group.
func (b *Board) Observe(e timeline.Event) {
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
		b.span(spanKey{laneKey{Component, e.Name}, Process, e.Name}).turn(e.Time, e.State, e.Message)
	case timeline.Fault:
		b.fault(e)
	case timeline.Request:
		if e.Base != "" {
			b.mark(laneKey{Base, e.Base}, Lost, e, timeline.Join(": ", e.State, e.Message))
		}
	}
}

func (b *Board) base(e timeline.Event, before, base *timeline.BaseStatus) {
	if base == nil {
		return // the end of what was there before the stream began
	}
	if before != nil && len(base.Modules) == 0 { // its process has taken them with it
		for _, m := range before.Modules {
			b.close(moduleKey(e.Base, m.ModuleRef), e.Time)
		}
	}
	state := Starting
	switch {
	case !base.Running:
		state = Down
	case base.Connected && base.Ready:
		state = Ready
	case base.Connected:
		state = Connected
	case base.Ready || timeline.BaseChange(e.State) == timeline.BaseDisconnected:
		state = Disconnected
	}
	key := laneKey{Base, e.Base}
	b.span(spanKey{key, Life, e.Base}).turn(e.Time, state, timeline.Join("; ", e.Identity, e.Message))
}

func moduleKey(base string, m timeline.ModuleRef) spanKey {
	return spanKey{laneKey{Base, base}, Module, m.Name + ":" + m.Version}
}

func (b *Board) module(e timeline.Event, base *timeline.BaseStatus) {
	ref := timeline.ModuleRef{Name: e.Module, Version: e.Version}
	m := base.Module(ref)
	if m == nil {
		b.close(moduleKey(e.Base, ref), e.Time)
		return
	}
	s := b.span(moduleKey(e.Base, ref))
	s.Module, s.Version = m.Name, m.Version
	s.turn(e.Time, string(m.State), e.Message)
}

func (b *Board) command(e timeline.Event) {
	if e.Routine() {
		return
	}
	kind := Command
	if e.Code != "" {
		kind = Failure
	}
	text := timeline.Join(" ", e.Name, timeline.Join(":", e.Module, e.Version))
	b.mark(laneKey{Base, e.Base}, kind, e, timeline.Join(": ", text, e.Code, e.Message))
}

func (b *Board) pod(e timeline.Event, before, p *timeline.PodStatus) {
	if before != nil && (p == nil || podKey(p) != podKey(before)) {
		b.close(podKey(before), e.Time)
	}
	if p == nil {
		return
	}
	s := b.span(podKey(p))
	s.Name = p.Name
	if len(p.Modules) > 0 {
		s.Module, s.Version = p.Modules[0].Name, p.Modules[0].Version
	}
	s.next(Segment{From: e.Time, State: podState(&p.PodState), Text: podText(&p.PodState), Reason: p.Reason})
}

// podKey is where a Pod is shown: on its base, or on its Node as long as nobody knows the base
// behind it, or among those that wait for one.
func podKey(p *timeline.PodStatus) spanKey {
	lane := laneKey{kind: Waiting}
	if name := cmp.Or(p.Base, p.Node); name != "" {
		lane = laneKey{Base, name}
	}
	return spanKey{lane, Pod, p.PodKey()}
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
	return timeline.Join("; ", timeline.Join(", ", text, p.Reason), names(p.ModuleNames()), p.Owner)
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
		rest = append(rest, cmp.Or(p.Base, p.Pod, p.IP))
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
	s.Name = cmp.Or(e.Name, e.Base)
	s.turn(e.Time, e.State, e.Message)
}

func (b *Board) fault(e timeline.Event) {
	lane := laneKey{kind: Faults}
	name := timeline.Join(" on ", e.Name, e.Base)
	key := spanKey{lane, Fault, name}
	switch timeline.FaultChange(e.State) {
	case timeline.FaultSet:
		s := b.span(key)
		s.Base = e.Base
		s.turn(e.Time, e.State, timeline.Join(": ", e.Code, e.Message))
	case timeline.FaultCleared:
		b.close(key, e.Time)
	default:
		b.mark(lane, Fired, e, timeline.Join(": ", name, e.Code, e.Message))
	}
}

func names(list []string) string {
	if more := len(list) - mostNames; more > 0 {
		return fmt.Sprintf("%s and %d more", strings.Join(list[:mostNames], ", "), more)
	}
	return strings.Join(list, ", ")
}
