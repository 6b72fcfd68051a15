package agent

import (
	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// What can be asked of an agent. Stop and Drop count when the lost requests that the agent knew of
// have been told.
const (
	of        rpc.Unary[rpc.Empty, string]                       = "Version"
	begin     rpc.Unary[beginRequest, rpc.Empty]                 = "Begin"
	tell      rpc.Unary[tellRequest, rpc.Empty]                  = "Tell"
	summaries rpc.Unary[string, []traffic.Summary]              = "Summaries" // of a group
	stop      rpc.Unary[streamRequest, rpc.OrderedAnswer[*traffic.End]] = "Stop"
	drop      rpc.Unary[string, rpc.OrderedAnswer[rpc.Empty]]            = "Drop" // a group
	records   rpc.Stream[streamRequest, traffic.Record]         = "Records"
	lost      rpc.Stream[rpc.Empty, traffic.LostRequest]         = "Lost"
)

type beginRequest struct {
	Group string       `json:"group"`
	Spec  traffic.Spec `json:"spec"`
	// Choice is what the stream may pick from at first, if it is sent to bases.
	Choice traffic.Choice `json:"choice,omitzero"`
}

// tellRequest sets what a stream may pick from.
type tellRequest struct {
	streamRequest
	Choice traffic.Choice `json:"choice"`
}

type streamRequest struct {
	Group string `json:"group"`
	Name  string `json:"name"`
}
