package control

import (
	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// What can be asked of a daemon. The methods of Service and Client say what each does.
const (
	status         rpc.Unary[statusRequest, *Status]               = "Status"
	up             rpc.Stream[UpRequest, upStep]                   = "Up"
	down           rpc.Unary[rpc.None, rpc.None]                   = "Down"
	hold           rpc.Stream[rpc.None, rpc.None]                  = "Hold"
	progressEvents rpc.Stream[rpc.None, progress.Event]            = "Events"
	bases          rpc.Unary[groupRequest, []Base]                 = "Bases"
	addBases       rpc.Unary[AddRequest, []Base]                   = "AddBases"
	removeBases    rpc.Unary[RemoveRequest, []Base]                = "RemoveBases"
	restartBase    rpc.Unary[restartRequest, *Base]                = "RestartBase"
	act            rpc.Unary[ActRequest, rpc.None]                 = "Act"
	repair         rpc.Unary[RepairRequest, rpc.None]              = "Repair"
	setFault       rpc.Unary[fault.Injection, string]              = "SetFault"
	clearFaults    rpc.Unary[FaultSelector, rpc.None]              = "ClearFaults"
	faults         rpc.Unary[groupRequest, Faults]                 = "Faults"
	setController  rpc.Unary[ControllerRequest, ControllerRequest] = "SetController"
	watch          rpc.Stream[WatchRequest, events.Event]          = "Watch"
	startTraffic   rpc.Unary[startTrafficRequest, rpc.None]        = "StartTraffic"
	trafficOf      rpc.Unary[groupRequest, []traffic.Summary]      = "Traffic"
	stopTraffic    rpc.Unary[streamRequest, *traffic.End]          = "StopTraffic"
	trafficRecords rpc.Stream[streamRequest, traffic.Record]       = "TrafficRecords"
)

// Their inputs that are nobody else's.
type (
	statusRequest struct {
		Bases bool `json:"bases"`
	}
	groupRequest struct {
		Group string `json:"group"`
	}
	restartRequest struct {
		Base string `json:"base"`
		RestartRequest
	}
	startTrafficRequest struct {
		Group string       `json:"group"`
		Spec  traffic.Spec `json:"spec"`
	}
	streamRequest struct {
		Group string `json:"group"`
		Name  string `json:"name"`
	}
)

// upStep is a step of an up, or the end of it.
type upStep struct {
	Event  *progress.Event `json:"event,omitempty"`
	Result *UpResult       `json:"result,omitempty"`
}
