package v1alpha1

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/util/validation/field"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// FaultTarget is the part of the system that a fault affects.
type FaultTarget string

// The targets of faults.
const (
	// TargetBase is the process of a base.
	TargetBase FaultTarget = "base"
	// TargetAPI is the connections of controllers to the Kubernetes API.
	TargetAPI FaultTarget = "api"
	// TargetMQTT is the connections of controllers or bases to the broker.
	TargetMQTT FaultTarget = "mqtt"
)

// FaultTargets lists the targets.
var FaultTargets = []FaultTarget{TargetBase, TargetAPI, TargetMQTT}

// The kinds of faults of the targets api and mqtt. Package fault has the kinds of bases. Kinds that are marked (state)
// stay in effect until they end. They do not accept skip, count and probability.
const (
	// APIHoldWatch delays the events of watches until the fault ends, and then delivers them in order. Watches of other
	// resources are not affected (state).
	APIHoldWatch fault.Kind = "holdWatch"
	// APICutWatch ends the open watches. With relist, the next watch of each resource is answered with 410 Gone, so
	// that the controller lists again.
	APICutWatch fault.Kind = "cutWatch"
	// APIRefuse answers a request with the status 409, 429 or 500, and does not forward it to the API server.
	APIRefuse fault.Kind = "refuse"
	// APILoseAnswer closes the connection after the API server has executed a write, instead of returning its answer.
	APILoseAnswer fault.Kind = "loseAnswer"
	// APIKillBefore kills the controller before a write, which does not reach the API server.
	APIKillBefore fault.Kind = "killBefore"
	// APIKillAfter kills the controller after the API server has executed a write, before the controller has the
	// answer.
	APIKillAfter fault.Kind = "killAfter"
	// APIDelay delays requests by the time in delay.
	APIDelay fault.Kind = "delay"
	// APIOldList answers lists with resourceVersion=0 with the objects that existed when the fault was set. A restarted
	// client can get such lists from an API server that lags. The client gets later changes from its watch, unless
	// holdWatch delays them (state).
	APIOldList fault.Kind = "oldList"
	// APIBlackHole forwards nothing in either direction. Connections stay open, and new ones are accepted. The data is
	// delivered when the fault ends (state).
	APIBlackHole fault.Kind = "blackHole"
	// APILoseEvents drops the events of watches, which violates the contract of the API server (state).
	APILoseEvents fault.Kind = "loseEvents"
	// APIDoubleEvents delivers the events of watches twice, which violates the contract of the API server (state).
	APIDoubleEvents fault.Kind = "doubleEvents"
	// APIReorderEvents delivers every second event of a watch before the previous event, which violates the contract of
	// the API server (state).
	APIReorderEvents fault.Kind = "reorderEvents"

	// MQTTCut closes connections, and refuses new ones (state).
	MQTTCut fault.Kind = "cut"
	// MQTTHalfOpen drops all packets while the connection stays open. A connection that has lost packets is closed when
	// the fault ends (state).
	MQTTHalfOpen fault.Kind = "halfOpen"
	// MQTTHold delays all packets until the fault ends, and then delivers them in order (state).
	MQTTHold fault.Kind = "hold"
	// MQTTDelay delays all packets by the time in delay, and keeps their order (state).
	MQTTDelay fault.Kind = "delay"
	// MQTTDuplicate delivers a message a second time, marked as a duplicate, before it is acknowledged.
	MQTTDuplicate fault.Kind = "duplicate"
	// MQTTReorder delivers a message after the next message of another topic, or after one second. MQTT only guarantees
	// the order of the messages of one topic.
	MQTTReorder fault.Kind = "reorder"
	// MQTTKillBefore kills the controller before a message, which is not delivered.
	MQTTKillBefore fault.Kind = "killBefore"
	// MQTTKillAfter kills the controller after a message was delivered.
	MQTTKillAfter fault.Kind = "killAfter"
	// MQTTNote counts messages and delivers them unchanged. A step can await them.
	MQTTNote fault.Kind = "note"
)

// Direction is a direction of a connection to the broker.
type Direction string

// The directions.
const (
	ToBroker       Direction = "toBroker"
	FromBroker     Direction = "fromBroker"
	BothDirections Direction = "both"
)

