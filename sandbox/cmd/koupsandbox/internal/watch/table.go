package watch

import (
	"cmp"
	"fmt"
	"image/color"
	"slices"
	"strings"

	"charm.land/lipgloss/v2"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// The colours are taken from the palette of the terminal, so that they are readable on its background.
var (
	goodColor = lipgloss.Color("2")
	badColor  = lipgloss.Color("9")
	warnColor = lipgloss.Color("3")
	weakColor = lipgloss.Color("8")
)

var headers = []string{"BASE", "STATE", "MODULES", "PODS", "LOST", "LAST EVENT"}

func colorize(c color.Color, text string) string {
	return lipgloss.NewStyle().Foreground(c).Render(text)
}

// names returns the names of the existing bases in sorted order.
func (s *Screen) names() []string {
	var names []string
	for b := range s.state.Bases.All() {
		if !b.Removed {
			names = append(names, b.Name)
		}
	}
	slices.SortFunc(names, plain.CompareNames)
	return names
}

// row returns the table cells of a base.
func (s *Screen) row(name string) []string {
	b := s.state.Bases.Get(name)
	lost, last := "", ""
	if n := s.lost[name]; n > 0 {
		lost = colorize(badColor, fmt.Sprint(n))
	}
	if e, ok := s.last[name]; ok {
		last = shortLine(e)
		if e.Command != nil && e.Command.Code != "" || e.Fault != nil && e.Fault.Kind != "" {
			last = colorize(badColor, last)
		}
	}
	return []string{plain.Text(name), s.baseState(b), moduleList(b), s.podList(name), lost, last}
}

// shortLine formats an event for the table row of a base.
func shortLine(e events.Event) string {
	kind, _, text := e.Describe()
	prefix := map[string]string{"node": "Node ", "pod": "Pod ", "fault": "fault "}[kind]
	return e.Time.Local().Format("15:04:05") + " " + plain.Text(prefix+text)
}

// baseState returns the state of a base, its health, and its faults. It also returns the state of the Node unless the
// Node is Ready.
func (s *Screen) baseState(b *events.BaseStatus) string {
	state := b.State()
	colour := map[events.BaseState]color.Color{events.BaseStateDown: badColor, events.BaseStateReady: goodColor}[state]
	if colour == nil {
		colour = warnColor
	}
	parts := []string{colorize(colour, string(state))}
	if b.Health != "" {
		health := map[string]color.Color{"UP": goodColor, "DOWN": badColor}[b.Health]
		if health == nil {
			health = warnColor
		}
		parts[0] += " " + colorize(health, plain.Text(b.Health))
	}
	for n := range s.state.Nodes.All() {
		if n.Base == b.Name && n.State != events.NodeReady {
			parts = append(parts, colorize(warnColor, "Node "+string(n.State)))
		}
	}
	for f := range s.state.Faults.All() {
		if f.Base == b.Name {
			parts = append(parts, colorize(warnColor, "fault "+plain.Text(f.Message)))
		}
	}
	slices.Sort(parts[1:])
	return strings.Join(parts, ", ")
}

// moduleList returns the modules of a base as NAME:VERSION. Inactive modules come first, with their state.
func moduleList(b *events.BaseStatus) string {
	var parts []string
	modules := slices.SortedStableFunc(slices.Values(b.Modules), func(a, b events.ModuleStatus) int {
		switch {
		case a.State == events.ModuleActivated && b.State != events.ModuleActivated:
			return 1
		case b.State == events.ModuleActivated && a.State != events.ModuleActivated:
			return -1
		}
		return 0
	})
	for _, m := range modules {
		text := plain.Text(m.String())
		switch m.State {
		case events.ModuleActivated:
			text = colorize(goodColor, text)
		case events.ModuleResolved:
			text = colorize(warnColor, text+" installing")
		case events.ModuleBroken:
			text = colorize(badColor, text+" broken")
		default:
			text = colorize(weakColor, text+" "+strings.ToLower(string(m.State)))
		}
		parts = append(parts, text)
	}
	return strings.Join(parts, ", ")
}

// podList returns the number of Ready Pods, the number of all Pods on a base, and the reasons why Pods are not Ready.
func (s *Screen) podList(base string) string {
	ready, all := 0, 0
	var reasons []string
	for p := range s.state.PodsOn(base) {
		all++
		switch reason := cmp.Or(p.Reason, p.Phase); {
		case p.Ready:
			ready++
		case p.Deleting: // a terminating Pod is not expected to be Ready
		case !slices.Contains(reasons, reason):
			reasons = append(reasons, reason)
		}
	}
	if all == 0 {
		return ""
	}
	return plain.Text(strings.Join(append([]string{fmt.Sprintf("%d/%d", ready, all)}, reasons...), ", "))
}

// summary returns the lines above the table. They show the components, the request streams, and the Pods without a
// base.
func (s *Screen) summary() []string {
	var lines []string
	running := 0
	var others []string
	for _, name := range s.state.Components.Names() {
		c := s.state.Components.Get(name)
		if c.State == events.ComponentRunning {
			running++
			continue
		}
		others = append(others, colorize(badColor, plain.Text(events.Join(": ", name+" "+string(c.State), c.Message))))
	}
	if running+len(others) > 0 {
		lines = append(lines, strings.Join(append([]string{plain.Count(running, "component") + " running"}, others...),
			", "))
	}
	for _, r := range s.rates {
		line := fmt.Sprintf("stream %s: %.0f ok/s", plain.Text(r.name), r.ok)
		if r.lost > 0 {
			line += colorize(badColor, fmt.Sprintf(", %.0f lost/s", r.lost))
		}
		lines = append(lines, line+fmt.Sprintf(", %d sent, %d lost", r.sent, r.lostTotal))
	}
	var waiting int
	for p := range s.state.Pods.All() {
		if p.Base == "" {
			waiting++
		}
	}
	if waiting > 0 {
		lines = append(lines, colorize(warnColor, plain.Count(waiting, "Pod")+" without a base"))
	}
	return lines
}
