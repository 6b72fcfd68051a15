// Package podstatus computes the status of a Pod from the state of its modules on the base. It has no side effects.
package podstatus

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/redact"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// Of returns the status of a Pod on base b. modules are the modules of the Pod in the order of its containers.
// oldStatus is the current status in the API server. Of keeps the parts of oldStatus that other clients wrote, and the
// times of values that do not change. The times of new values are now.
func Of(pod *corev1.Pod, b base.Snapshot, modules []Module, rule FailedRule, oldStatus corev1.PodStatus,
	now time.Time) corev1.PodStatus {
	s := *oldStatus.DeepCopy()
	s.PodIP, s.HostIP = b.IP, b.IP
	s.PodIPs, s.HostIPs = nil, nil
	if b.IP != "" {
		s.PodIPs, s.HostIPs = []corev1.PodIP{{IP: b.IP}}, []corev1.HostIP{{IP: b.IP}}
	}
	if s.StartTime == nil {
		s.StartTime = ptr.To(metav1.NewTime(now))
	}
	reachable := b.Liveness == base.Reachable
	statuses := make([]corev1.ContainerStatus, 0, len(pod.Spec.Containers))
	states := make([]moduleState, 0, len(modules))
	installed, ready := true, reachable
	for _, m := range modules {
		was := findStatus(oldStatus.ContainerStatuses, m.Name)
		e := evaluate(m, was, reachable)
		states = append(states, e)
		statuses = append(statuses, containerStatus(e, was, b.IP, now))
		installed, ready = installed && e.installed, ready && e.ready
	}
	s.EphemeralContainerStatuses = ephemeralStatuses(pod.Spec.EphemeralContainers, oldStatus.EphemeralContainerStatuses,
		metav1.NewTime(now))
	s.Phase = phase(pod, oldStatus.Phase, installed, modules, rule)
	s.ContainerStatuses = withSidecars(pod, statuses, *s.StartTime, reachable && s.Phase != corev1.PodPending)
	s.InitContainerStatuses = initStatuses(pod.Spec.InitContainers, *s.StartTime, reachable)
	reason, message := notReadyReason(reachable, states, b)
	set := func(t corev1.PodConditionType, ok bool) {
		c := corev1.PodCondition{Type: t, Status: corev1.ConditionTrue}
		if !ok {
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, message
		}
		setCondition(&s, c, now)
	}
	setCurrentCondition(&s, states, now)
	set(corev1.PodInitialized, true)
	set(corev1.ContainersReady, ready)
	for _, gate := range pod.Spec.ReadinessGates {
		switch gate.ConditionType {
		case api.ConditionInstalled:
			set(api.ConditionInstalled, installed)
		case api.ConditionReady:
			set(api.ConditionReady, ready)
		default: // another controller sets it
		}
		c := Condition(&s, gate.ConditionType)
		ready = ready && c != nil && c.Status == corev1.ConditionTrue
	}
	if reason == "" {
		reason, message = api.ReasonReadinessGates, "a readiness gate of the Pod is not met"
	}
	set(corev1.PodReady, ready)
	return s
}

// FailedRule selects the Pods that become Failed when a newer version of their module replaces them on their base. In
// the Koupleless documentation (5.2, batch update), all of these Pods become Failed. However, a ReplicaSet or a
// DaemonSet replaces a Failed Pod with another Pod of the old version.
type FailedRule string

// Values of FailedRule.
const (
	FailedUnowned FailedRule = "unowned" // Pods without a controller
	FailedNever   FailedRule = "never"
	FailedAlways  FailedRule = "always"
)

// phase returns the phase of a Pod. The phase is Pending until all modules have been installed once, then Running. A
// superseded Pod becomes Failed if rule selects it, and stays Failed.
func phase(pod *corev1.Pod, oldPhase corev1.PodPhase, installed bool, modules []Module,
	rule FailedRule) corev1.PodPhase {
	superseded := slices.ContainsFunc(modules, func(m Module) bool { return m.Superseded })
	switch {
	case oldPhase == corev1.PodFailed:
		return oldPhase
	case superseded && (rule == FailedAlways || rule == FailedUnowned && metav1.GetControllerOf(pod) == nil):
		return corev1.PodFailed
	case installed, oldPhase == corev1.PodRunning:
		return corev1.PodRunning
	default:
		return corev1.PodPending
	}
}

// notReadyReason returns the reason and message of the Ready condition if a Pod is not Ready. Both are empty if all
// modules are ready.
func notReadyReason(reachable bool, states []moduleState, b base.Snapshot) (reason, message string) {
	if !reachable {
		err := errcode.New(errcode.ModuleControllerBaseInstanceNotReady, "the base has not sent a message since %s",
			b.LastSeen.UTC().Format(time.RFC3339))
		return errcode.ModuleControllerBaseInstanceNotReady.Type(), err.Error()
	}
	for _, m := range states {
		if m.ready {
			continue
		}
		w := waiting(m)
		if w.Reason == api.ReasonContainerCreating || w.Reason == api.ReasonResolved {
			reason, message = api.ReasonContainersNotReady, "waiting for module "+m.Identity()
			continue // another container may have a more specific reason
		}
		return w.Reason, w.Message
	}
	return reason, message
}

