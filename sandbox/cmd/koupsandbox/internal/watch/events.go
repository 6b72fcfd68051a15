package watch

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// clockFormat shows the time of day as precisely as events are told.
const clockFormat = "15:04:05.000"

// Line is an event in one line: when, what kind, who, and what.
func Line(e timeline.Event) string {
	who, what := describe(e)
	line := fmt.Sprintf("%s  %-9s  %-30s  %s", e.Time.Local().Format(clockFormat), e.Kind, who, what)
	return strings.TrimRight(plain.Text(line), " ")
}

// shortLine returns an event of a base as a cell of the table.
func shortLine(e timeline.Event) string {
	_, what := describe(e)
	switch e.Kind {
	case timeline.Node:
		what = "Node " + what
	case timeline.Pod:
		what = "Pod " + what
	case timeline.Fault:
		what = "fault " + what
	}
	return e.Time.Local().Format("15:04:05") + " " + plain.Text(what)
}

func describe(e timeline.Event) (who, what string) {
	switch e.Kind {
	case timeline.Base:
		return e.Base, timeline.Join(": ", e.State, e.Message)
	case timeline.Module:
		return e.Base, timeline.Join(": ", fmt.Sprintf("%s:%s %s", e.Module, e.Version, change(e.From, e.State)), e.Message)
	case timeline.Command:
		result := "ok"
		if e.Code != "" {
			result = e.Code
		}
		what := timeline.Join(" ", e.Name, timeline.Join(":", e.Module, e.Version), result, "after "+e.Elapsed.Round(time.Millisecond).String())
		return e.Base, timeline.Join(": ", what, e.Message)
	case timeline.Pod:
		return podLine(e)
	case timeline.Endpoints:
		return e.Name, fmt.Sprintf("%d of %d endpoints ready", e.ReadyEndpoints(), len(e.Endpoints))
	case timeline.Node:
		return e.Base, timeline.Join(": ", change("", e.State), e.Message)
	case timeline.Fault:
		return e.Base, timeline.Join(": ", timeline.Join(" ", e.Name, e.State), e.Message)
	case timeline.Request:
		return e.Name, timeline.Join(": ", timeline.Join(" ", "lost: "+e.State, e.Base, traffic.Through(e.Route)), e.Message)
	case timeline.Synced:
		return "", "that is what there is; now what changes"
	default:
		return e.Name, timeline.Join(": ", e.State, e.Message)
	}
}

func podLine(e timeline.Event) (who, what string) {
	p := e.Pod
	if p == nil {
		return e.Base, ""
	}
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
	return cmp.Or(e.Base, p.Node), fmt.Sprintf("%s %s (%s)", strings.Join(p.ModuleNames(), ", "), state, p.Name)
}

func change(from, to string) string {
	return timeline.Join(" → ", from, cmp.Or(to, "gone"))
}
