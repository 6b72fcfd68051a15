package incluster

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

const (
	// crashLoop is the reason that Kubernetes reports while a container waits in restart back-off.
	crashLoop = "CrashLoopBackOff"
	// killedStatus is the exit status of a process that was terminated by SIGKILL.
	killedStatus = 128 + 9
	killedText   = "signal: killed"

	reasonNoPod    = "no Pod yet"
	reasonDeleting = "the Pod is being deleted"
)

// Replica is the state of a controller, as derived from its Pod.
type Replica struct {
	// Number is the number of the controller, from 1; see runner.ComponentName.
	Number int
	// Pod is the name of the controller's Pod; empty if there is no Pod.
	Pod string
	// State is the state of the container. It is Exited if the container has never started.
	State supervise.State
	// Ready reports whether the Pod is Ready. Reason is the reason why the Pod is not Ready.
	Ready  bool
	Reason string
	// Since is the start time of the container. It is zero if the container is not running.
	Since time.Time
	// Heartbeats is the host:port at which the controller receives HTTP heartbeats; empty if it does not receive any.
	Heartbeats string

	node, container string
	restarts        int32
	revision        string // Settings.revision of the settings of the Pod
	lastExit        string // how the previous container exited
	endedAt         time.Time
	killed          bool // whether the previous container was killed with SIGKILL
	inBackOff       bool // whether the kubelet delays the restart of the container
	deleting        bool
	stopped         bool
}

// ChangeKind is the kind of change in a ReplicaChange.
type ChangeKind string

// The values of ChangeKind.
const (
	Started         ChangeKind = "Started"
	Restarted       ChangeKind = "Restarted" // by the kubelet
	BecameReady     ChangeKind = "BecameReady"
	BecameNotReady  ChangeKind = "BecameNotReady"
	Paused          ChangeKind = "Paused"
	Resumed         ChangeKind = "Resumed"
	HeartbeatsMoved ChangeKind = "HeartbeatsMoved"
	Ended           ChangeKind = "Ended"
	Deleted         ChangeKind = "Deleted"
)

// ReplicaChange is a state change of a controller. The embedded Replica is the state after the change.
type ReplicaChange struct {
	Kind ChangeKind
	Replica
}

// Message describes the change in a sentence that contains the name of the Pod.
func (c ReplicaChange) Message() string {
	text := map[ChangeKind]string{
		Started: "is running", BecameReady: "is ready", Paused: "is paused", Resumed: "was resumed", Ended: "has ended",
		Deleted:         "was deleted",
		Restarted:       fmt.Sprintf("was restarted by the kubelet (%s)", plain.Count(int(c.restarts), "restart")),
		BecameNotReady:  "is not ready: " + c.Reason,
		HeartbeatsMoved: "receives heartbeats at " + c.Heartbeats,
	}[c.Kind]
	if c.Kind == Ended && c.Reason != "" {
		text += ": " + c.Reason
	}
	return fmt.Sprintf("Pod %s %s", c.Pod, text)
}

// containerMark records an action on a container. It is needed because the API shows the effect of the action late or
// not at all.
type containerMark int

const (
	markPaused containerMark = iota + 1
	markKilled
)

// statusOf returns the status of the only container in a Pod. The status is empty until the kubelet has reported it.
func statusOf(p *corev1.Pod) *corev1.ContainerStatus {
	if len(p.Status.ContainerStatuses) == 0 {
		return &corev1.ContainerStatus{}
	}
	return &p.Status.ContainerStatuses[0]
}

