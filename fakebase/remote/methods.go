package remote

import (
	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/rpc"
)

// method is one that asks a base for something. Its answer counts when what the base told before
// has been read.
type method[In, Out any] = rpc.Unary[In, rpc.After[Out]]

// What can be asked of a process with bases: first of itself, the rest of one of its bases.
const (
	version     rpc.Unary[rpc.None, string]       = "Version"
	address     rpc.Unary[rpc.None, string]       = "Address"
	makeBase    rpc.Unary[Options, snapshot]      = "Make"
	follow      rpc.Stream[rpc.None, message]     = "Follow"
	run         rpc.Unary[rpc.None, rpc.None]     = "Run"
	stop        rpc.Unary[rpc.None, rpc.None]     = "Stop"
	inject      method[fault.Fault, string]       = "Inject"
	clearFaults method[[]string, int]             = "ClearFaults"
	restart     method[string, rpc.None]          = "Restart"
	status      method[rpc.None, fakebase.Status] = "Status"
)

// connect is the path of a connection to the listener for module traffic: not a call, but its bytes
// both ways.
const connect = "Connect"

type snapshot struct {
	ID     string          `json:"id"` // the first part of the path of requests to the base
	Status fakebase.Status `json:"status"`
	Faults []fault.Status  `json:"faults"`
}

// message is one thing that a base tells.
type message struct {
	// Event, with the Status after it, or Trace.
	Event  *fakebase.Event  `json:"event,omitempty"`
	Status *fakebase.Status `json:"status,omitempty"`
	Trace  *fakebase.Trace  `json:"trace,omitempty"`
	// Faults that are there, with the Trace of one.
	Faults *[]fault.Status `json:"faults,omitempty"`
}
