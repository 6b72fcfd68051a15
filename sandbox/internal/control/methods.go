package control

import (
	"encoding/json"

	"github.com/koupleless/koupsandbox/fakebase/rpc"
	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// What can be asked of a daemon. The methods of Service and Client say what each does.
const (
	status         rpc.Unary[statusRequest, *Status]               = "Status"
	up             rpc.Stream[UpRequest, upStep]                   = "Up"
	down           rpc.Unary[rpc.None, rpc.None]                   = "Down"
	hold           rpc.Stream[rpc.None, rpc.None]                  = "Hold"
	events         rpc.Stream[rpc.None, progress.Event]            = "Events"
	bases          rpc.Unary[groupRequest, []Base]                 = "Bases"
	addBases       rpc.Unary[AddRequest, []Base]                   = "AddBases"
	removeBases    rpc.Unary[RemoveRequest, []Base]                = "RemoveBases"
	restartBase    rpc.Unary[restartRequest, *Base]                = "RestartBase"
	act            rpc.Unary[ActRequest, rpc.None]                 = "Act"
	repair         rpc.Unary[RepairRequest, rpc.None]              = "Repair"
	inject         rpc.Unary[injectRequest, string]                = "Inject"
	clearFaults    rpc.Unary[clearRequest, rpc.None]               = "ClearFaults"
	faults         rpc.Unary[faultsRequest, []Fault]               = "Faults"
	setController  rpc.Unary[ControllerRequest, ControllerRequest] = "SetController"
	setAPIRule     rpc.Unary[APIRuleRequest, string]               = "SetAPIRule"
	clearAPIRule   rpc.Unary[ruleRequest, rpc.None]                = "ClearAPIRule"
	apiView        rpc.Unary[groupRequest, APIView]                = "APIView"
	setMQTTRule    rpc.Unary[MQTTRuleRequest, string]              = "SetMQTTRule"
	clearMQTTRule  rpc.Unary[ruleRequest, rpc.None]                = "ClearMQTTRule"
	mqttRules      rpc.Unary[groupRequest, []MQTTRule]             = "MQTTRules"
	watch          rpc.Stream[WatchRequest, timeline.Event]        = "Watch"
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
	injectRequest struct {
		Base  string          `json:"base"`
		Fault json.RawMessage `json:"fault"`
	}
	clearRequest struct {
		Base string   `json:"base"`
		IDs  []string `json:"ids"`
	}
	faultsRequest struct {
		Base string `json:"base"`
	}
	ruleRequest struct {
		Group string `json:"group,omitempty"`
		ID    string `json:"id"`
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
