package watch

import (
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
	"github.com/koupleless/koupsandbox/sandbox/timeline/lanes"
)

// creating is the reason of a Pod that has no other one.
const creating = "ContainerCreating"

// slow is from when on it is told how long an installation has taken.
const slow = 3 * time.Second

// now says what a lane is at a moment, in few words.
func now(l *lanes.Lane, t time.Time) string {
	var parts []string
	for _, s := range l.Spans {
		switch g := s.At(t); {
		case g == nil:
		case s.Thing == lanes.Process:
			parts = append(parts, timeline.Join(": ", g.State, g.Text))
		case s.Base != "":
			parts = append(parts, g.Text+" on "+s.Base)
		default:
			parts = append(parts, timeline.Join(": ", s.Name, g.Text))
		}
	}
	return plain.Text(strings.Join(parts, ", "))
}

// modulesNow says what a base is at a moment, unless all is well, and which versions it has, with
// the signs of its lane. A module that is not simply there comes first.
func modulesNow(l *lanes.Lane, t time.Time, colours *palette) string {
	type module struct {
		text  string
		there bool
	}
	var parts []string
	var modules []*module
	byName := map[string]*module{}
	for _, s := range l.Spans {
		g := s.At(t)
		if g == nil {
			continue
		}
		switch s.Thing {
		case lanes.Life:
			if g.State != lanes.Ready {
				parts = append(parts, paint(warn, g.State))
			}
		case lanes.Node:
			if g.State != string(timeline.NodeReady) {
				parts = append(parts, paint(warn, plain.Text(timeline.Join(": ", "Node "+g.State, g.Text))))
			}
		case lanes.Module:
			m := byName[s.Module]
			if m == nil {
				m = &module{text: plain.Text(s.Module), there: true}
				byName[s.Module], modules = m, append(modules, m)
			}
			c := moduleCell(s, g, colours)
			m.text += " " + paint(c.colour, c.char+plain.Text(s.Version))
			m.there = m.there && c.char == serving
			if took := t.Sub(g.From); c.char == installing && took > slow {
				m.text += " " + took.Truncate(time.Second).String()
			}
		}
	}
	slices.SortStableFunc(modules, func(a, b *module) int {
		switch {
		case a.there == b.there:
			return 0
		case b.there:
			return -1
		}
		return 1
	})
	for _, m := range modules {
		parts = append(parts, m.text)
	}
	return strings.Join(parts, ", ")
}

// reasons say why a base is not as it should be: why its Pods are not Ready, the faults that are set
// on it, and the last command of the time in sight that has failed.
func reasons(l *lanes.Lane, faults []*lanes.Span, from, t time.Time) []string {
	var list []string
	comes := false
	for _, s := range l.Spans {
		g := s.At(t)
		if s.Thing == lanes.Pod && g != nil && g.Reason == creating {
			comes = true
			continue
		}
		if s.Thing == lanes.Pod && g != nil && g.Reason != "" && g.State != lanes.Terminating && !slices.Contains(list, g.Reason) {
			list = append(list, g.Reason)
		}
	}
	for _, s := range faults {
		if g := s.At(t); g != nil {
			list = append(list, "fault "+g.Text)
		}
	}
	for i := len(l.Marks) - 1; i >= 0 && l.Marks[i].To.After(from.Add(-disorder)); i-- {
		if m := l.Marks[i]; m.Kind == lanes.Failure && m.To.After(from) && !m.To.After(t) {
			list = append(list, m.Code+": "+strings.Replace(m.Text, ": "+m.Code, "", 1))
			break
		}
	}
	if comes {
		list = append(list, creating)
	}
	return list
}

// podsNow counts the Pods of a lane at a moment.
func podsNow(l *lanes.Lane, t time.Time) (ready, all int) {
	for _, s := range l.Spans {
		if s.Thing != lanes.Pod {
			continue
		}
		if g := s.At(t); g != nil {
			all++
			if g.State == lanes.Ready {
				ready++
			}
		}
	}
	return ready, all
}

// calm tells whether nothing but running was seen of a component in a time.
func calm(l *lanes.Lane, from, to time.Time) bool {
	for _, s := range l.Spans {
		for _, g := range s.Segments {
			if g.State != string(timeline.ComponentRunning) && g.From.Before(to) && (g.To.IsZero() || g.To.After(from)) {
				return false
			}
		}
	}
	return true
}

// idle tells whether a lane has nothing in a time.
func idle(l *lanes.Lane, from, to time.Time) bool {
	for _, s := range l.Spans {
		if during(s, period{from, to}) != nil {
			return false
		}
	}
	return !slices.ContainsFunc(l.Marks, func(m lanes.Mark) bool { return !m.To.Before(from) && m.To.Before(to) })
}

// waitingNow counts the Pods that no base has at a moment.
func waitingNow(l *lanes.Lane, t time.Time) string {
	_, n := podsNow(l, t)
	if n == 0 {
		return ""
	}
	return plain.Count(n, "Pod")
}
