package why

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/duration"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/controller/workload"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// view is a Snapshot with what several rules ask of it.
type view struct {
	*Snapshot
	now         time.Time
	controllers []controller // sorted by holder
	places      *placement   // of a Pod without a Node; nil before it is asked for
}

// controller is a module controller, as its Lease describes it.
type controller struct {
	holder, env string
	renewed     time.Time
	live        bool
}

func newView(s *Snapshot, now time.Time) *view {
	v := &view{Snapshot: s, now: now}
	for _, l := range s.Controllers {
		c := controller{holder: ptr.Deref(l.Spec.HolderIdentity, ""), env: l.Labels[labels.Env]}
		if l.Spec.RenewTime != nil {
			c.renewed = l.Spec.RenewTime.Time
		}
		lasts := time.Duration(ptr.Deref(l.Spec.LeaseDurationSeconds, 0)) * time.Second
		c.live = now.Before(c.renewed.Add(lasts))
		v.controllers = append(v.controllers, c)
	}
	slices.SortFunc(v.controllers,
		func(a, b controller) int { return cmp.Or(cmp.Compare(a.env, b.env), cmp.Compare(a.holder, b.holder)) })
	return v
}

// live tells whether a controller runs that serves an environment; empty is any.
func (v *view) live(env string) bool {
	return slices.ContainsFunc(v.controllers, func(c controller) bool { return c.live && (env == "" || c.env == env) })
}

func (v *view) deleted() bool { return v.Pod.DeletionTimestamp != nil }
func (v *view) unbound() bool { return v.Pod.Spec.NodeName == "" }
func (v *view) bound() bool   { return !v.unbound() }

// name is what is asked about, for the beginning of a sentence.
func (v *view) name() string {
	return kindNames[v.Target.Kind] + " " + v.Target.Name
}

// baseName is how a base is called: by its host name, if that is not its Node's.
func baseName(n *corev1.Node) string { return cmp.Or(hostOf(n), n.Name) }

// onBase names the base of the Pod.
func (v *view) onBase() string {
	if v.Node == nil {
		return v.Pod.Spec.NodeName
	}
	return baseName(v.Node)
}

// podCondition is a condition of the Pod; its zero value if it has none of the type.
func podCondition(p *corev1.Pod, of corev1.PodConditionType) corev1.PodCondition {
	for _, c := range p.Status.Conditions {
		if c.Type == of {
			return c
		}
	}
	return corev1.PodCondition{}
}

// nodeCondition is the same of a Node.
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

// event is the newest Event of an object with one of the reasons.
func (v *view) event(uid string, reasons ...string) (corev1.Event, bool) {
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

// modules names the modules of the Pod.
func modules(p *corev1.Pod) string {
	containers, _ := workload.Modules(p.Spec) // the others are sidecars
	names := make([]string, len(containers))
	for i, c := range containers {
		names[i] = c.Name
	}
	return strings.Join(names, ", ")
}

// ago is how long a time is past, in kubectl's words; a clock that is ahead gives 0s.
func (v *view) ago(t time.Time) string { return duration.HumanDuration(max(v.now.Sub(t), 0)) }

// clock is a time of day with its date, in UTC.
func clock(t time.Time) string { return t.UTC().Format(time.RFC3339) }

// some joins names; of many it says the first few and how many there are.
func some(names []string) string {
	const shown = 8
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	if len(names) <= shown {
		return strings.Join(names, ", ")
	}
	return fmt.Sprintf("%s and %d more", strings.Join(names[:shown], ", "), len(names)-shown)
}

// sentence cuts what follows the first line, and the full stop.
func sentence(s string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	return strings.TrimRight(strings.TrimSpace(line), ".")
}
