package incluster

import (
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

const (
	// crashLoop is the reason of a container that is not started again for a while.
	crashLoop = "CrashLoopBackOff"
	// killedStatus is the exit status of a process that SIGKILL has ended.
	killedStatus = 128 + 9
	killedText   = "signal: killed"

	reasonNoPod    = "there is no Pod yet"
	reasonDeleting = "it is being deleted"
)

// Replica is one of the controllers as its Pod shows it.
type Replica struct {
	// Number from 1; see runner.NameOf.
	Number int
	// Pod is the name of its Pod, empty while there is none.
	Pod string
	// State is that of its container; one that was never started has exited.
	State supervise.State
	// Ready is that of the Pod; Reason says why it is not.
	Ready  bool
	Reason string
	// Since is when its container was started; zero if it does not run.
	Since time.Time
	// Heartbeats is host:port where it receives heartbeats over HTTP; empty = nowhere.
	Heartbeats string

	node, container string
	restarts        int32
	revision        string // of its settings
	lastExit        string // how its last container has ended
	endedAt         time.Time
	killed          bool // by SIGKILL
	inBackOff       bool
	deleting        bool
	stopped         bool
}

// ChangeKind is the kind of a Change.
type ChangeKind string

// The kinds of a Change.
const (
	Started         ChangeKind = "Started"
	Restarted       ChangeKind = "Restarted" // by its kubelet
	BecameReady     ChangeKind = "BecameReady"
	BecameNotReady  ChangeKind = "BecameNotReady"
	Paused          ChangeKind = "Paused"
	Resumed         ChangeKind = "Resumed"
	HeartbeatsMoved ChangeKind = "HeartbeatsMoved"
	Ended           ChangeKind = "Ended"
	Deleted         ChangeKind = "Deleted"
)

// ReplicaChange is an event of a controller, with its state after the event.
type ReplicaChange struct {
	Kind ChangeKind
	Replica
}

// Message describes the change, with the name of the Pod.
func (c ReplicaChange) Message() string {
	text := map[ChangeKind]string{
		Started: "runs", BecameReady: "is ready", Paused: "is paused", Resumed: "goes on", Ended: "has ended",
		Deleted:         "was deleted",
		Restarted:       fmt.Sprintf("runs again: its kubelet has started it %d times", c.restarts+1),
		BecameNotReady:  "is not ready: " + c.Reason,
		HeartbeatsMoved: "receives heartbeats at " + c.Heartbeats,
	}[c.Kind]
	if c.Kind == Ended && c.Reason != "" {
		text += ": " + c.Reason
	}
	return fmt.Sprintf("Pod %s %s", c.Pod, text)
}

// containerMark is what was done to a container, where the API tells it late or not at all.
type containerMark int

const (
	markPaused containerMark = iota + 1
	markKilled
)

// statusOf returns the status of a Pod's only container, empty before its kubelet has told one.
func statusOf(p *corev1.Pod) *corev1.ContainerStatus {
	if len(p.Status.ContainerStatuses) == 0 {
		return &corev1.ContainerStatus{}
	}
	return &p.Status.ContainerStatuses[0]
}

// isTerminating reports whether the Deployment replaces a Pod.
func isTerminating(p *corev1.Pod) bool {
	return p.DeletionTimestamp != nil || p.Status.Phase == corev1.PodFailed || p.Status.Phase == corev1.PodSucceeded
}

// containerID is the runtime's part of containerd://ID.
func containerID(id string) string {
	_, id, _ = strings.Cut(id, "://")
	return id
}

// replicaOf is what a Pod, nil for none, says of a controller.
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

// notReady says why a Pod is not ready.
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
	return fmt.Sprintf("it is %s", p.Status.Phase)
}

// exitText says how a container has ended, in the words of a process of this machine.
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

// diffReplicas says what has happened between two sights of a controller. A container that was there and
// has another in its place has ended in the meantime, though nobody saw it.
func diffReplicas(was, is Replica) []ReplicaChange {
	var list []ReplicaChange
	tell := func(r Replica, kind ChangeKind) { list = append(list, ReplicaChange{kind, r}) }
	alive := func(r Replica) bool { return r.State != supervise.Exited }
	another := was.Pod != is.Pod || was.container != is.container
	if alive(was) && (!alive(is) || another) {
		ended := was
		ended.State, ended.Ready, ended.Heartbeats, ended.Reason = supervise.Exited, false, "", is.lastExit
		if was.Pod != is.Pod || was.deleting {
			tell(ended, Deleted)
		} else {
			tell(ended, Ended)
		}
	}
	switch {
	case !alive(is):
	case !alive(was) || another:
		if is.restarts > 0 && was.Pod == is.Pod {
			tell(is, Restarted)
		} else {
			tell(is, Started)
		}
		if is.Ready {
			tell(is, BecameReady)
		}
	case was.State != is.State && is.State == supervise.Paused:
		tell(is, Paused)
	case was.State != is.State:
		tell(is, Resumed)
	case was.Ready != is.Ready && is.Ready:
		tell(is, BecameReady)
	case was.Ready != is.Ready:
		tell(is, BecameNotReady)
	case was.Heartbeats != is.Heartbeats:
		tell(is, HeartbeatsMoved)
	}
	return list
}
