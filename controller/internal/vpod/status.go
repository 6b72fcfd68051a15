package vpod

import (
	"cmp"
	"slices"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/equality"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/plan"
	"github.com/koupleless/koupsandbox/controller/redact"
	"github.com/koupleless/koupsandbox/controller/workload"
)

// moduleState is what there is to say about one container of a Pod.
type moduleState struct {
	module
	biz   arklet.Biz
	there bool // the base lists it
	// superseded: a newer Pod of the module serves here, by another version or another jar.
	superseded bool
	// url is the jar that the base has of this version; empty if it is not known, or does not
	// matter.
	url string
	// unready is why its probes keep it from being Ready; empty if they do not.
	unready string
	// replacing: it is about to be replaced by another jar of its version.
	replacing bool
	// removing: it is being uninstalled, for whatever reason.
	removing bool
	failure  error // what went wrong last; nil if nothing did
	origin   origin
	// earlier is the version that the Pod had here before it was changed in place, while that is
	// active; else empty.
	earlier string
	// overtaken: the base switched to a version that no Pod wants any more, and what is wanted, by this
	// Pod or a newer one, is on its way.
	overtaken bool
	// wasReady: the Pod was Ready with the jar that is there, under its version or the earlier one.
	wasReady, earlierGoesOn bool
	// had: what is there came onto the base for this Pod, whatever it asks for now.
	had bool
}

// origin is how a module got onto its base, as far as this controller saw it.
type origin string

// The origins, which are reasons of the condition api.ConditionCurrent.
const (
	originUnknown   origin = ""
	originInstalled origin = api.ReasonInstalled
	originReplaced  origin = api.ReasonReplacedInPlace
	originUnchanged origin = api.ReasonUnchanged // it was there
)

// current says whether the base has the very jar that the container names, as far as is known.
func (s moduleState) current() bool { return s.there && (s.url == "" || s.url == s.URL) }

// ready says whether requests to the module reach this very version. A Pod that was changed in place
// stays Ready with what it had until that is replaced, or what comes instead fails.
func (s moduleState) ready() bool { return s.serves() && s.unready == "" }

// serves is ready, but for the probes.
func (s moduleState) serves() bool {
	if s.earlierGoesOn {
		return true
	}
	return s.invalid == nil && s.there && s.biz.State == arklet.StateActivated && !s.superseded && !s.replacing && !s.removing && (s.current() || s.wasReady)
}

// started says whether the module has been installed, whatever became of it.
func (s moduleState) started() bool {
	return s.current() && !s.removing && !s.biz.Installing()
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
	statuses := make([]corev1.ContainerStatus, 0, len(pod.Spec.Containers))
	installed, ready := true, alive
	for i, m := range modules {
		was := containerNamed(before.ContainerStatuses, m.Name)
		if was != nil {
			m.lookBack(*was)
			modules[i] = m
		}
		c := containerStatus(m, b.IP)
		if m.earlierGoesOn {
			c = goesOn(*was, now)
		}
		c.Ready = c.Ready && alive
		if was != nil {
			carryOver(&c, *was, m, now)
		}
		statuses = append(statuses, c)
		installed, ready = installed && m.started(), ready && c.Ready
	}
	s.EphemeralContainerStatuses = refuseDebug(pod.Spec.EphemeralContainers, before.EphemeralContainerStatuses, metav1.NewTime(now))
	s.Phase = phase(pod, before.Phase, installed, modules, rule)
	s.ContainerStatuses = withSidecars(pod, statuses, *s.StartTime, alive && s.Phase != corev1.PodPending)
	s.InitContainerStatuses = initStatuses(pod.Spec.InitContainers, *s.StartTime, alive)
	reason, message := why(alive, modules, b)
	set := func(t corev1.PodConditionType, ok bool) {
		c := corev1.PodCondition{Type: t, Status: corev1.ConditionTrue}
		if !ok {
			c.Status, c.Reason, c.Message = corev1.ConditionFalse, reason, message
		}
		setCondition(&s, c, now)
	}
	setCurrent(&s, modules, now)
	set(corev1.PodInitialized, true)
	set(corev1.ContainersReady, ready)
	for _, gate := range pod.Spec.ReadinessGates {
		switch gate.ConditionType {
		case api.ConditionInstalled:
			set(api.ConditionInstalled, installed)
		case api.ConditionReady:
			set(api.ConditionReady, ready)
		default: // somebody else's
		}
		c := condition(&s, gate.ConditionType)
		ready = ready && c != nil && c.Status == corev1.ConditionTrue
	}
	if reason == "" {
		reason, message = api.ReasonReadinessGates, "a readiness gate of the Pod is not met"
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
		if w.Reason == api.ReasonContainerCreating || w.Reason == api.ReasonResolved {
			reason, message = api.ReasonContainersNotReady, "waiting for module "+m.Identity()
			continue // another container may know more
		}
		return w.Reason, w.Message
	}
	return reason, message
}

