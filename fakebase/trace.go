package fakebase

import (
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// Trace is one thing that a base did: it answered a command, or a fault was set,
// was cleared or happened. Exactly one of Command and Fault is set.
type Trace struct {
	// Time is not shifted by a clock skew.
	Time    time.Time     `json:"time"`
	Command *CommandTrace `json:"command,omitempty"`
	Fault   *FaultTrace   `json:"fault,omitempty"`
}

// CommandTrace is a command that was answered, over either tunnel. One that
// hangs, and one that ends with its process, is not. An asynchronous one is told
// when its record is answered.
type CommandTrace struct {
	// Identity is that of the process.
	Identity string `json:"identity"`
	// Name of the command, such as installBiz; a baseline is a batchInstallBiz.
	Name string `json:"name"`
	// Biz and Version that it was about, as far as they are known.
	Biz     string `json:"biz,omitempty"`
	Version string `json:"version,omitempty"`
	// Code is the error code of the documents, one of fault.Codes; empty = success.
	// It is here even if the base does not send it.
	Code string `json:"code,omitempty"`
	// Message is what the answer said.
	Message string `json:"message,omitempty"`
	// Elapsed is the time from its arrival to its answer.
	Elapsed time.Duration `json:"elapsed"`
}

// FaultTrace is what became of a fault.
type FaultTrace struct {
	ID   string     `json:"id"`
	Kind fault.Kind `json:"kind"`
	// State is set, cleared or fired. Faults that are a state do not fire.
	State FaultState `json:"state"`
	// Code of the fault, if it has one.
	Code string `json:"code,omitempty"`
}

// FaultState says what became of a fault.
type FaultState string

// What becomes of faults.
const (
	FaultIsSet   FaultState = "set"
	FaultCleared FaultState = "cleared"
	FaultFired   FaultState = "fired"
)

// Trace calls fn with everything that is traced from now on, until stop is called.
// In contrast to Watch's, calls may be concurrent, and the base may be
// locked or not: fn must be quick and must not call the base or stop.
func (b *Base) Trace(fn func(Trace)) (stop func()) { return b.tracers.Add(fn) }

func (b *Base) trace(t Trace) {
	t.Time = time.Now()
	b.tracers.Tell(t)
}

func (b *Base) traceFault(f *fault.Fault, s FaultState) {
	b.trace(Trace{Fault: &FaultTrace{ID: f.ID, Kind: f.Kind, State: s, Code: f.Code}})
}

func (l *life) traceCommand(sub subject, out outcome, elapsed time.Duration) {
	c := CommandTrace{
		Identity: l.identity, Name: sub.command, Biz: sub.biz, Version: sub.version,
		Code: out.code, Message: out.message, Elapsed: elapsed,
	}
	if out.thrown != nil {
		c.Message = out.thrown.message()
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