// Fault is a fault. Its target and its kind determine which fields are allowed. Times of the target base are divided by
// the speed of the sandbox; times of the targets api and mqtt are not.
type Fault struct {
	// ID identifies the fault in events, and in clear and await. Default: KIND-N.
	ID string `json:"id,omitempty"`
	// Kind is the kind of the fault. Each target has its own kinds.
	Kind fault.Kind `json:"kind" need:"set a kind; see: koupsandbox scenario explain fault"`
	// Match limits the fault to matching commands, messages or requests. Default: all.
	Match FaultMatch `json:"match,omitzero"`
	// Skip is the number of matches before the first one that can trigger the fault. Default: 0.
	Skip int `json:"skip,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// Count is the number of times that the fault is triggered before it ends. Default: no limit for bases (crash: 1)
	// and for the kind delay of the target api; otherwise 1.
	Count int `json:"count,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// Probability is the probability, 0 to 1, that a match triggers the fault. Default: 1.
	Probability float64 `json:"probability,omitempty"`
	// For is the duration of the fault. Default: for bases, until it is cleared; for api and mqtt, 30s (maximum: 10m).
	For fault.Duration `json:"for,omitempty"`
	// Code is the error code of the kind error of bases.
	Code string `json:"code,omitempty"`
	// Message replaces the exception text of the kind error of bases. "java.io.IOException: x" sets class and
	// message; other text becomes the message of a RuntimeException.
	Message string `json:"message,omitempty"`
	// Status is the HTTP status of the kind refuse of the API: 409 (update and patch only), 429 or 500.
	Status int `json:"status,omitempty" jsonschema:"enum=409,enum=429,enum=500"`
	// RetryAfter is the Retry-After header of status 429, in whole seconds. Default: 1s.
	RetryAfter fault.Duration `json:"retryAfter,omitempty"`
	// Relist makes cutWatch answer the next watch of each resource with 410 Gone. Default: false.
	Relist bool `json:"relist,omitempty"`
	// Delay is the delay of the kinds latency, crash, slowLink, delay, reorder and stale.
	Delay fault.Delay `json:"delay,omitzero"`
	// Period is the half period of the kind flapping. Default: 5s.
	Period fault.Duration `json:"period,omitempty"`
	// Skew is the clock error of the kind clockSkew. A negative value is a slow clock.
	Skew fault.Duration `json:"skew,omitempty"`
	// Restart describes how a base restarts after the kind crash. Default: the base stays stopped until a step restarts
	// it.
	Restart *fault.Restart `json:"restart,omitempty"`
	// Seed is the random seed for the probability and for random delays. Default: derived from the seed of the run.
	Seed uint64 `json:"seed,omitempty"`
	// MayNotFire lets the run pass even if the fault was never triggered. Kinds of bases that are a state are not
	// triggered, and do not accept it. Default: false.
	MayNotFire bool `json:"mayNotFire,omitempty"`
}

// FaultMatch selects what triggers a fault. An empty field matches everything.
type FaultMatch struct {
	// Commands are the matching commands to a base, such as installBiz.
	Commands []string `json:"commands,omitempty"`
	// Biz and Version are the name and the version of the matching module of a base.
	Biz     string `json:"biz,omitempty"`
	Version string `json:"version,omitempty"`
	// Messages are the last segments of the matching topics, such as installBiz, bizOperation, simpleBiz or heart. A
	// fault of a base matches messages that the base sends; over HTTP, heartbeats match heart, and answers match
	// response. A fault of the target mqtt matches messages with QoS 1; on connections of controllers, only messages to
	// and from the bases of the scenario.
	Messages []string `json:"messages,omitempty"`
	// Direction is the direction of the messages: toBroker, fromBroker or both. Default: toBroker for killBefore,
	// killAfter and note; otherwise both.
	Direction Direction `json:"direction,omitempty" jsonschema:"enum=toBroker,enum=fromBroker,enum=both"`
	// Verbs are the verbs of API requests, as in a Role. Default: all writes; for refuse with status 409, update and
	// patch.
	Verbs []string `json:"verbs,omitempty"`
	// Resource is the resource of API requests, as in a Role, such as nodes, pods or pods/status. The resource pods
	// also matches its subresources.
	Resource string `json:"resource,omitempty"`
	// Namespace is the namespace of API requests. Watches and lists of all namespaces always match.
	Namespace string `json:"namespace,omitempty"`
	// Name is a prefix of the object name in API requests. Create requests have no name.
	Name string `json:"name,omitempty"`
}

// faultSpec describes a kind of the target api or mqtt.
type faultSpec struct {
	state bool // it stays in effect until it ends
	// reads are the allowed fields, in addition to id, kind, for and mayNotFire.
	reads string
	// needs is a required field.
	needs     string
	verbs     []string
	direction Direction // the default
	beyond    bool      // it violates the contract of the API server
	kills     bool      // it kills a controller
	endless   bool      // count has no default
}

const (
	triggered = " skip count probability seed"
	watched   = " match.resource match.namespace"
	requested = triggered + watched + " match.verbs match.name"
	passed    = triggered + " match.messages match.direction"
)

