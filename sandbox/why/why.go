package why

import (
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/redact"
	"github.com/koupleless/koupsandbox/sandbox/internal/language"
)

// Answer explains the state of the target.
type Answer struct {
	// Target is the explained object. Its Name is the name of the object that was found, which may differ from the
	// requested name.
	Target Target `json:"target"`
	// Ready reports whether the target is Ready, so that there is nothing to wait for.
	Ready bool `json:"ready"`
	// Young reports whether the target is not Ready and was created less than ten seconds ago. Such a target may
	// become Ready without any action.
	Young bool `json:"young,omitempty"`
	// Reason is the stable name of the situation of the target.
	Reason Reason `json:"reason"`
	// Because is the reason of the underlying situation, for example of the Pod that a rollout waits for. It may be
	// empty.
	Because Reason `json:"because,omitempty"`
	// Pod is the name of the Pod that a workload waits for; empty if there is no such Pod.
	Pod string `json:"pod,omitempty"`
	// Cause describes the situation in a sentence.
	Cause string `json:"cause"`
	// Advice is the recommended action in a sentence; empty if no action is required.
	Advice string `json:"advice,omitempty"`
	// Evidence lists the facts that were read and compared, in the order of the chain from the scheduler to the
	// module.
	Evidence []Evidence `json:"evidence"`
}

// Evidence is a single fact that supports an answer.
type Evidence struct {
	// About is the group of the fact: bases, base, controllers, conditions, containers, events, log, workload, pods,
	// ignored or unread.
	About string `json:"about"`
	// Text is the fact in one line. It may contain text that bases or users have written.
	Text string `json:"text"`
	// At is the time of the fact; zero means now.
	At time.Time `json:"at,omitzero"`
}

// Heading returns the title of the group in the given language.
func (e Evidence) Heading(l language.Language) string {
	if heading, found := headings[e.About]; found {
		return heading.In(l, nil)
	}
	return e.About
}

// rule explains one situation. It returns nil if the target is not in this situation.
type rule func(*explainer) *Answer

// Explain explains the target of a Snapshot. It does no I/O. Ages in the answer are relative to now.
func Explain(s *Snapshot, now time.Time) Answer { return ExplainIn(language.English, s, now) }

// ExplainIn works like Explain, but returns the texts of the answer in the given language.
func ExplainIn(l language.Language, s *Snapshot, now time.Time) Answer {
	v := newExplainer(s, now)
	v.language = l
	var a Answer
	switch {
	case s.Target.Kind == KindNode:
		a = v.first(ordinaryNode, explainLeaving, base, readyBase)
	case s.Target.workload():
		a = v.first(workloadStatus, withoutReplicas, podsNotCreated, outdatedPodNotReady, waitsForPod)
		if s.Pod != nil && slices.Contains([]Reason{RolloutStuck, PodNotReady, OutdatedPodNotReady}, a.Reason) {
			a.Pod = s.Pod.Name
		}
	default:
		a = v.first(outdatedPodNotReady, pod)
	}
	a.Target, a.Evidence = s.Target, v.evidence()
	a.Young = !a.Ready && now.Sub(s.created()) < young
	return a.redacted()
}

// young is the age below which a target that is not Ready is reported as Young.
const young = 10 * time.Second

// created returns the creation time of the target; zero for a Node.
func (s *Snapshot) created() time.Time {
	if s.Target.Kind == KindPod {
		return s.Pod.CreationTimestamp.Time
	}
	return s.workload().meta.CreationTimestamp.Time
}

// redacted returns a copy of the answer in which the credentials in URLs are masked.
func (a Answer) redacted() Answer {
	a.Cause, a.Advice = redact.Text(a.Cause), redact.Text(a.Advice)
	for i := range a.Evidence {
		a.Evidence[i].Text = redact.Text(a.Evidence[i].Text)
	}
	return a
}

// first returns the answer of the first rule that returns one, or nil.
func (v *explainer) first(rules ...rule) Answer {
	for _, r := range rules {
		if a := r(v); a != nil {
			return *a
		}
	}
	return *v.answer(msgUnknown, args{"target": v.name()})
}
