package v1alpha1_test

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

const (
	api  = v1alpha1.TargetAPI
	mqtt = v1alpha1.TargetMQTT
	base = v1alpha1.TargetBase
)

func seconds(n int) fault.Duration { return fault.Duration(n) * fault.Duration(time.Second) }

func later(n int) fault.Delay { return fault.Delay{Min: seconds(n)} }

// TestFaultDefaults checks that connection faults (targets api and mqtt) have a limited duration by default, and that
// status 409 applies only to updates and patches.
func TestFaultDefaults(t *testing.T) {
	writes := []string{"create", "update", "patch", "delete", "deletecollection"}
	match := func(verbs ...string) v1alpha1.FaultMatch { return v1alpha1.FaultMatch{Verbs: verbs} }
	direction := func(d v1alpha1.Direction) v1alpha1.FaultMatch { return v1alpha1.FaultMatch{Direction: d} }
	for name, c := range map[string]struct {
		target      v1alpha1.FaultTarget
		given, want v1alpha1.Fault
	}{
		"a conflict": {
			api, v1alpha1.Fault{ID: "x", Kind: v1alpha1.APIRefuse, Status: 409, For: seconds(1)},
			v1alpha1.Fault{ID: "x", Kind: v1alpha1.APIRefuse, Status: 409, For: seconds(1), Count: 1,
				Match: match("update", "patch")},
		},
		"too many requests": {
			api, v1alpha1.Fault{Kind: v1alpha1.APIRefuse, Status: 429, Count: 3},
			v1alpha1.Fault{Kind: v1alpha1.APIRefuse, Status: 429, For: seconds(30), Count: 3, Match: match(writes...),
				RetryAfter: seconds(1)},
		},
		"a lost answer": {
			api, v1alpha1.Fault{Kind: v1alpha1.APILoseAnswer},
			v1alpha1.Fault{Kind: v1alpha1.APILoseAnswer, For: seconds(30), Count: 1, Match: match(writes...)},
		},
		"a delay of the API": {
			api, v1alpha1.Fault{Kind: v1alpha1.APIDelay, Delay: later(1), Match: match("get")},
			v1alpha1.Fault{Kind: v1alpha1.APIDelay, Delay: later(1), Match: match("get"), For: seconds(30)},
		},
		"a state": {
			mqtt, v1alpha1.Fault{Kind: v1alpha1.MQTTHold},
			v1alpha1.Fault{Kind: v1alpha1.MQTTHold, Match: direction(v1alpha1.BothDirections), For: seconds(30)},
		},
		"a cut": {mqtt, v1alpha1.Fault{Kind: v1alpha1.MQTTCut, For: seconds(1)},
			v1alpha1.Fault{Kind: v1alpha1.MQTTCut, For: seconds(1)}},
		"a kill": {
			mqtt, v1alpha1.Fault{Kind: v1alpha1.MQTTKillBefore, Skip: 3},
			v1alpha1.Fault{Kind: v1alpha1.MQTTKillBefore, Skip: 3, Match: direction(v1alpha1.ToBroker), Count: 1,
				For: seconds(30)},
		},
		"a base": {base, v1alpha1.Fault{Kind: fault.KindCrash}, v1alpha1.Fault{Kind: fault.KindCrash}},
	} {
		t.Run(name, func(t *testing.T) {
			v1alpha1.SetFaultDefaults(c.target, &c.given)
			if diff := cmp.Diff(c.want, c.given); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if errs := v1alpha1.ValidateFault(c.target, &c.given); len(errs) > 0 {
				t.Error(errs)
			}
		})
	}
}