// isTerminating reports whether a Pod is being deleted or has ended, so that the Deployment replaces it.
func isTerminating(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

// containerID returns the part ID of a string of the form containerd://ID.
func containerID(id string) string {
	_, id, _ = strings.Cut(id, "://")
	return id
}

// replicaOf returns the state of a controller, derived from its Pod p, which is nil if there is no Pod.
func replicaOf(number int, p *corev1.Pod, marks map[string]containerMark, port int32, stopped bool) Replica {
	r := Replica{Number: number, State: supervise.Exited, stopped: stopped}
	if p == nil {
		r.Reason = reasonNoPod
		if stopped {
			r.Reason = "stopped"
		}
		return r
	}
	s := statusOf(p)
	r.Pod, r.node, r.restarts, r.container = p.Name, p.Spec.NodeName, s.RestartCount, containerID(s.ContainerID)
	r.revision, r.deleting = p.Annotations[revisionAnnotation], isTerminating(p)
	if last := s.LastTerminationState.Terminated; last != nil {
		r.lastExit, r.endedAt, r.killed = exitText(last), last.FinishedAt.Time, last.ExitCode == killedStatus
	}
	switch {
	case s.State.Running != nil && marks[s.ContainerID] == markKilled:
		r.Reason, r.lastExit, r.killed = killedText, killedText, true
	case s.State.Running != nil:
		r.State, r.Since = supervise.Running, s.State.Running.StartedAt.Time
		r.Ready = isReady(p) && !r.deleting
		if p.Status.HostIP != "" && port != 0 && !r.deleting {
			r.Heartbeats = net.JoinHostPort(p.Status.HostIP, strconv.Itoa(int(port)))
		}
		if marks[s.ContainerID] == markPaused {
			r.State, r.Ready, r.Reason = supervise.Paused, false, "paused"
		}
	case s.State.Terminated != nil:
		r.lastExit, r.killed = exitText(s.State.Terminated), s.State.Terminated.ExitCode == killedStatus
		r.Reason = r.lastExit
	case s.State.Waiting != nil:
		r.inBackOff = s.State.Waiting.Reason == crashLoop
	}
	if r.Reason == "" && !r.Ready {
		r.Reason = notReady(p, s)
	}
	return r
}

func isReady(p *corev1.Pod) bool {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// notReady returns the reason why a Pod is not ready.
func notReady(p *corev1.Pod, s *corev1.ContainerStatus) string {
	if p.DeletionTimestamp != nil {
		return reasonDeleting
	}
	if w := s.State.Waiting; w != nil && w.Message != "" {
		return fmt.Sprintf("%s: %s", w.Reason, w.Message)
	}
	for _, condition := range p.Status.Conditions {
		if condition.Status == corev1.ConditionFalse && condition.Message != "" {
			return condition.Message
		}
	}
	return fmt.Sprintf("the Pod is %s", p.Status.Phase)
}

// exitText describes how a container exited, in the format that package supervise uses for the exit of a process.
func exitText(t *corev1.ContainerStateTerminated) string {
	text := fmt.Sprintf("exit status %d", t.ExitCode)
	if t.ExitCode == killedStatus {
		text = killedText
	}
	if t.Reason != "" && t.Reason != "Error" && t.Reason != "Completed" {
		text += ": " + t.Reason
	}
	return text
}

// diffReplicas returns the changes from the state was to the state is of a controller. If the container was replaced,
// the changes include the end of the old container, even if its end was not observed.
func diffReplicas(was, is Replica) []ReplicaChange {
	var list []ReplicaChange
	add := func(r Replica, kind ChangeKind) { list = append(list, ReplicaChange{kind, r}) }
	started := func(r Replica) bool { return r.State != supervise.Exited }
	another := was.Pod != is.Pod || was.container != is.container
	if started(was) && (!started(is) || another) {
		ended := was
		ended.State, ended.Ready, ended.Heartbeats, ended.Reason = supervise.Exited, false, "", is.lastExit
		if was.Pod != is.Pod || was.deleting {
			add(ended, Deleted)
		} else {
			add(ended, Ended)
		}
	}
	switch {
	case !started(is):
	case !started(was) || another:
		if is.restarts > 0 && was.Pod == is.Pod {
			add(is, Restarted)
		} else {
			add(is, Started)
		}
		if is.Ready {
			add(is, BecameReady)
		}
	case was.State != is.State && is.State == supervise.Paused:
		add(is, Paused)
	case was.State != is.State:
		add(is, Resumed)
	case was.Ready != is.Ready && is.Ready:
		add(is, BecameReady)
	case was.Ready != is.Ready:
		add(is, BecameNotReady)
	case was.Heartbeats != is.Heartbeats:
		add(is, HeartbeatsMoved)
	}
	return list
}
