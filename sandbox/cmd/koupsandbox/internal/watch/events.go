package watch

import (
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

func describe(e timeline.Event) (who, what string) {
	switch e.Kind {
	case timeline.Base:
		return e.Base, join(": ", e.State, e.Message)
	case timeline.Module:
		return e.Base, join(": ", fmt.Sprintf("%s:%s %s", e.Module, e.Version, change(e.From, e.State)), e.Message)
	case timeline.Command:
		result := "ok"
		if e.Code != "" {
			result = e.Code
		}
		what := join(" ", e.Name, join(":", e.Module, e.Version), result, "after "+e.Elapsed.Round(time.Millisecond).String())
		return e.Base, join(": ", what, e.Message)
	case timeline.Pod:
		return podLine(e)
	case timeline.Endpoints:
		ready := 0
		for _, p := range e.Endpoints {
			if p.Ready {
				ready++
			}
		}
		return e.Name, fmt.Sprintf("%d of %d endpoints ready", ready, len(e.Endpoints))
	case timeline.Node:
		return e.Base, join(": ", change("", e.State), e.Message)
	case timeline.Fault:
		return e.Base, join(": ", join(" ", e.Name, e.State), e.Message)
	case timeline.Request:
		return e.Name, join(": ", join(" ", "lost: "+e.State, e.Base, traffic.Through(e.Route)), e.Message)
	case timeline.Synced:
		return "", "that is what there is; now what changes"
	default:
		return e.Name, join(": ", e.State, e.Message)
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
	modules := make([]string, 0, len(p.Modules))
	for _, m := range p.Modules {
		modules = append(modules, join(":", m.Name, m.Version))
	}
	if who = e.Base; who == "" {
		who = p.Node
	}
	return who, fmt.Sprintf("%s (%s): %s", p.Name, strings.Join(modules, ", "), state)
}

func change(from, to string) string {
	if to == "" {
		to = "gone"
	}
	if from == "" {
		return to
	}
	return from + " → " + to
}

// join joins what is not empty.
func join(separator string, parts ...string) string {
	var kept []string
	for _, p := range parts {
		if p != "" {
			kept = append(kept, p)
		}
	}
	return strings.Join(kept, separator)
}