// isDeactivated reports whether the module of a container is inactive because a newer Pod has replaced the Pod.
func isDeactivated(c corev1.ContainerStatus) bool {
	return c.State.Waiting != nil && c.State.Waiting.Reason == api.ReasonDeactivated
}

// IsSuperseded reports whether a Pod is Not Ready only because newer Pods have replaced it.
func IsSuperseded(s *corev1.PodStatus) bool {
	return slices.ContainsFunc(s.ContainerStatuses, isDeactivated) &&
		!slices.ContainsFunc(s.ContainerStatuses,
			func(c corev1.ContainerStatus) bool { return !c.Ready && !isDeactivated(c) })
}

func containerStatus(m moduleState, oldStatus *corev1.ContainerStatus, ip string,
	now time.Time) corev1.ContainerStatus {
	c := corev1.ContainerStatus{Name: m.Name, Image: m.URL, Started: ptr.To(false)}
	started := metav1.NewTime(m.Biz.Latest.At)
	if m.serving == servesPrevious { // was is not nil
		c = *oldStatus.DeepCopy()
		started = metav1.NewTime(now)
	} else if m.hasRequestedJar() || m.wasReady || m.installedForPod {
		c.Image = cmp.Or(m.InstalledURL, m.URL)
		c.ContainerID, c.ImageID = workload.ContainerID(ip, m.Name, m.Version), c.Image
	}
	switch {
	case m.serving == servesPrevious && c.Ready: // keeps its state
	case m.serving != servesNothing:
		c.Started, c.State = ptr.To(true), corev1.ContainerState{
			Running: &corev1.ContainerStateRunning{StartedAt: started}}
	case m.Listed && m.Biz.State == arklet.StateStopped:
		c.State.Terminated = &corev1.ContainerStateTerminated{
			ExitCode: 1, Reason: m.Biz.Latest.Reason, Message: m.Biz.Latest.Message, StartedAt: started,
			FinishedAt: started, ContainerID: c.ContainerID,
		}
	default:
		c.State.Waiting = waiting(m)
	}
	c.Ready = m.ready
	if oldStatus != nil {
		updateRestarts(&c, *oldStatus, m, now)
	}
	return c
}

// waiting returns the waiting state, with reason and message, for the container of a module that is not ready.
func waiting(m moduleState) *corev1.ContainerStateWaiting {
	state := func(reason, message string) *corev1.ContainerStateWaiting {
		return &corev1.ContainerStateWaiting{Reason: reason, Message: message}
	}
	switch {
	case m.Invalid != nil:
		return state(errcode.Of(m.Invalid).Type(), errcode.Message(m.Invalid))
	case m.Superseded && (!m.Listed || m.Biz.State == arklet.StateActivated || m.Biz.State == arklet.StateDeactivated):
		return state(api.ReasonDeactivated, "a newer Pod of module "+m.Name+" is active on this base")
	case m.serving != servesNothing && m.NotReadyReason != "":
		return state(api.ReasonContainersNotReady, m.Identity()+": "+m.NotReadyReason)
	case m.Failure != nil:
		return state(errcode.Of(m.Failure).Type(), errcode.Message(m.Failure))
	case m.Replacing, m.Listed && !m.hasRequestedJar():
		return state(api.ReasonReplacing,
			"this version was installed from another image: it will be uninstalled and installed again, one base at a "+
				"time; set a new BIZ_VERSION to release without downtime")
	case !m.Listed, m.Uninstalling:
		return state(api.ReasonContainerCreating, "")
	}
	record := strings.TrimSpace(m.Biz.Latest.Reason + " " + arklet.FirstLine(m.Biz.Latest.Message))
	switch m.Biz.State {
	case arklet.StateDeactivated:
		return state(api.ReasonNotActivated,
			"the base keeps this version deactivated while another version is active ("+record+
				"); start the base with -Dactivate.new.module=true, or connect it over HTTP")
	case arklet.StateBroken:
		return state(api.ReasonBroken, record)
	default:
		return state(api.ReasonResolved, record)
	}
}