// TestFaultProblems checks that unsupported fields and invalid values are reported with their field paths.
func TestFaultProblems(t *testing.T) {
	nodes := v1alpha1.FaultMatch{Resource: "nodes"}
	for name, c := range map[string]struct {
		target v1alpha1.FaultTarget
		fault  v1alpha1.Fault
		says   string
	}{
		"no kind": {api, v1alpha1.Fault{}, "kind: Required value"},
		"an unknown kind": {api, v1alpha1.Fault{Kind: "eat"},
			`kind: Unsupported value: "eat": supported values: "blackHole"`},
		"a kind of a base": {mqtt, v1alpha1.Fault{Kind: fault.KindCrash},
			`kind: Unsupported value: "crash": supported values: "cut"`},
		"a kind of the API": {base, v1alpha1.Fault{Kind: v1alpha1.APIHoldWatch},
			`kind: Forbidden: "holdWatch"`},
		"no resource": {api, v1alpha1.Fault{Kind: v1alpha1.APIHoldWatch},
			"match.resource: Required value"},
		"no status": {api, v1alpha1.Fault{Kind: v1alpha1.APIRefuse}, "status: Required value"},
		"another status": {api, v1alpha1.Fault{Kind: v1alpha1.APIRefuse, Status: 418},
			"status: Invalid value: 418"},
		"a create conflicts": {api,
			v1alpha1.Fault{Kind: v1alpha1.APIRefuse, Status: 409,
				Match: v1alpha1.FaultMatch{Verbs: []string{"create"}}}, "match.verbs[0]: Unsupported value"},
		"the answer of a read": {api,
			v1alpha1.Fault{Kind: v1alpha1.APILoseAnswer, Match: v1alpha1.FaultMatch{Verbs: []string{"get"}}},
			"match.verbs[0]: Unsupported value"},
		"no delay":           {mqtt, v1alpha1.Fault{Kind: v1alpha1.MQTTDelay}, "delay: Required value"},
		"a count of a state": {api, v1alpha1.Fault{Kind: v1alpha1.APIBlackHole, Count: 1}, "count: Forbidden"},
		"a skip of a state": {mqtt, v1alpha1.Fault{Kind: v1alpha1.MQTTDelay, Delay: later(1), Skip: 1},
			"skip: Forbidden"},
		"a match of a black hole": {api, v1alpha1.Fault{Kind: v1alpha1.APIBlackHole, Match: nodes},
			"match.resource: Forbidden"},
		"messages of a state": {mqtt,
			v1alpha1.Fault{Kind: v1alpha1.MQTTHold, Match: v1alpha1.FaultMatch{Messages: []string{"heart"}}},
			"match.messages: Forbidden"},
		"a direction of a cut": {mqtt,
			v1alpha1.Fault{Kind: v1alpha1.MQTTCut, Match: v1alpha1.FaultMatch{Direction: v1alpha1.ToBroker}},
			"match.direction: Forbidden"},
		"a resource of a base": {base, v1alpha1.Fault{Kind: fault.KindSilent, Match: nodes},
			"match.resource: Forbidden"},
		"a delay of another": {mqtt, v1alpha1.Fault{Kind: v1alpha1.MQTTNote, Delay: later(1)},
			"delay: Forbidden"},
		"an hour": {api, v1alpha1.Fault{Kind: v1alpha1.APIBlackHole, For: seconds(3600)},
			"for: Invalid value"},
		"a delay of an hour": {api, v1alpha1.Fault{Kind: v1alpha1.APIDelay, Delay: later(3600)},
			"delay: Invalid value"},
		"half a second": {api,
			v1alpha1.Fault{Kind: v1alpha1.APIRefuse, Status: 429, RetryAfter: seconds(1) / 2},
			"retryAfter: Invalid value"},
		"Retry-After of 500": {api,
			v1alpha1.Fault{Kind: v1alpha1.APIRefuse, Status: 500, RetryAfter: seconds(1)}, "retryAfter: Forbidden"},
		"a probability": {mqtt, v1alpha1.Fault{Kind: v1alpha1.MQTTNote, Probability: 2},
			"probability: Invalid value"},
		"the probability of a base": {base, v1alpha1.Fault{Kind: fault.KindDeaf, Probability: 2},
			"probability: Forbidden"},
	} {
		t.Run(name, func(t *testing.T) {
			v1alpha1.SetFaultDefaults(c.target, &c.fault)
			if errs := v1alpha1.ValidateFault(c.target, &c.fault); len(errs) != 1 ||
				!strings.Contains(errs.ToAggregate().Error(), c.says) {
				t.Errorf("errors = %v, want %q", errs, c.says)
			}
		})
	}
}
