package remote

import (
	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/rpc"
)

// method is an RPC method of a base. The caller must read all messages that precede the answer before it uses the
// answer.
type method[In, Out any] = rpc.Unary[In, rpc.OrderedAnswer[Out]]

// The RPC methods of a process. The process implements processInfo and makeBase itself; each of the other methods
// belongs to one base.
const (
	processInfo rpc.Unary[rpc.Empty, ProcessInfo]  = "About"
	makeBase    rpc.Unary[Options, snapshot]       = "Make"
	follow      rpc.Stream[rpc.Empty, message]     = "Follow"
	run         rpc.Unary[rpc.Empty, rpc.Empty]    = "Run"
	stop        rpc.Unary[rpc.Empty, rpc.Empty]    = "Stop"
	inject      method[fault.Fault, string]        = "Inject"
	clearFaults method[[]string, int]              = "ClearFaults"
	restart     method[string, rpc.Empty]          = "Restart"
	status      method[rpc.Empty, fakebase.Status] = "Status"
)

// connect is the URL path of a connection to a listener of a base. The request body and the response body carry the
// data of the connection.
const connect = "Connect"

type snapshot struct {
	ID     string          `json:"id"` // first segment of the URL path of the base
	Status fakebase.Status `json:"status"`
	Faults []fault.Status  `json:"faults"`
}

// message reports an event or a trace of a base.
type message struct {
	// Event is an event, and Status is the status after the event. A message has either Event or Trace.
	Event  *fakebase.Event  `json:"event,omitempty"`
	Status *fakebase.Status `json:"status,omitempty"`
	Trace  *fakebase.Trace  `json:"trace,omitempty"`
	// Faults lists all faults that have not been cleared. It is set if Trace is the trace of a fault.
	Faults *[]fault.Status `json:"faults,omitempty"`
}
