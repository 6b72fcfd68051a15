package vpod

import (
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/labels"
)

// Reasons of containers and conditions beside the types of error codes.
const (
	// ReasonDeactivated is the documents' word for a module that a newer version of it on the same
	// base replaced (document 5.2, batch update).
	ReasonDeactivated = "BizDeactivate"
	// ReasonNotActivated is a new version that the base keeps deactivated beside the old one.
	ReasonNotActivated = "BizNotActivated"
	reasonCreating     = "ContainerCreating"
	reasonResolved     = "BizResolved"
	reasonBroken       = "BizBroken"
	reasonNotReady     = "ContainersNotReady"
)

// moduleState is what there is to say about one container of a Pod.
type moduleState struct {
	module
	biz   arklet.Biz
	there bool // the base lists it
	// superseded: a newer Pod of the module on this base serves another version, or will.
	superseded bool
	failure    failure
}

// ready says whether requests to the module reach this very version.
func (s moduleState) ready() bool {
	return s.invalid == nil && s.there && s.biz.State == arklet.StateActivated && !s.superseded
}

// started says whether the module has been installed, whatever became of it.
func (s moduleState) started() bool {
	return s.there && s.biz.State != arklet.StateResolved && s.biz.State != arklet.StateUnresolved
}

// statusOf computes the status of a Pod from what its base says. before is the status that the API
// server has: what others wrote there stays, and times change only with what they date. now dates
// what is new.
func statusOf(pod *corev1.Pod, b base.Snapshot, modules []moduleState, rule FailedRule, before corev1.PodStatus, now time.Time) corev1.PodStatus {
	s := *before.DeepCopy()
	s.PodIP, s.HostIP = b.IP, b.IP
	s.PodIPs, s.HostIPs = nil, nil
	if b.IP != "" {
		s.PodIPs, s.HostIPs = []corev1.PodIP{{IP: b.IP}}, []corev1.HostIP{{IP: b.IP}}
	}
	if s.StartTime == nil {
		s.StartTime = ptr.To(metav1.NewTime(now))
	}
	alive := b.Liveness == base.Alive
	s.ContainerStatuses = make([]corev1.ContainerStatus, 0, len(modules))
	installed, ready := true, alive
	for i, m := range modules {
		c := containerStatus(m, b.IP)
		c.Ready = c.Ready && alive
		if i < len(before.ContainerStatuses) {
			keepTimes(&c, before.ContainerStatuses[i])
		}
		s.ContainerStatuses = append(s.ContainerStatuses, c)
		installed, ready = installed && m.started(), ready && c.Ready
	}
	s.Phase = phase(pod, before.Phase, installed, modules, rule)
	reason, message := why(alive, modules, b)
	set := func(t corev1.PodConditionType, ok bool) {
		c := corev1.PodCondition{Type: t, Status: corev1.ConditionTrue}
		if !ok {
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, message
		}
		setCondition(&s, c, now)
	}
	set(corev1.PodInitialized, true)
	set(corev1.ContainersReady, ready)
	for _, gate := range pod.Spec.ReadinessGates {
		switch gate.ConditionType {
		case labels.ConditionInstalled:
			set(labels.ConditionInstalled, installed)
		case labels.ConditionReady:
			set(labels.ConditionReady, ready)
		default: // somebody else's
		}
		c := condition(&s, gate.ConditionType)
		ready = ready && c != nil && c.Status == corev1.ConditionTrue
	}
	if reason == "" {
		reason, message = "ReadinessGatesNotReady", "a readiness gate of the Pod is not met"
	}
	set(corev1.PodReady, ready)
	return s
}

// FailedRule says which Pods turn Failed when a newer version of their module serves on their base.
// The documents (5.2, batch update) have it so for all; but a ReplicaSet makes a new Pod for each
// Failed one, with the old version again, and never deletes the Failed one, so that its module
// stays installed. So does a DaemonSet.
type FailedRule string

// The rules.
const (
	// FailedUnowned: Pods without a controller; whoever updates those in batches makes and deletes
	// them. The default.
	FailedUnowned FailedRule = "unowned"
	// FailedNever: no Pod.
	FailedNever FailedRule = "never"
	// FailedAlways: every Pod, as the documents have it.
	FailedAlways FailedRule = "always"
)

