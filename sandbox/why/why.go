package why

import (
	"slices"
	"time"

	"github.com/koupleless/koupsandbox/controller/redact"
)

// Answer says why the target is as it is.
type Answer struct {
	// Target as it was found.
	Target Target `json:"target"`
	// Ready reports whether there is nothing to wait for.
	Ready bool `json:"ready"`
	// Young reports whether the target is not Ready and was created less than ten seconds ago. It may
	// become Ready without any action.
	Young bool `json:"young,omitempty"`
	// Reason names the situation.
	Reason Reason `json:"reason"`
	// Because is the reason of what the situation comes from, such as that of the Pod that a rollout
	// waits for. Empty: Reason says all.
	Because Reason `json:"because,omitempty"`
	// Pod that decides, of a workload; empty if none does.
	Pod string `json:"pod,omitempty"`
	// Cause says in a sentence what is so.
	Cause string `json:"cause"`
	// Advice says in a sentence what to do; empty when there is nothing to do.
	Advice string `json:"advice,omitempty"`
	// Evidence is what was compared and read, what matters most first.
	Evidence []Evidence `json:"evidence"`
}

// Evidence is one thing that was looked at.
type Evidence struct {
	// About groups it: bases, base, controllers, conditions, containers, events, log, workload, pods, ignored, unread.
	About string `json:"about"`
	// Text is one line. It may hold what bases and users have written.
	Text string `json:"text"`
	// At is when it was said; zero = it is so now.
	At time.Time `json:"at,omitzero"`
}

// finding is what a rule has found; Reason and evidence are the table's business.
type finding struct {
	cause, advice string
	ready         bool
	because       Reason
}

// rule tells one situation from all others. It returns nil if this is not it.
type rule struct {
	reason Reason
	find   func(*view) *finding
}

// Explain concludes from a Snapshot. It does no I/O; now dates what is measured in time.
func Explain(s *Snapshot, now time.Time) Answer {
	v := newView(s, now)
	rules := slices.Concat([]rule{{OutdatedPodNotReady, outdatedPodNotReady}}, podRules)
	switch {
	case s.Target.Kind == KindNode:
		rules = nodeRules
	case s.Target.workload():
		rules = workloadRules
	}
	a := v.first(rules)
	a.Target = s.Target
	a.Evidence = v.evidence()
	a.Young = !a.Ready && now.Sub(s.created()) < young
	if s.Target.workload() && s.Pod != nil && slices.Contains([]Reason{RolloutStuck, PodNotReady, OutdatedPodNotReady}, a.Reason) {
		a.Pod = s.Pod.Name
	}
	return a.redacted()
}

// young is the age up to which a target is reported as Young.
const young = 10 * time.Second

// created returns when the target was created; zero for a Node.
func (s *Snapshot) created() time.Time {
	if s.Target.Kind == KindPod {
		return s.Pod.CreationTimestamp.Time
	}
	return s.workload().meta.CreationTimestamp.Time
}

// redacted returns the answer without the credentials of URLs in its texts.
func (a Answer) redacted() Answer {
	a.Cause, a.Advice = redact.Text(a.Cause), redact.Text(a.Advice)
	for i := range a.Evidence {
		a.Evidence[i].Text = redact.Text(a.Evidence[i].Text)
	}
	return a
}

// podRules are those of a Pod, in the order of the chain. The first that finds something answers.
var podRules = slices.Concat(guarded((*view).isReady, readyRules...), kindRules, guarded((*view).deleted, deletedRules...), endRules, guarded((*view).unbound, scheduleRules...), servingRules,
	guarded((*view).bound, livenessRule), commandRules, healthRules, guarded((*view).boundToNode, leavingRule))

// guarded returns rules that find nothing unless a condition holds.
func guarded(holds func(*view) bool, rules ...rule) []rule {
	out := make([]rule, len(rules))
	for i, r := range rules {
		out[i] = rule{r.reason, func(v *view) *finding {
			if !holds(v) {
				return nil
			}
			return r.find(v)
		}}
	}
	return out
}

// when returns a finding if it is so, and nil if it is not.
func when(is bool, cause, advice string) *finding {
	if !is {
		return nil
	}
	return &finding{cause: cause, advice: advice}
}

// first returns the answer of the first rule that finds something.
func (v *view) first(rules []rule) Answer {
	if a, found := v.evaluate(rules); found {
		return a
	}
	return Answer{Reason: Unknown, Cause: v.name() + " is not Ready, and no rule explains it",
		Advice: "read the evidence, and the log of the module controller"}
}

func (v *view) evaluate(rules []rule) (Answer, bool) {
	for _, r := range rules {
		if f := r.find(v); f != nil {
			return Answer{Ready: f.ready, Reason: r.reason, Because: f.because, Cause: f.cause, Advice: f.advice}, true
		}
	}
	return Answer{}, false
}
