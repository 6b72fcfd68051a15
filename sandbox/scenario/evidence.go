package scenario

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/observe"
)

const (
	// shownCommands, shownEvents and shownPods limit how many recent commands, events and Pods the report of a
	// failure shows.
	shownCommands = 20
	shownEvents   = 20
	shownPods     = 30
)

// addEvidence adds details to the report of a run that has not passed, such as Pods, bases, Nodes, recent commands
// and recent events.
func (e *execution) addEvidence(ctx context.Context) {
	if e.run.Failure == "" || e.recorder == nil {
		return
	}
	seen := e.recorder.Events()
	details := []Detail{
		{Title: "Pods", Text: lastPods(seen)},
		{Title: "Bases", Text: e.lastBases()},
		{Title: "Last commands of the bases", Text: lastCommands(seen)},
		{Title: "Components and faults", Text: componentAndFaultEvents(seen)},
	}
	podEvents, err := e.podEvents(ctx)
	if err != nil {
		podEvents = "cannot list the events: " + err.Error()
	}
	details = append(details,
		Detail{Title: "Pod events", Text: podEvents}, Detail{Title: "Last events", Text: lastOf(seen)})
	for _, d := range details {
		e.addDetail(d)
	}
}

func lastPods(all []events.Event) string {
	last := map[string]events.Event{}
	var order []string
	for _, x := range all {
		if x.Pod == nil {
			continue
		}
		if _, known := last[x.Pod.UID]; !known {
			order = append(order, x.Pod.UID)
		}
		last[x.Pod.UID] = x
	}
	var lines []string
	for _, uid := range order {
		_, base, text := last[uid].Describe()
		lines = append(lines, events.Join("  ", base, text))
	}
	if n := len(lines); n > shownPods {
		lines = append([]string{fmt.Sprintf("(%s omitted)", plain.Count(n-shownPods, "earlier Pod"))},
			lines[n-shownPods:]...)
	}
	return strings.Join(lines, "\n")
}

func (e *execution) lastBases() string {
	var lines []string
	e.recorder.Read(func(v observe.Snapshot) {
		bases := v.Bases()
		nodes := v.NodesByIdentity(e.in.name)
		for _, name := range slices.Sorted(maps.Keys(bases)) {
			b := bases[name]
			state := "no Node"
			if n := nodes[b.Identity]; n != nil {
				state = "Node " + string(observe.NodeStateOf(n))
			}
			text := fmt.Sprintf("%s  version %s, running %t, ready %t, connected %t, %s;", name, b.Version, b.Running,
				b.Ready, b.Connected, state)
			for _, m := range b.Modules {
				text += fmt.Sprintf(" %s:%s %s", m.Name, m.Version, m.State)
			}
			lines = append(lines, strings.TrimSuffix(text, ";"))
		}
	})
	return strings.Join(lines, "\n")
}

func lastCommands(all []events.Event) string {
	return tail(all, shownCommands, func(x events.Event) bool {
		return x.Command != nil && !x.Routine()
	})
}

func componentAndFaultEvents(all []events.Event) string {
	return tail(all, shownEvents, func(x events.Event) bool {
		return x.Component != nil || x.Fault != nil
	})
}

func lastOf(all []events.Event) string {
	return tail(all, shownEvents, func(x events.Event) bool { return x.Command == nil && x.Request == nil })
}

// tail formats the last events for which want returns true, one event per line and at most the number most.
func tail(all []events.Event, most int, want func(events.Event) bool) string {
	var lines []string
	for _, x := range slices.Backward(all) {
		if len(lines) == most {
			break
		}
		if want(x) {
			lines = append(lines, x.Time.Local().Format("15:04:05.000")+"  "+x.String())
		}
	}
	slices.Reverse(lines)
	return strings.Join(lines, "\n")
}

func (e *execution) podEvents(ctx context.Context) (string, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), 5*time.Second)
	defer cancel()
	list, err := e.r.kube.Typed.CoreV1().Events(e.in.name).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	of := slices.DeleteFunc(list.Items, func(x corev1.Event) bool { return x.InvolvedObject.Kind != "Pod" })
	slices.SortStableFunc(of, func(a, b corev1.Event) int { return events.LastTime(&a).Compare(events.LastTime(&b)) })
	of = of[max(0, len(of)-shownEvents):]
	lines := make([]string, len(of))
	for i := range of {
		lines[i] = fmt.Sprintf("%s  %s  %s %s: %s", events.LastTime(&of[i]).Local().Format("15:04:05"),
			of[i].InvolvedObject.Name, of[i].Type, of[i].Reason, of[i].Message)
	}
	return strings.Join(lines, "\n"), nil
}
