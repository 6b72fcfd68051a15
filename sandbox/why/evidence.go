package why

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

const (
	// shownBases is how many bases have a line of their own; more are grouped by what keeps the Pod off.
	shownBases = 10
	// shownEvents and shownLines are how many of the last are shown.
	shownEvents, shownLines = 6, 6
)

// evidence returns the facts in the order of the chain.
func (v *view) evidence() []Evidence {
	all := append([]Evidence{},
		slices.Concat(v.ofWorkload(), v.ofPlacement(), v.ofControllers(), v.ofNode(), v.ofPod(), v.ofEvents(),
			v.ofLogs())...)
	for _, f := range v.ignored() {
		all = append(all, Evidence{About: "ignored", Text: f.Path + ": " + f.Why})
	}
	for _, u := range v.Unread {
		all = append(all, Evidence{About: "unread", Text: u})
	}
	return all
}

func (v *view) ofWorkload() (all []Evidence) {
	if !v.Target.workload() {
		return nil
	}
	w := v.workload()
	all = append(all, Evidence{About: "workload", Text: fmt.Sprintf(
		"Pods: %d wanted, %d existing, %d with the current template, %d Ready", w.desired, w.total, w.updated,
		w.ready)})
	if v.Deployment != nil {
		for _, c := range v.Deployment.Status.Conditions {
			all = append(all, Evidence{"workload", conditionText(string(c.Type), string(c.Status), c.Reason, c.Message),
				c.LastTransitionTime.Time})
		}
	}
	return all
}

func conditionText(kind, status, reason, message string) string {
	return withMessage(strings.TrimSpace(kind+"="+status+" "+reason), message)
}

func withMessage(reason, message string) string {
	return strings.TrimSuffix(reason+": "+message, ": ")
}

// ofPlacement compares the Pod, or the template, with each base.
func (v *view) ofPlacement() (all []Evidence) {
	var p *placement
	switch {
	case v.Pod != nil && v.Pod.Spec.NodeName == "" && v.Pod.DeletionTimestamp == nil:
		p = v.placed()
	case v.Pod == nil && v.DaemonSet != nil, v.Pod == nil && v.peer():
		p = place(v.templatePod(), v.Bases, v.OnBases)
	default:
		return nil
	}
	if len(p.verdicts) <= shownBases {
		for _, d := range p.verdicts {
			all = append(all, Evidence{About: "bases", Text: baseName(d.base) + ": " + d.text})
		}
		return all
	}
	groups := map[string][]string{}
	for _, d := range p.verdicts {
		groups[d.group] = append(groups[d.group], baseName(d.base))
	}
	texts := slices.SortedFunc(maps.Keys(groups),
		func(a, b string) int { return cmp.Or(cmp.Compare(len(groups[b]), len(groups[a])), cmp.Compare(a, b)) })
	for i, text := range texts {
		if i == shownBases {
			return append(all, Evidence{About: "bases", Text: fmt.Sprintf("and %d other reasons", len(texts)-i)})
		}
		all = append(all, Evidence{About: "bases",
			Text: fmt.Sprintf("%s, such as %s: %s", plain.Count(len(groups[text]), "base"), groups[text][0], text)})
	}
	return all
}

func (v *view) ofControllers() (all []Evidence) {
	for _, c := range v.controllers {
		is := "runs"
		if !c.live {
			is = "no longer renews its Lease"
		}
		all = append(all, Evidence{"controllers", fmt.Sprintf("%s of environment %s %s", c.holder, c.env, is),
			c.renewed})
	}
	return all
}

// ofNode is what the Node of the Pod, or the one that is asked about, says.
func (v *view) ofNode() (all []Evidence) {
	n := v.Node
	if n == nil {
		return nil
	}
	text := "Node " + n.Name
	if holder, named := n.Annotations[labels.Holder]; named {
		text += ", served by " + cmp.Or(holder, "no controller")
	}
	if free, shown := n.Status.Allocatable[corev1.ResourceMemory]; shown && workload.IsBase(n) {
		text += ", allocatable metaspace " + amount(corev1.ResourceMemory, free)
	}
	all = append(all, Evidence{About: "base", Text: text})
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, api.ConditionObserved,
		corev1.NodeMemoryPressure} {
		if c := nodeCondition(n, kind); c.Type != "" {
			all = append(all, Evidence{"base", conditionText(string(kind), string(c.Status), c.Reason, c.Message),
				c.LastTransitionTime.Time})
		}
	}
	return all
}

func (v *view) ofPod() (all []Evidence) {
	if v.Pod == nil {
		return nil
	}
	for _, c := range v.Pod.Status.Conditions {
		if c.Status == corev1.ConditionTrue &&
			!slices.Contains([]corev1.PodConditionType{corev1.PodReady, api.ConditionCurrent}, c.Type) {
			continue
		}
		all = append(all, Evidence{"conditions", conditionText(string(c.Type), string(c.Status), c.Reason, c.Message),
			c.LastTransitionTime.Time})
	}
	for _, c := range v.Pod.Status.ContainerStatuses {
		e := Evidence{About: "containers", Text: c.Name}
		switch s := c.State; {
		case s.Running != nil:
			e.Text, e.At = e.Text+" runs", s.Running.StartedAt.Time
		case s.Waiting != nil:
			e.Text += " waits: " + withMessage(s.Waiting.Reason, s.Waiting.Message)
		case s.Terminated != nil:
			e.Text, e.At = e.Text+" ended: "+
				withMessage(s.Terminated.Reason, s.Terminated.Message), s.Terminated.FinishedAt.Time
		}
		if c.RestartCount > 0 {
			e.Text += fmt.Sprintf(", installed again %d times", c.RestartCount)
		}
		all = append(all, e)
	}
	return all
}

// ofEvents are the last Events, the oldest of them first.
func (v *view) ofEvents() (all []Evidence) {
	for _, e := range v.Events {
		text := fmt.Sprintf("%s %s %s: %s", e.InvolvedObject.Kind, e.InvolvedObject.Name, e.Reason, e.Message)
		if e.Count > 1 {
			text += fmt.Sprintf(" (%d times)", e.Count)
		}
		all = append(all, Evidence{"events", text, events.LastTime(&e)})
	}
	slices.SortStableFunc(all,
		func(a, b Evidence) int { return cmp.Or(a.At.Compare(b.At), cmp.Compare(a.Text, b.Text)) })
	return all[max(len(all)-shownEvents, 0):]
}

func (v *view) ofLogs() (all []Evidence) {
	for _, name := range slices.Sorted(maps.Keys(v.Logs)) {
		lines := v.Logs[name]
		for _, line := range lines[max(len(lines)-shownLines, 0):] {
			if line != "" {
				all = append(all, Evidence{About: "log", Text: line})
			}
		}
	}
	return all
}