// setCurrentCondition sets the condition api.ConditionCurrent, which shows whether the base has the jars that the Pod
// requests, and how these jars were installed.
func setCurrentCondition(s *corev1.PodStatus, states []moduleState, now time.Time) {
	c := corev1.PodCondition{Type: api.ConditionCurrent, Status: corev1.ConditionTrue}
	var messages []string
	for _, m := range states {
		if m.Invalid != nil || m.serving == servesPrevious || !m.hasRequestedJar() && !m.wasReady {
			return // the jar is not known yet
		}
		o := m.Origin
		switch {
		case !m.hasRequestedJar():
			c.Status, c.Reason = corev1.ConditionFalse, api.ReasonReplacing
			messages = append(messages, m.Identity()+" is still installed from "+redact.URL(m.InstalledURL))
			continue
		case o == "":
			if Condition(s, api.ConditionCurrent) != nil {
				return // an earlier controller has set it
			}
			o = api.ReasonUnchanged
		}
		if c.Status == corev1.ConditionTrue && (c.Reason == "" || o != api.ReasonUnchanged) {
			c.Reason = o
		}
		messages = append(messages, m.Identity()+" "+map[string]string{
			api.ReasonInstalled: "was installed for this Pod",
			api.ReasonReplacedInPlace: "was uninstalled and installed again, because its image changed and " +
				"BIZ_VERSION did not",
			api.ReasonUnchanged: "was already installed, so no command was sent; to release another jar, set a new " +
				"BIZ_VERSION",
		}[o])
	}
	c.Message = strings.Join(messages, "; ")
	setCondition(s, c, now)
}

// Completed returns the status of a Pod whose modules were all uninstalled. All containers are terminated. The phase
// is Succeeded, or Failed if it was already Failed.
func Completed(oldStatus corev1.PodStatus, now time.Time) corev1.PodStatus {
	s := *oldStatus.DeepCopy()
	if s.Phase != corev1.PodFailed {
		s.Phase = corev1.PodSucceeded
	}
	for _, statuses := range [][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses} {
		for i := range statuses {
			c := &statuses[i]
			if c.State.Terminated != nil {
				continue
			}
			t := &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: metav1.NewTime(now),
				StartedAt: metav1.NewTime(now), ContainerID: c.ContainerID}
			if c.State.Running != nil {
				t.StartedAt = c.State.Running.StartedAt
			}
			c.Ready, c.Started, c.State = false, ptr.To(false), corev1.ContainerState{Terminated: t}
		}
	}
	for _, t := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady, api.ConditionReady,
		api.ConditionInstalled} {
		if Condition(&s, t) != nil {
			setCondition(&s, corev1.PodCondition{Type: t, Status: corev1.ConditionFalse,
				Reason: api.ReasonPodCompleted}, now)
		}
	}
	return s
}

// updateRestarts sets the restart count and the last termination state of a container, as the kubelet does. A module
// restarts when it is installed again: its jar was replaced, its liveness probe failed, its base restarted, or another
// client uninstalled it. A switch to another version and back is not a restart.
func updateRestarts(c *corev1.ContainerStatus, oldStatus corev1.ContainerStatus, m moduleState, now time.Time) {
	c.RestartCount, c.LastTerminationState = oldStatus.RestartCount, oldStatus.LastTerminationState
	was, is, last := oldStatus.State.Running, c.State.Running, c.LastTerminationState.Terminated
	if was != nil && is != nil && is.StartedAt.Unix() == was.StartedAt.Unix() {
		is.StartedAt = was.StartedAt // the API has a precision of seconds
		return
	}
	switched := m.Listed && (m.Biz.State == arklet.StateDeactivated || m.Biz.Latest.Reason == arklet.ReasonSwitched)
	if was != nil && !switched {
		last = &corev1.ContainerStateTerminated{
			ExitCode: 1, Reason: api.ReasonGone,
			Message:   "the module is no longer on the base, or is being installed again",
			StartedAt: was.StartedAt, FinishedAt: metav1.NewTime(now), ContainerID: oldStatus.ContainerID,
		}
		c.LastTerminationState.Terminated = last
	}
	if is == nil || last == nil || switched {
		return
	}
	if is.StartedAt.Unix() == last.StartedAt.Unix() { // it has not restarted
		c.LastTerminationState.Terminated = nil
		return
	}
	c.RestartCount++
}

// Condition returns a condition of a Pod, or nil if the Pod does not have the condition.
func Condition(s *corev1.PodStatus, t corev1.PodConditionType) *corev1.PodCondition {
	i := slices.IndexFunc(s.Conditions, func(c corev1.PodCondition) bool { return c.Type == t })
	if i < 0 {
		return nil
	}
	return &s.Conditions[i]
}

// setCondition sets a condition. It changes the transition time only if the status of the condition changes.
func setCondition(s *corev1.PodStatus, c corev1.PodCondition, now time.Time) {
	c.LastTransitionTime = metav1.NewTime(now)
	have := Condition(s, c.Type)
	if have == nil {
		s.Conditions = append(s.Conditions, c)
		return
	}
	if have.Status == c.Status {
		c.LastTransitionTime, c.LastProbeTime = have.LastTransitionTime, have.LastProbeTime
	}
	*have = c
}

// IsReady reports whether the Ready condition is True.
func IsReady(s *corev1.PodStatus) bool {
	c := Condition(s, corev1.PodReady)
	return c != nil && c.Status == corev1.ConditionTrue
}
