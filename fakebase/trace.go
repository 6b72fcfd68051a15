package fakebase

import (
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// Trace records a command that the base has responded to, or a fault that was set, triggered or cleared. Either Command
// or Fault is set.
type Trace struct {
	// Time is the time of the recorded change. It is not affected by clockSkew faults.
	Time    time.Time     `json:"time"`
	Command *CommandTrace `json:"command,omitempty"`
	Fault   *FaultTrace   `json:"fault,omitempty"`
}

// CommandTrace records a command that the base has responded to, over either tunnel. A command is not traced if it
// hangs or if the process ends during the command. An asynchronous command is traced when the base sends the response
// with the record of the command.
type CommandTrace struct {
	// Identity is the identity of the process.
	Identity string `json:"identity"`
	// Name is the name of the command, such as installBiz. For a baseline, it is batchInstallBiz.
	Name string `json:"name"`
	// Biz and Version are the name and the version of the module; may be empty.
	Biz     string `json:"biz,omitempty"`
	Version string `json:"version,omitempty"`
	// Code is the error code of the Koupleless documentation, one of fault.Codes; empty = success. It is set even if
	// the base does not send the code.
	Code string `json:"code,omitempty"`
	// Message is the message text of the response.
	Message string `json:"message,omitempty"`
	// Elapsed is the time between the arrival of the command and the response.
	Elapsed time.Duration `json:"elapsed"`
}

// FaultTrace records that a fault was set, triggered or cleared.
type FaultTrace struct {
	ID   string     `json:"id"`
	Kind fault.Kind `json:"kind"`
	// State is set, cleared or fired (triggered). Faults of a state kind are never fired.
	State FaultChange `json:"state"`
	// Code is the error code of the fault; may be empty.
	Code string `json:"code,omitempty"`
}

// FaultChange is the kind of a fault change: set, cleared or triggered.
type FaultChange string

// The possible changes of a fault.
const (
	FaultIsSet     FaultChange = "set"
	FaultCleared   FaultChange = "cleared"
	FaultTriggered FaultChange = "fired"
)

// Trace calls fn with all later traces until stop is called. Unlike Watch, Trace may call fn concurrently. The base
// may be locked during a call. Therefore, fn must return quickly, and must call neither methods of the base nor stop.
func (b *Base) Trace(fn func(Trace)) (stop func()) { return b.tracers.Add(fn) }

func (b *Base) trace(t Trace) {
	t.Time = time.Now()
	b.tracers.Notify(t)
}

func (b *Base) traceFault(f *fault.Fault, s FaultChange) {
	b.trace(Trace{Fault: &FaultTrace{ID: f.ID, Kind: f.Kind, State: s, Code: f.Code}})
}

func (l *incarnation) traceCommand(sub subject, out commandResult, elapsed time.Duration) {
	c := CommandTrace{
		Identity: l.identity, Name: sub.command, Biz: sub.biz, Version: sub.version,
		Code: out.code, Message: out.message, Elapsed: elapsed,
	}
	if out.exception != nil {
		c.Message = out.exception.message()
	}
	if r, ok := out.data.(clientResponse); ok {
		if c.Message == "" || out.failed {
			c.Message = r.message
		}
		if c.Biz == "" && len(r.biz) > 0 {
			c.Biz, c.Version = r.biz[0].Name, r.biz[0].Version
		}
	}
	l.b.trace(Trace{Command: &c})
}
