package agent

import (
	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// The methods that an agent serves. The responses of Stop and Drop contain the number of lost requests that the agent
// has reported before the response.
const (
	getVersion  rpc.Unary[rpc.Empty, string]                                       = "Version"
	startStream rpc.Unary[startStreamRequest, rpc.Empty]                           = "StartStream"
	setTargets  rpc.Unary[setTargetsRequest, rpc.Empty]                            = "SetTargets"
	summaries   rpc.Unary[string, []traffic.Summary]                               = "Summaries" // of a group
	stop        rpc.Unary[streamRequest, rpc.OrderedAnswer[*traffic.StreamResult]] = "Stop"
	drop        rpc.Unary[string, rpc.OrderedAnswer[rpc.Empty]]                    = "Drop" // a group
	records     rpc.Stream[streamRequest, traffic.Record]                          = "Records"
	lost        rpc.Stream[rpc.Empty, traffic.LostRequest]                         = "Lost"
)

type startStreamRequest struct {
	Group string       `json:"group"`
	Spec  traffic.Spec `json:"spec"`
	// TargetSet contains the initial targets. It is only set if the stream sends requests to bases.
	TargetSet traffic.TargetSet `json:"choice,omitzero"`
}

// setTargetsRequest is a request to replace the targets of a running stream.
type setTargetsRequest struct {
	streamRequest
	TargetSet traffic.TargetSet `json:"choice"`
}

type streamRequest struct {
	Group string `json:"group"`
	Name  string `json:"name"`
}
