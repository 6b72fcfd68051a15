package remote

import (
	"net/http"

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
	discard     rpc.Unary[rpc.None, rpc.None]     = "Discard"
	inject      method[fault.Fault, string]       = "Inject"
	clearFaults method[[]string, int]             = "ClearFaults"
	restart     method[string, rpc.None]          = "Restart"
	webAddr     method[rpc.None, string]          = "WebAddr"
	status      method[rpc.None, fakebase.Status] = "Status"
)

// connect is the path of a connection to the listener for module traffic: not a call, but its bytes
// both ways.
const connect = "Connect"

// among carries requests to one of the bases of a process.
type among struct {
	http.RoundTripper
	name string
}

func (a *among) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Path = "/" + a.name + r.URL.Path
	return a.RoundTripper.RoundTrip(r)
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
