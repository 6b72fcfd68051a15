package board

import (
	"cmp"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/events"
)

// logEvent adds an event to the log of the board. It skips Pod changes, endpoint changes and periodic queries. The
// caller must hold w.mu.
func (w *boardState) logEvent(e events.Event) {
	entry := LogEntry{Time: millis(e.Time), Base: e.BaseName()}
	switch {
	case e.Command != nil:
		c := e.Command
		if e.Routine() {
			return
		}
		entry.Kind, entry.Name, entry.Module, entry.Version, entry.Text = LogCommand, c.Name, c.Module.Name,
			c.Module.Version, c.Message
		entry.Code, entry.Took, entry.Bad = c.Code, inMillis(c.Elapsed), c.Code != ""
	case e.Base != nil:
		entry.Kind, entry.State = LogBase, string(e.Base.Change)
		entry.Bad = e.Base.Change == events.BaseDown || e.Base.Change == events.BaseDisconnected
	case e.Module != nil:
		m := e.Module
		entry.Kind, entry.Module, entry.Version, entry.Text = LogModule, m.Name, m.Version, m.Message
		entry.State, entry.Bad = cmp.Or(string(m.State), "gone"), m.State == events.ModuleBroken
	case e.Node != nil:
		n := e.Node
		entry.Kind, entry.Name, entry.State, entry.Text = LogNode, n.Name, cmp.Or(string(n.State), "gone"), n.Message
		entry.Bad = n.State == events.NodeNotReady || n.State == events.NodeUnknown
	case e.Component != nil:
		c := e.Component
		entry.Kind, entry.Name, entry.State, entry.Text = LogComponent, c.Name, string(c.State), c.Message
		entry.Bad = c.State == events.ComponentExited
	case e.Fault != nil:
		f := e.Fault
		entry.Kind, entry.Name, entry.State, entry.Text = LogFault, f.ID, string(f.Change), events.Join(": ",
			string(f.Kind), f.Message)
		if f.Base == "" {
			entry.Name = f.Key()
		}
	case e.Step != nil:
		s := e.Step
		if s.State == events.StepBegan && s.Message == "" {
			return // the end of the step has more details
		}
		entry.Kind, entry.Name, entry.State, entry.Text = LogStep, s.Name, string(s.State), s.Message
		entry.Bad = s.State == events.StepFailed
	case e.Request != nil:
		r := e.Request
		entry.Kind, entry.Name, entry.Module, entry.Version, entry.Text = LogRequest, r.Stream, r.Module.Name,
			r.Module.Version, r.Message
		entry.State, entry.Took, entry.Bad = string(r.Result), inMillis(r.Elapsed), true
	default:
		return
	}
	w.appendLog(entry)
}

func inMillis(d time.Duration) float64 {
	return float64(d.Round(10*time.Microsecond)) / float64(time.Millisecond)
}