var (
	apiWrites  = []string{"create", "update", "patch", "delete", "deletecollection"}
	apiChanges = []string{"update", "patch"} // requests that can fail with a conflict
	apiVerbs   = append([]string{"get", "list", "watch"}, apiWrites...)
)

var faultSpecs = map[FaultTarget]map[fault.Kind]faultSpec{
	TargetAPI: {
		APIHoldWatch:     {state: true, reads: watched, needs: "match.resource"},
		APICutWatch:      {reads: watched + " relist"},
		APIRefuse:        {reads: requested + " status retryAfter", needs: "status", verbs: apiVerbs},
		APILoseAnswer:    {reads: requested, verbs: apiWrites},
		APIKillBefore:    {reads: requested, verbs: apiWrites, kills: true},
		APIKillAfter:     {reads: requested, verbs: apiWrites, kills: true},
		APIDelay:         {reads: requested + " delay", needs: "delay", verbs: apiVerbs, endless: true},
		APIOldList:       {state: true, reads: watched, needs: "match.resource"},
		APIBlackHole:     {state: true},
		APILoseEvents:    {state: true, reads: watched, needs: "match.resource", beyond: true},
		APIDoubleEvents:  {state: true, reads: watched, needs: "match.resource", beyond: true},
		APIReorderEvents: {state: true, reads: watched, needs: "match.resource", beyond: true},
	},
	TargetMQTT: {
		MQTTCut:        {state: true},
		MQTTHalfOpen:   {state: true, reads: "match.direction", direction: BothDirections},
		MQTTHold:       {state: true, reads: "match.direction", direction: BothDirections},
		MQTTDelay:      {state: true, reads: "match.direction delay seed", needs: "delay", direction: BothDirections},
		MQTTDuplicate:  {reads: passed, direction: BothDirections},
		MQTTReorder:    {reads: passed, direction: BothDirections},
		MQTTKillBefore: {reads: passed, direction: ToBroker, kills: true},
		MQTTKillAfter:  {reads: passed, direction: ToBroker, kills: true},
		MQTTNote:       {reads: passed, direction: ToBroker},
	},
}

// Kinds lists the kinds of faults of the target, sorted.
func (t FaultTarget) Kinds() []fault.Kind {
	if t == TargetBase {
		return fault.Kinds()
	}
	return slices.Sorted(maps.Keys(faultSpecs[t]))
}

// IsState reports whether faults of the kind stay in effect until they end, instead of acting on single messages or
// requests.
func (t FaultTarget) IsState(k fault.Kind) bool {
	if t == TargetBase {
		return k.IsState()
	}
	return faultSpecs[t][k].state
}

// Kills reports whether faults of the kind kill a controller.
func (t FaultTarget) Kills(k fault.Kind) bool { return faultSpecs[t][k].kills }

// BeyondContract reports whether faults of the kind violate the contract of the API server.
func (t FaultTarget) BeyondContract(k fault.Kind) bool { return faultSpecs[t][k].beyond }

// Observed reports whether a run can detect that a fault of the kind was triggered. It cannot for states of bases.
func (t FaultTarget) Observed(k fault.Kind) bool { return t != TargetBase || !k.IsState() }

// OfBase returns the fault with the fields of package fault.
func (f *Fault) OfBase() (out fault.Fault) {
	convert(f, &out)
	return out
}

// FaultOf returns a fault of package fault as a Fault.
func FaultOf(f fault.Fault) (out Fault) {
	convert(&f, &out)
	return out
}

// convert copies the fields with the same JSON name.
func convert(from, to any) {
	text, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(text, to)
	}
	if err != nil {
		panic(fmt.Sprintf("v1alpha1: converting a fault: %v", err)) // the fields have the same types
	}
}

const (
	defaultFaultDuration = fault.Duration(30 * time.Second)
	maxFaultDuration     = fault.Duration(10 * time.Minute)
)

// SetFaultDefaults sets the default of every field that is not set. Package fakebase sets the defaults of faults of
// bases.
func SetFaultDefaults(target FaultTarget, f *Fault) {
	spec, known := faultSpecs[target][f.Kind]
	if !known {
		return
	}
	if len(f.Match.Verbs) == 0 && len(spec.verbs) > 0 {
		f.Match.Verbs = apiWrites
		if f.Status == 409 {
			f.Match.Verbs = apiChanges
		}
	}
	def(&f.Match.Direction, spec.direction)
	if strings.Contains(spec.reads, triggered) && !spec.endless {
		def(&f.Count, 1)
	}
	def(&f.For, defaultFaultDuration)
	if f.Status == 429 {
		def(&f.RetryAfter, fault.Duration(time.Second))
	}
}

