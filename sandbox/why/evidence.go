package why

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

const (
	// shownBases is the maximum number of bases for which evidence is shown individually, one line each. If there are
	// more bases, they are grouped by the check that they fail.
	shownBases = 10
	// shownEvents is the maximum number of Events that are shown. shownLines is the maximum number of log lines that
	// are shown for each container.
	shownEvents, shownLines = 6, 6
)

// evidence returns all facts, ordered along the chain from the scheduler to the module. Each message of an object is
// shown only once, because conditions, containers and Events often have the same message.
func (v *explainer) evidence() []Evidence {
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

func (v *explainer) ofWorkload() (all []Evidence) {
	if !v.Target.workload() {
		return nil
	}
	w := v.workload()
	all = append(all, Evidence{About: "workload", Text: v.in(partPods,
		args{"desired": w.desired, "total": w.total, "updated": w.updated, "ready": w.ready})})
	if v.Deployment != nil {
		for _, c := range v.Deployment.Status.Conditions {
			text := v.conditionText(string(c.Type), string(c.Status), c.Reason, c.Message)
			all = append(all, Evidence{"workload", text, c.LastTransitionTime.Time})
		}
	}
	return all
}

func (v *explainer) conditionText(kind, status, reason, message string) string {
	return v.withMessage(strings.TrimSpace(kind+"="+status+" "+reason), message)
}

// withMessage appends a message to a reason, unless earlier evidence contains the message.
func (v *explainer) withMessage(reason, message string) string {
	if message == "" ||
		slices.ContainsFunc(v.messages, func(shown string) bool { return strings.Contains(shown, message) }) {
		return reason
	}
	v.messages = append(v.messages, message)
	return reason + ": " + message
}

// ofPlacement returns, for each base, the result of comparing it with the Pod or with the Pod template.
func (v *explainer) ofPlacement() (all []Evidence) {
	var p *placement
	switch {
	case v.Pod != nil && v.Pod.Spec.NodeName == "" && v.Pod.DeletionTimestamp == nil:
		p = v.placementOfPod()
	case v.Pod == nil && v.DaemonSet != nil, v.Pod == nil && v.peer():
		p = v.place(v.templatePod(), v.OnBases)
	default:
		return nil
	}
	if len(p.findings) <= shownBases {
		for _, d := range p.findings {
			text := baseName(d.base) + ": " + d.text
			if d.short == corev1.ResourceMemory || d.state == MetaspacePressure {
				text += v.releasesLeft(d.base)
			}
			all = append(all, Evidence{About: "bases", Text: text})
		}
		return all
	}
	groups := map[string][]string{}
	for _, d := range p.findings {
		groups[d.group] = append(groups[d.group], baseName(d.base))
	}
	texts := slices.SortedFunc(maps.Keys(groups),
		func(a, b string) int { return cmp.Or(cmp.Compare(len(groups[b]), len(groups[a])), cmp.Compare(a, b)) })
	for i, text := range texts {
		if i == shownBases {
			return append(all, Evidence{About: "bases", Text: v.in(partOtherReasons, args{"n": len(texts) - i})})
		}
		all = append(all, Evidence{About: "bases",
			Text: v.in(partBasesSuchAs, args{"bases": v.count(len(groups[text]), nounBase),
				"base": groups[text][0], "state": text})})
	}
	return all
}

func (v *explainer) ofControllers() (all []Evidence) {
	for _, c := range v.controllers {
		t := partControllerRuns
		if !c.runs {
			t = partControllerStopped
		}
		all = append(all, Evidence{"controllers", v.in(t, args{"controller": c.holder, "env": c.env}), c.renewed})
	}
	return all
}

// releasesLeft returns the forecast how many more releases a base survives.
func (v *explainer) releasesLeft(n *corev1.Node) string {
	left := n.Annotations[labels.ReleasesLeft]
	switch left {
	case "":
		left = v.in(partUnknown, nil)
	case labels.Unlimited:
		left = v.in(partUnlimited, nil)
	}
	return v.in(partReleasesLeft, args{"left": left})
}

// ofNode returns the state of the Node to which the Pod is bound, or of the Node that is the target.
func (v *explainer) ofNode() (all []Evidence) {
	n := v.Node
	if n == nil {
		return nil
	}
	text := v.in(partNode, args{"node": n.Name})
	if holder, named := n.Annotations[labels.Holder]; named {
		text += v.in(partNodeServedBy, args{"controller": cmp.Or(holder, v.in(partNoController, nil))})
	}
	if free, shown := n.Status.Allocatable[corev1.ResourceMemory]; shown && workload.IsBase(n) {
		text += v.in(partAllocatable, args{"free": amount(corev1.ResourceMemory, free)})
	}
	if n.Annotations[labels.ReleasesLeft] != "" ||
		nodeCondition(n, corev1.NodeMemoryPressure).Status == corev1.ConditionTrue {
		text += v.releasesLeft(n)
	}
	all = append(all, Evidence{About: "base", Text: text})
	for _, kind := range []corev1.NodeConditionType{corev1.NodeReady, api.ConditionObserved,
		corev1.NodeMemoryPressure} {
		if c := nodeCondition(n, kind); c.Type != "" {
			all = append(all, Evidence{"base", v.conditionText(string(kind), string(c.Status), c.Reason, c.Message),
				c.LastTransitionTime.Time})
		}
	}
	return all
}

func (v *explainer) ofPod() (all []Evidence) {
	if v.Pod == nil {
		return nil
	}
	for _, c := range v.Pod.Status.Conditions {
		if c.Status == corev1.ConditionTrue &&
			!slices.Contains([]corev1.PodConditionType{corev1.PodReady, api.ConditionCurrent}, c.Type) {
			continue
		}
		all = append(all, Evidence{"conditions", v.conditionText(string(c.Type), string(c.Status), c.Reason, c.Message),
			c.LastTransitionTime.Time})
	}
	for _, c := range v.Pod.Status.ContainerStatuses {
		e := Evidence{About: "containers", Text: c.Name}
		switch s := c.State; {
		case s.Running != nil:
			e.Text, e.At = v.in(partContainerRuns, args{"container": c.Name}), s.Running.StartedAt.Time
		case s.Waiting != nil:
			e.Text = v.in(partContainerWaits,
				args{"container": c.Name, "message": v.withMessage(s.Waiting.Reason, s.Waiting.Message)})
		case s.Terminated != nil:
			e.Text, e.At = v.in(partContainerEnded, args{"container": c.Name,
				"message": v.withMessage(s.Terminated.Reason, s.Terminated.Message)}), s.Terminated.FinishedAt.Time
		}
		if c.RestartCount > 0 {
			e.Text += v.in(partInstalledAgain, args{"n": c.RestartCount})
		}
		all = append(all, e)
	}
	return all
}

// ofEvents returns the most recent Events, oldest first.
func (v *explainer) ofEvents() (all []Evidence) {
	list := slices.SortedStableFunc(slices.Values(v.Events), func(a, b corev1.Event) int {
		return cmp.Or(events.LastTime(&a).Compare(events.LastTime(&b)), cmp.Compare(a.Message, b.Message))
	})
	for _, e := range list[max(len(list)-shownEvents, 0):] {
		text := v.withMessage(e.InvolvedObject.Kind+" "+e.InvolvedObject.Name+" "+e.Reason, e.Message)
		if e.Count > 1 {
			text += v.in(partTimes, args{"n": e.Count})
		}
		all = append(all, Evidence{"events", text, events.LastTime(&e)})
	}
	return all
}

func (v *explainer) ofLogs() (all []Evidence) {
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
