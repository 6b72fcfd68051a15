package why

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/language"
)

// explainer is a Snapshot with additional values that the rules share.
type explainer struct {
	*Snapshot
	language    language.Language // language of the answer
	now         time.Time
	controllers []controller // known controllers, sorted by environment and holder
	// placement is the result of comparing all bases with a Pod that has no Node. It is nil until placed is called.
	placement *placement
	messages  []string // messages that the evidence contains
}

// controller is a module controller as described by its Lease.
type controller struct {
	holder, env string
	renewed     time.Time
	lease       time.Duration // how long the Lease is valid after it is renewed
	runs        bool          // the controller's Lease has not expired
}

func newExplainer(s *Snapshot, now time.Time) *explainer {
	v := &explainer{Snapshot: s, now: now}
	for _, l := range s.Controllers {
		c := controller{holder: ptr.Deref(l.Spec.HolderIdentity, ""), env: l.Labels[labels.Env]}
		if l.Spec.RenewTime != nil {
			c.renewed = l.Spec.RenewTime.Time
		}
		c.lease = time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second
		c.runs = now.Before(c.renewed.Add(c.lease))
		v.controllers = append(v.controllers, c)
	}
	slices.SortFunc(v.controllers,
		func(a, b controller) int { return cmp.Or(cmp.Compare(a.env, b.env), cmp.Compare(a.holder, b.holder)) })
	return v
}

// controllerRuns reports whether a controller is running for an environment. If env is empty, it considers all
// environments.
func (v *explainer) controllerRuns(env string) bool {
	return slices.ContainsFunc(v.controllers, func(c controller) bool { return c.runs && (env == "" || c.env == env) })
}

// lease returns how long a controller of an environment that has stopped may still be considered running. A Pod that
// is younger may have been created after the controller stopped.
func (v *explainer) lease(env string) (longest time.Duration) {
	for _, c := range v.controllers {
		if c.runs && c.env == env {
			longest = max(longest, c.lease)
		}
	}
	return longest
}

func (v *explainer) deleted() bool { return v.Pod.DeletionTimestamp != nil }
func (v *explainer) unbound() bool { return v.Pod.Spec.NodeName == "" }
func (v *explainer) bound() bool   { return !v.unbound() }

// name returns the kind and the name of the target, for use in texts.
func (v *explainer) name() string {
	return kindNames[v.Target.Kind] + " " + v.Target.Name
}

// baseName returns the host name of a base, or the name of its Node if the host name is not known.
func baseName(n *corev1.Node) string { return cmp.Or(hostOf(n), n.Name) }

// onBase returns the name of the base on which the Pod runs. If the Node was not read, it returns the name of the
// Node.
func (v *explainer) onBase() string {
	if v.Node == nil {
		return v.Pod.Spec.NodeName
	}
	return baseName(v.Node)
}

// podCondition returns the condition of a Pod with the given type, or the zero value if the Pod has no such
// condition.
func podCondition(p *corev1.Pod, of corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == of {
			return c
		}
	}
	return corev1.PodCondition{}
}

// nodeCondition returns the condition of a Node with the given type, or the zero value if the Node has no such
// condition.
func nodeCondition(n *corev1.Node, of corev1.NodeConditionType) corev1.NodeCondition {
	for _, c := range n.Status.Conditions {
		if c.Type == of {
			return c
		}
	}
	return corev1.NodeCondition{}
}

func podReady(p *corev1.Pod) bool {
	return podCondition(p, corev1.PodReady).Status == corev1.ConditionTrue
}

func nodeReady(n *corev1.Node) bool {
	return nodeCondition(n, corev1.NodeReady).Status == corev1.ConditionTrue
}

// event returns the newest Event about the object uid that has one of the given reasons. It returns false if there is
// none.
func (v *explainer) event(uid string, reasons ...string) (corev1.Event, bool) {
	var found corev1.Event
	ok := false
	for _, e := range v.Events {
		if string(e.InvolvedObject.UID) == uid && slices.Contains(reasons, e.Reason) &&
			(!ok || events.LastTime(&e).After(events.LastTime(&found))) {
			found, ok = e, true
		}
	}
	return found, ok
}

// modules returns the names of a Pod's modules as a text.
func modules(p *corev1.Pod) string {
	containers, _ := workload.Modules(p.Spec) // the others are sidecars
	names := make([]string, len(containers))
	for i, c := range containers {
		names[i] = c.Name
	}
	return strings.Join(names, ", ")
}

// ago formats the time since t in the same way as kubectl. If t is in the future, it returns 0s.
func (v *explainer) ago(t time.Time) string { return duration.HumanDuration(max(v.now.Sub(t), 0)) }

// clock formats a date and time in UTC.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// join formats a list of names: it sorts them and separates them by commas. If there are more than eight names, it
// lists the first eight, followed by the number of the remaining names.
func (v *explainer) join(names []string) string {
	const shown = 8
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return v.in(partMore, args{"names": strings.Join(names[:shown], ", "), "n": len(names) - shown})
}

// sentence returns the first line of a text without the final full stop.
func sentence(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimRight(strings.TrimSpace(line), ".")
}