// lookBack finds out what the Pod was Ready with.
func (s *moduleState) lookBack(was corev1.ContainerStatus) {
	version, _ := onBase(was)
	s.had = s.there && s.url != "" && was.ImageID == s.url && version == s.Version
	s.wasReady = was.Ready && was.ImageID == s.url
	if (was.Ready || isDeactivated(was)) && // it gave way to a Pod that is gone
		s.overtaken && !s.superseded && s.invalid == nil && version == s.Version {
		s.earlierGoesOn = true
		return
	}
	s.earlierGoesOn = was.Ready && s.earlier != "" && version == s.earlier && s.failure == nil && s.invalid == nil && !s.superseded &&
		(!s.there || s.biz.State != arklet.StateActivated)
}

// isDeactivated says whether a container gave way to that of a newer Pod.
func isDeactivated(c corev1.ContainerStatus) bool {
	return c.State.Waiting != nil && c.State.Waiting.Reason == api.ReasonDeactivated
}

// gaveWay says whether a Pod is Not Ready only because its containers gave way.
func gaveWay(s *corev1.PodStatus) bool {
	return slices.ContainsFunc(s.ContainerStatuses, isDeactivated) &&
		!slices.ContainsFunc(s.ContainerStatuses, func(c corev1.ContainerStatus) bool { return !c.Ready && !isDeactivated(c) })
}

// goesOn is the status of a container that is Ready with what it had, or is so again: the Pod that it gave
// way to is gone.
func goesOn(was corev1.ContainerStatus, now time.Time) corev1.ContainerStatus {
	c := *was.DeepCopy() // what was is the informer's
	if !c.Ready {
		c.Ready, c.Started = true, ptr.To(true)
		c.State = corev1.ContainerState{Running: &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(now)}}
	}
	return c
}

func containerStatus(m moduleState, ip string) corev1.ContainerStatus {
	c := corev1.ContainerStatus{Name: m.Name, Image: m.URL, Started: ptr.To(false)}
	if m.current() || m.wasReady || m.had {
		c.Image = cmp.Or(m.url, m.URL)
		c.ContainerID, c.ImageID = workload.ContainerID(ip, m.Name, m.Version), c.Image
	}
	switch {
	case m.ready():
		c.Ready, c.Started = true, ptr.To(true)
		c.State.Running = &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(m.biz.Latest.At)}
	case m.serves(): // but for its probes
		c.Started, c.State.Running = ptr.To(true), &corev1.ContainerStateRunning{StartedAt: metav1.NewTime(m.biz.Latest.At)}
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
		return state(api.ReasonDeactivated, "a newer Pod of module "+m.Name+" serves on this base")
	case m.serves() && m.unready != "":
		return state(api.ReasonContainersNotReady, m.Identity()+": "+m.unready)
	case m.failure != nil:
		return state(errcode.Of(m.failure).Type(), errcode.Message(m.failure))
	case m.replacing, m.there && !m.current():
		return state(api.ReasonReplacing, "the base has this version from another image: it is uninstalled and installed again, one base after the other; a new BIZ_VERSION is released without a gap")
	case !m.there, m.removing:
		return state(api.ReasonContainerCreating, "")
	}
	record := strings.TrimSpace(m.biz.Latest.Reason + " " + firstLine(m.biz.Latest.Message))
	switch m.biz.State {
	case arklet.StateDeactivated:
		return state(api.ReasonNotActivated, "the base keeps this version deactivated while another one serves ("+record+"); start the base with -Dactivate.new.module=true, or connect it over HTTP")
	case arklet.StateBroken:
		return state(api.ReasonBroken, record)
	default:
		return state(api.ReasonResolved, record)
	}
}

