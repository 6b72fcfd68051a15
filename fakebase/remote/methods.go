package remote

import (
	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/rpc"
)

// method is a method of a base. Its answer is valid after all earlier messages have been read.
type method[In, Out any] = rpc.Unary[In, rpc.OrderedAnswer[Out]]

// The methods of a process: processInfo and makeBase of the process itself, the others of one base.
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

// connect is the path of a connection to a listener of a base. The bodies of the request and the response are the data of
// the connection.
const connect = "Connect"

type snapshot struct {
	ID     string          `json:"id"` // first part of the URL path of the base
	Status fakebase.Status `json:"status"`
	Faults []fault.Status  `json:"faults"`
}

// message is an event or a trace of a base.
type message struct {
	// Event has the Status after the event. Either Event or Trace is set.
	Event  *fakebase.Event  `json:"event,omitempty"`
	Status *fakebase.Status `json:"status,omitempty"`
	Trace  *fakebase.Trace  `json:"trace,omitempty"`
	// Faults are all faults that have not been cleared. They are set with the Trace of a fault.
	Faults *[]fault.Status `json:"faults,omitempty"`
}
