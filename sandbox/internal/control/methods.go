package control

import (
	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// The methods of the control API. The methods of Client describe them.
const (
	MethodStatus         rpc.Unary[StatusRequest, *Status]               = "Status"
	MethodUp             rpc.Stream[UpRequest, UpStep]                   = "Up"
	MethodDown           rpc.Unary[rpc.Empty, rpc.Empty]                 = "Down"
	MethodHold           rpc.Stream[rpc.Empty, rpc.Empty]                = "Hold"
	MethodBases          rpc.Unary[GroupRequest, []Base]                 = "Bases"
	MethodAddBases       rpc.Unary[AddRequest, []Base]                   = "AddBases"
	MethodRemoveBases    rpc.Unary[RemoveRequest, []Base]                = "RemoveBases"
	MethodRestartBase    rpc.Unary[RestartRequest, *Base]                = "RestartBase"
	MethodAct            rpc.Unary[ActRequest, rpc.Empty]                = "Act"
	MethodRepair         rpc.Unary[RepairRequest, rpc.Empty]             = "Repair"
	MethodSetFault       rpc.Unary[fault.Injection, string]              = "SetFault"
	MethodClearFaults    rpc.Unary[FaultSelector, rpc.Empty]             = "ClearFaults"
	MethodFaults         rpc.Unary[GroupRequest, Faults]                 = "Faults"
	MethodSetController  rpc.Unary[ControllerRequest, ControllerRequest] = "SetController"
	MethodWatch          rpc.Stream[WatchRequest, events.Event]          = "Watch"
	MethodStartTraffic   rpc.Unary[StartTrafficRequest, rpc.Empty]       = "StartTraffic"
	MethodTraffic        rpc.Unary[GroupRequest, []traffic.Summary]      = "Traffic"
	MethodStopTraffic    rpc.Unary[StreamRequest, *traffic.StreamResult] = "StopTraffic"
	MethodTrafficRecords rpc.Stream[StreamRequest, traffic.Record]       = "TrafficRecords"
)

// Requests that the methods of Client create from their arguments.
type (
	// StatusRequest requests the status of the sandbox. If Bases is true, the status includes the status of each
	// base.
	StatusRequest struct {
		Bases bool `json:"bases"`
	}
	// GroupRequest selects a group. An empty Group selects all groups.
	GroupRequest struct {
		Group string `json:"group"`
	}
	// StartTrafficRequest starts a request stream for a group.
	StartTrafficRequest struct {
		Group string       `json:"group"`
		Spec  traffic.Spec `json:"spec"`
	}
	// StreamRequest selects a request stream of a group.
	StreamRequest struct {
		Group string `json:"group"`
		Name  string `json:"name"`
	}
)

// UpStep is one progress step of an up, or the final result.
type UpStep struct {
	Event  *progress.Event `json:"event,omitempty"`
	Result *UpResult       `json:"result,omitempty"`
}
