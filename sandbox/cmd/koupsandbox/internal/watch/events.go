package watch

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// clockFormat is the time of day in milliseconds.
const clockFormat = "15:04:05.000"

// Line is an event in one line: when, what kind, who, and what.
func Line(e events.Event) string {
	kind, who, what := describe(e)
	line := fmt.Sprintf("%s  %-9s  %-30s  %s", e.Time.Local().Format(clockFormat), kind, who, what)
	return strings.TrimRight(plain.Text(line), " ")
}

// shortLine returns an event of a base as a cell of the table.
func shortLine(e events.Event) string {
	kind, _, what := describe(e)
	prefix := map[string]string{"node": "Node ", "pod": "Pod ", "fault": "fault "}[kind]
	return e.Time.Local().Format("15:04:05") + " " + plain.Text(prefix+what)
}

func describe(e events.Event) (kind, who, what string) {
	switch {
	case e.Base != nil:
		return "base", e.Base.Base, string(e.Base.Change)
	case e.Module != nil:
		m := e.Module
		return "module", m.Base, events.Join(": ", m.String()+" "+change(m.From, m.State), m.Message)
	case e.Command != nil:
		c := e.Command
		what := events.Join(" ", c.Name, c.Module.String(), cmp.Or(c.Code, "ok"), "after "+c.Elapsed.Round(time.Millisecond).String())
		return "command", c.Base, events.Join(": ", what, c.Message)
	case e.Pod != nil:
		who, what := podLine(e.Pod)
		return "pod", who, what
	case e.Endpoints != nil:
		return "endpoints", e.Endpoints.Service, fmt.Sprintf("%d of %d endpoints ready", e.Endpoints.Ready(), len(e.Endpoints.Endpoints))
	case e.Node != nil:
		return "node", e.Node.Base, events.Join(": ", change("", e.Node.State), e.Node.Message)
	case e.Fault != nil:
		f := e.Fault
		return "fault", f.Base, events.Join(": ", f.ID+" "+string(f.Change), string(f.Kind), f.Message)
	case e.Request != nil:
		r := e.Request
		return "request", r.Stream, events.Join(": ", events.Join(" ", "lost: "+string(r.Result), r.Base, traffic.Through(r.Route)), r.Message)
	case e.Component != nil:
		return "component", e.Component.Name, events.Join(": ", string(e.Component.State), e.Component.Message)
	case e.Step != nil:
		return "step", e.Step.Name, events.Join(": ", string(e.Step.State), e.Step.Message)
	}
	return "synced", "", "that is what there is; now what changes"
}

func podLine(p *events.PodEvent) (who, what string) {
	state := p.Phase
	switch {
	case p.Gone:
		state = "gone"
	case p.Ready:
		state = "Ready"
	case p.Reason != "":
		state = p.Phase + ", " + p.Reason
	}
	if p.Deleting && !p.Gone {
		state += ", being deleted"
	}
	return cmp.Or(p.Base, p.Node), fmt.Sprintf("%s %s (%s)", strings.Join(p.ModuleNames(), ", "), state, p.Name)
}

func change[S ~string](from, to S) string {
	return events.Join(" → ", string(from), cmp.Or(string(to), "gone"))
}
