package watch

import (
	"image/color"
	"strings"
	"time"

	"charm.land/lipgloss/v2"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
	"github.com/koupleless/koupsandbox/sandbox/timeline/lanes"
)

// The colours are those of the terminal's own palette, so that they suit its background.
var (
	good     = lipgloss.Color("2")
	bad      = lipgloss.Color("9")
	warn     = lipgloss.Color("3")
	weak     = lipgloss.Color("8")
	versions = []color.Color{lipgloss.Color("4"), lipgloss.Color("5"), lipgloss.Color("6"), lipgloss.Color("12"), lipgloss.Color("13"), lipgloss.Color("14")}
)

// cell is one character of a lane.
type cell struct {
	char   string
	colour color.Color
}

var empty = cell{" ", nil}

// period is the time of a cell.
type period struct{ from, to time.Time }

// strip draws times as cells, the last of which ends at to.
func strip(n int, each time.Duration, to time.Time, draw func(period) cell) string {
	var b strings.Builder
	var run strings.Builder
	var colour color.Color
	flush := func() {
		if run.Len() > 0 {
			b.WriteString(paint(colour, run.String()))
			run.Reset()
		}
	}
	for i := range n {
		c := draw(period{to.Add(-time.Duration(n-i) * each), to.Add(-time.Duration(n-i-1) * each)})
		if c.colour != colour {
			flush()
			colour = c.colour
		}
		run.WriteString(c.char)
	}
	flush()
	return b.String()
}

func paint(colour color.Color, text string) string {
	if colour == nil {
		return text
	}
	return lipgloss.NewStyle().Foreground(colour).Render(text)
}

// during returns the last segment of a span that lay in the period, or nil.
func during(s *lanes.Span, p period) *lanes.Segment {
	for i := len(s.Segments) - 1; i >= 0; i-- {
		g := &s.Segments[i]
		if g.From.Before(p.to) {
			if g.To.IsZero() || g.To.After(p.from) {
				return g
			}
			return nil
		}
	}
	return nil
}

// disorder is by how much marks may be out of order: a request is told when its fate is known, some
// seconds after it was sent.
const disorder = 10 * time.Second

// marked tells whether a mark of the kind lies in the period.
func marked(l *lanes.Lane, kind lanes.MarkKind, p period) bool {
	for i := len(l.Marks) - 1; i >= 0; i-- {
		m := l.Marks[i]
		if m.Kind == kind && !m.To.Before(p.from) && m.To.Before(p.to) {
			return true
		}
		if m.To.Before(p.from.Add(-disorder)) {
			return false
		}
	}
	return false
}

// The signs of a base's lane.
const (
	serving, installing, both, inactive = "█", "▒", "▓", "░"
	failed, lost                        = "×", "!"
)

// moduleCell is how a version of a module looks.
func moduleCell(s *lanes.Span, g *lanes.Segment, colours *palette) cell {
	switch timeline.ModuleState(g.State) {
	case timeline.ModuleActivated:
		return cell{serving, colours.of(s.Version)}
	case timeline.ModuleResolved:
		return cell{installing, colours.of(s.Version)}
	case timeline.ModuleBroken:
		return cell{failed, bad}
	default:
		return cell{inactive, colours.of(s.Version)}
	}
}

// modules draws what a base has: the version that is active, one that is being installed, one that
// is no longer active; and over it what went wrong.
func modules(l *lanes.Lane, colours *palette) func(period) cell {
	return func(p period) cell {
		switch {
		case marked(l, lanes.Lost, p):
			return cell{lost, bad}
		case marked(l, lanes.Failure, p):
			return cell{failed, bad}
		}
		life, serves, comes, rests := empty, empty, empty, empty
		for _, s := range l.Spans {
			g := during(s, p)
			if g == nil {
				continue
			}
			switch {
			case s.Thing == lanes.Life && g.State == lanes.Down:
				life = cell{"x", bad}
			case s.Thing == lanes.Life && g.State == lanes.Disconnected:
				life = cell{"~", warn}
			case s.Thing == lanes.Life:
				life = cell{"·", weak}
			case s.Thing != lanes.Module:
			default:
				switch c := moduleCell(s, g, colours); c.char {
				case serving:
					serves = c
				case installing:
					comes = c
				default:
					rests = c
				}
			}
		}
		switch {
		case life.char == "x":
			return life
		case serves != empty && comes != empty:
			return cell{both, serves.colour}
		case serves != empty:
			return serves
		case comes != empty:
			return comes
		case rests != empty:
			return rests
		}
		return life
	}
}

// pods draws how many of a base's Pods are Ready.
func pods(l *lanes.Lane, colours *palette) func(period) cell {
	return func(p period) cell {
		best, rank := empty, 0
		for _, s := range l.Spans {
			g := during(s, p)
			if s.Thing != lanes.Pod || g == nil {
				continue
			}
			c, r := cell{"╌", weak}, 1
			switch g.State {
			case lanes.Ready:
				c, r = cell{"━", colours.of(s.Version)}, 3
			case lanes.NotReady:
				c, r = cell{"╌", colours.of(s.Version)}, 2
			}
			if r > rank {
				best, rank = c, r
			}
		}
		return best
	}
}

// states draws things of one kind by their state.
func states(l *lanes.Lane, looks map[string]cell) func(period) cell {
	return func(p period) cell {
		if marked(l, lanes.Fired, p) {
			return cell{"*", warn}
		}
		found := empty
		for _, s := range l.Spans {
			if g := during(s, p); g != nil {
				if look, ok := looks[g.State]; ok {
					found = look
				} else {
					found = cell{"?", weak}
				}
			}
		}
		return found
	}
}

var (
	processes = map[string]cell{string(timeline.ComponentRunning): {"─", good}, string(timeline.ComponentPaused): {"=", warn}, string(timeline.ComponentExited): {"x", bad}}
	faults    = map[string]cell{string(timeline.FaultSet): {"▒", warn}}
	waiting   = map[string]cell{lanes.Pending: {"○", weak}}
)
