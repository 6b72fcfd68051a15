package remote

import (
	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/rpc"
)

// method is one that asks a base for something. Its answer counts when what the base told before
// has been read.
type method[In, Out any] = rpc.Unary[In, rpc.After[Out]]

// What can be asked of the process of a base.
const (
	address     rpc.Unary[rpc.None, string]       = "Address"
	makeBase    rpc.Unary[Options, snapshot]      = "Make"
	follow      rpc.Stream[rpc.None, message]     = "Follow"
	run         rpc.Unary[rpc.None, rpc.None]     = "Run"
	stop        rpc.Unary[rpc.None, rpc.None]     = "Stop"
	inject      method[fault.Fault, string]       = "Inject"
	clearFaults method[[]string, int]             = "ClearFaults"
	restart     method[string, rpc.None]          = "Restart"
	webAddr     method[rpc.None, string]          = "WebAddr"
	status      method[rpc.None, fakebase.Status] = "Status"
)

// Options describe a base to another process.
type Options struct {
	// Options of the base. Of what their JSON form leaves out, NewIdentity makes random
	// ones, Logger is that of Serve, and all else has its default. Addresses that the base listens on
	// may name no host, or 0.0.0.0: the base then says its own IP.
	fakebase.Options
	// BrokerCA is the authority of an ssl broker, in PEM. Default: the system's.
	BrokerCA []byte
}

// snapshot is what there is at first.
type snapshot struct {
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
