package board

import (
	"cmp"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// tell writes an event into the log, unless rows alone tell it: Pods and endpoints, and the questions
// that a controller asks all the time. w.mu is held.
func (w *world) tell(e timeline.Event) {
	entry := LogEntry{Time: millis(e.Time), Base: e.Base, Module: e.Module, Version: e.Version, Text: e.Message}
	switch e.Kind {
	case timeline.Command:
		if e.Routine() {
			return
		}
		entry.Kind, entry.Name, entry.Code, entry.Took = LogCommand, e.Name, e.Code, inMillis(e.Elapsed)
		entry.Bad = e.Code != ""
	case timeline.Base:
		change := timeline.BaseChange(e.State)
		entry.Kind, entry.State = LogBase, e.State
		entry.Bad = change == timeline.BaseDown || change == timeline.BaseDisconnected
	case timeline.Module:
		entry.Kind, entry.State = LogModule, cmp.Or(e.State, "gone")
		entry.Bad = timeline.ModuleState(e.State) == timeline.ModuleBroken
	case timeline.Node:
		entry.Kind, entry.Name, entry.State = LogNode, e.Name, cmp.Or(e.State, "gone")
		entry.Bad = e.State == string(timeline.NodeNotReady) || e.State == string(timeline.NodeUnknown)
	case timeline.Component:
		entry.Kind, entry.Name, entry.State = LogComponent, e.Name, e.State
		entry.Bad = e.State == string(timeline.ComponentExited)
	case timeline.Fault:
		entry.Kind, entry.Name, entry.State = LogFault, e.Name, e.State
		if e.Base == "" {
			entry.Name = e.FaultKey()
		}
		entry.Text = timeline.Join(": ", e.Code, e.Message)
	case timeline.Step:
		if e.State == stepBegan && e.Message == "" {
			return // its end tells more
		}
		entry.Kind, entry.Name, entry.State, entry.Bad = LogStep, e.Name, e.State, e.State == "failed"
	case timeline.Request:
		entry.Kind, entry.Name, entry.State, entry.Took, entry.Bad = LogRequest, e.Name, e.State, inMillis(e.Elapsed), true
	default:
		return
	}
	w.write(entry)
}

func inMillis(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}
