package agent

import (
	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// What can be asked of an agent. Stop and Drop count when the lost requests that the agent knew of
// have been told.
const (
	of        rpc.Unary[rpc.None, string]                                = "Version"
	begin     rpc.Unary[beginRequest, rpc.None]                          = "Begin"
	tell      rpc.Unary[tellRequest, rpc.None]                           = "Tell"
	summaries rpc.Unary[string, []traffic.Summary]                       = "Summaries" // of a group
	stop      rpc.Unary[streamRequest, rpc.After[*traffic.StreamResult]] = "Stop"
	drop      rpc.Unary[string, rpc.After[rpc.None]]                     = "Drop" // a group
	records   rpc.Stream[streamRequest, traffic.Record]                  = "Records"
	lost      rpc.Stream[rpc.None, traffic.LostRequest]                  = "Lost"
)

type beginRequest struct {
	Group string       `json:"group"`
	Spec  traffic.Spec `json:"spec"`
	// TargetSet is what the stream may pick from at first, if it is sent to bases.
	TargetSet traffic.TargetSet `json:"choice,omitzero"`
}

// tellRequest sets what a stream may pick from.
type tellRequest struct {
	streamRequest
	TargetSet traffic.TargetSet `json:"choice"`
}

type streamRequest struct {
	Group string `json:"group"`
	Name  string `json:"name"`
}