// setCurrent says whether the modules on the base are those that the Pod names, and how they got
// there. A Pod changes nothing when the base had them already.
func setCurrent(s *corev1.PodStatus, modules []moduleState, now time.Time) {
	c := corev1.PodCondition{Type: api.ConditionCurrent, Status: corev1.ConditionTrue}
	var said []string
	for _, m := range modules {
		if m.invalid != nil || m.earlierGoesOn || !m.current() && !m.wasReady {
			return // nothing to say yet
		}
		o := m.origin
		switch {
		case !m.current():
			c.Status, c.Reason = corev1.ConditionFalse, api.ReasonReplacing
			said = append(said, m.Identity()+" is still installed from "+redact.URL(m.url))
			continue
		case o == originUnknown:
			if condition(s, api.ConditionCurrent) != nil {
				return // an earlier controller may know
			}
			o = originUnchanged
		}
		if c.Status == corev1.ConditionTrue && (c.Reason == "" || o != originUnchanged) {
			c.Reason = string(o)
		}
		said = append(said, m.Identity()+" "+map[origin]string{
			originInstalled: "was installed for this Pod",
			originReplaced:  "was uninstalled and installed again, since its image changed and BIZ_VERSION did not",
			originUnchanged: "was on the base already: nothing was sent; to release another jar, raise BIZ_VERSION",
		}[o])
	}
	c.Message = strings.Join(said, "; ")
	setCondition(s, c, now)
}

// endedStatus is the status of a deleted Pod of which nothing is left on its base.
func endedStatus(before corev1.PodStatus, now time.Time) corev1.PodStatus {
	s := *before.DeepCopy()
	if s.Phase != corev1.PodFailed {
		s.Phase = corev1.PodSucceeded
	}
	for _, statuses := range [][]corev1.ContainerStatus{s.ContainerStatuses, s.InitContainerStatuses} {
		for i := range statuses {
			c := &statuses[i]
			if c.State.Terminated != nil {
				continue
			}
			t := &corev1.ContainerStateTerminated{Reason: "Completed", FinishedAt: metav1.NewTime(now), StartedAt: metav1.NewTime(now), ContainerID: c.ContainerID}
			if c.State.Running != nil {
				t.StartedAt = c.State.Running.StartedAt
			}
			c.Ready, c.Started, c.State = false, ptr.To(false), corev1.ContainerState{Terminated: t}
		}
	}
	for _, t := range []corev1.PodConditionType{corev1.PodReady, corev1.ContainersReady, api.ConditionReady, api.ConditionInstalled} {
		if condition(&s, t) != nil {
			setCondition(&s, corev1.PodCondition{Type: t, Status: corev1.ConditionFalse, Reason: api.ReasonPodCompleted}, now)
		}
	}
	return s
}

func firstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// carryOver takes over from the status before what lasts: how often the module has started for the Pod
// again, as with a kubelet, and how it ended last. It ends when it is installed anew: its jar was
// replaced, its liveness probe failed, its base's process is another, or somebody took it away. A
// module from which a base has switched away, and back, has not ended.
func carryOver(c *corev1.ContainerStatus, before corev1.ContainerStatus, m moduleState, now time.Time) {
	c.RestartCount, c.LastTerminationState = before.RestartCount, before.LastTerminationState
	was, is, last := before.State.Running, c.State.Running, c.LastTerminationState.Terminated
	if was != nil && is != nil && is.StartedAt.Unix() == was.StartedAt.Unix() {
		is.StartedAt = was.StartedAt // the API keeps seconds: an unchanged module makes no new status
		return
	}
	switched := m.there && (m.biz.State == arklet.StateDeactivated || m.biz.Latest.Reason == plan.ReasonSwitched)
	if was != nil && !switched {
		last = &corev1.ContainerStateTerminated{
			ExitCode: 1, Reason: api.ReasonGone, Message: "the module left the base, or was taken out of service to be installed again",
			StartedAt: was.StartedAt, FinishedAt: metav1.NewTime(now), ContainerID: before.ContainerID,
		}
		c.LastTerminationState.Terminated = last
	}
	if is == nil || last == nil || switched {
		return
	}
	if is.StartedAt.Unix() == last.StartedAt.Unix() { // it has gone on
		c.LastTerminationState.Terminated = nil
		return
	}
	c.RestartCount++
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