// ValidateFault returns every problem of a fault that has its defaults.
func ValidateFault(target FaultTarget, f *Fault) field.ErrorList {
	v := &validator{}
	walk(reflect.ValueOf(f), "", nil, v.value)
	v.fault(target, f, nil)
	return v.errs
}

// ofBases are the allowed fields for faults of bases.
var ofBases = func() []string {
	names := fieldsOf(fault.Fault{})
	for _, name := range fieldsOf(fault.Match{}) {
		names = append(names, "match."+name)
	}
	return names
}()

// fault checks a fault of a target. It skips a fault whose kind is an expression, which is checked after the
// evaluation.
func (v *validator) fault(target FaultTarget, f *Fault, at *field.Path) {
	if f.Kind == "" || HasExpression(string(f.Kind)) {
		return
	}
	spec, known := faultSpecs[target][f.Kind]
	if !known && target != TargetBase {
		v.add(field.NotSupported(at.Child("kind"), f.Kind, target.Kinds()))
		return
	}
	v.unread(target, spec, f, at)
	if target == TargetBase {
		v.ofBase(f, at)
		return
	}
	if p := f.Probability; !(p >= 0 && p <= 1) {
		v.invalid(at.Child("probability"), p, "must be between 0 and 1")
	}
	switch {
	case f.Status != 0 && !slices.Contains([]int{409, 429, 500}, f.Status):
		v.invalid(at.Child("status"), f.Status, "must be 409, 429 or 500")
	case time.Duration(f.RetryAfter)%time.Second != 0:
		v.invalid(at.Child("retryAfter"), time.Duration(f.RetryAfter).String(), "must be whole seconds")
	}
	for _, d := range []struct {
		name  string
		value fault.Duration
	}{{"for", f.For}, {"delay", f.Delay.Min}, {"delay", f.Delay.Spread}, {"retryAfter", f.RetryAfter}} {
		if d.value < 0 || d.value > maxFaultDuration {
			v.invalid(at.Child(d.name), time.Duration(d.value).String(), "must be between 0s and %s",
				time.Duration(maxFaultDuration))
		}
	}
	if f.Status == 409 {
		spec.verbs = apiChanges
	}
	for i, verb := range f.Match.Verbs {
		if len(spec.verbs) > 0 && !HasExpression(verb) && !slices.Contains(spec.verbs, verb) {
			v.add(field.NotSupported(at.Child("match", "verbs").Index(i), verb, spec.verbs))
		}
	}
}

// unread reports fields that the kind does not read, and a missing required field.
func (v *validator) unread(target FaultTarget, spec faultSpec, f *Fault, at *field.Path) {
	names := slices.DeleteFunc(given(f), func(name string) bool { return name == "match" })
	for _, name := range given(&f.Match) {
		names = append(names, "match."+name)
	}
	reads := append(strings.Fields(spec.reads), "id", "kind", "for", "mayNotFire")
	if target == TargetBase {
		reads = ofBases
	}
	for _, name := range names {
		if !slices.Contains(reads, name) {
			v.forbid(below(at, name), "is not supported by kind %s of target %s", f.Kind, target)
		}
	}
	switch {
	case spec.needs != "" && !slices.Contains(names, spec.needs):
		v.add(field.Required(below(at, spec.needs), fmt.Sprintf("kind %s requires it", f.Kind)))
	case f.RetryAfter != 0 && f.Status != 429:
		v.forbid(at.Child("retryAfter"), "requires status 429")
	}
}

// ofBase reports the problems that package fault finds.
func (v *validator) ofBase(f *Fault, at *field.Path) {
	of := f.OfBase()
	err := of.Validate()
	for _, err := range parts(err) {
		name, detail, _ := strings.Cut(err.Error(), ": ")
		name, value, _ := strings.Cut(name, " ") // kind "x", count -1
		if HasExpression(value) {
			continue
		}
		if value != "" && !strings.HasSuffix(name, ",") {
			v.forbid(below(at, name), "%s %s", value, detail)
			continue
		}
		v.forbid(below(at, strings.TrimSuffix(name, ",")), "%s", detail)
	}
}

func parts(err error) []error {
	if joined, ok := err.(interface{ Unwrap() []error }); ok {
		return joined.Unwrap()
	}
	if err != nil {
		return []error{err}
	}
	return nil
}

// below appends a path with dots.
func below(at *field.Path, path string) *field.Path {
	first, rest, more := strings.Cut(path, ".")
	if more {
		return at.Child(first, rest)
	}
	return at.Child(path)
}