// phase of a Pod: it is Pending until all its modules have been installed once, Running then, and
// Failed for ever once the rule made it so.
func phase(pod *corev1.Pod, before corev1.PodPhase, installed bool, modules []moduleState, rule FailedRule) corev1.PodPhase {
	superseded := slices.ContainsFunc(modules, func(s moduleState) bool { return s.superseded })
	switch {
	case before == corev1.PodFailed:
		return before
	case superseded && (rule == FailedAlways || rule == FailedUnowned && metav1.GetControllerOf(pod) == nil):
		return corev1.PodFailed
	case installed, before == corev1.PodRunning:
		return corev1.PodRunning
	default:
		return corev1.PodPending
	}
}

// why says in one reason and one message why a Pod is not ready; both are empty when it is.
func why(alive bool, modules []moduleState, b base.Snapshot) (reason, message string) {
	if !alive {
		err := errcode.New(errcode.ModuleControllerBaseInstanceNotReady, "no sign of life of the base since %s", b.LastSeen.UTC().Format(time.RFC3339))
		return errcode.ModuleControllerBaseInstanceNotReady.Type(), err.Error()
	}
	for _, m := range modules {
		if m.ready() {
			continue
		}
		w := waiting(m)
		if w.Reason == reasonCreating || w.Reason == reasonResolved {
			reason, message = reasonNotReady, "waiting for module "+m.Identity()
			continue // another container may know more
		}
		return w.Reason, w.Message
	}
	return reason, message
}

func containerStatus(m moduleState, ip string) corev1.ContainerStatus {
	c := corev1.ContainerStatus{Name: m.Name, Image: m.URL, Started: ptr.To(false)}
	if m.there {
		c.ContainerID, c.ImageID = containerID(ip, m.Module), m.URL
	}
	switch {
	case m.ready():
		c.Ready, c.Started = true, ptr.To(true)
		c.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(m.biz.Latest.At)}
	case m.there && m.biz.State == arklet.StateStopped:
		at := metav1.NewTime(m.biz.Latest.At)
		c.State.Terminated = &corev1.ContainerStateTerminated{ExitCode: 1, Reason: m.biz.Latest.Reason, Message: m.biz.Latest.Message, StartedAt: at, FinishedAt: at, ContainerID: c.ContainerID}
	default:
		c.State.Waiting = waiting(m)
	}
	return c
}

// waiting says why a module does not serve.
func waiting(m moduleState) *corev1.ContainerStateWaiting {
	state := func(reason, message string) *corev1.ContainerStateWaiting {
		return &corev1.ContainerStateWaiting{Reason: reason, Message: message}
	}
	switch {
	case m.invalid != nil:
		return state(errcode.Of(m.invalid).Type(), errcode.Message(m.invalid))
	case m.superseded && (!m.there || m.biz.State == arklet.StateActivated || m.biz.State == arklet.StateDeactivated):
		return state(ReasonDeactivated, "a newer Pod of module "+m.Name+" serves on this base")
	case m.failure.err != nil:
		return state(errcode.Of(m.failure.err).Type(), errcode.Message(m.failure.err))
	case !m.there:
		return state(reasonCreating, "")
	}
	record := strings.TrimSpace(m.biz.Latest.Reason + " " + firstLine(m.biz.Latest.Message))
	switch m.biz.State {
	case arklet.StateDeactivated:
		return state(ReasonNotActivated, "the base keeps this version deactivated while another one serves ("+record+"); start the base with -Dactivate.new.module=true, or connect it over HTTP")
	case arklet.StateBroken:
		return state(reasonBroken, record)
	default:
		return state(reasonResolved, record)
	}
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// keepTimes keeps a container's start as it was written, to the second that the API keeps, so that
// an unchanged module makes no new status.
func keepTimes(c *corev1.ContainerStatus, before corev1.ContainerStatus) {
	if c.State.Running != nil && before.State.Running != nil && c.State.Running.StartedAt.Unix() == before.State.Running.StartedAt.Unix() {
		c.State.Running.StartedAt = before.State.Running.StartedAt
	}
}

func condition(s *corev1.PodStatus, t corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == t })
	if i < 0 {
		return nil
	}
	return &s.Conditions[i]
}

// setCondition merges a condition: the transition time changes only with the status.
func setCondition(s *corev1.PodStatus, c corev1.PodCondition, now time.Time) {
	c.LastTransitionTime = metav1.NewTime(now)
	have := condition(s, c.Type)
	if have == nil {
		s.Conditions = append(s.Conditions, c)
		return
	}
	if have.Status == c.Status {
		c.LastTransitionTime, c.LastProbeTime = have.LastTransitionTime, have.LastProbeTime
	}
	*have = c
}

func isReady(s *corev1.PodStatus) bool {
	c := condition(s, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}

func sameStatus(a, b corev1.PodStatus) bool { return equality.Semantic.DeepEqual(a, b) }
