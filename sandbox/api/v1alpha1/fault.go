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

// FaultTarget is the part of the system that a fault acts on.
type FaultTarget string

// The targets of faults.
const (
	// TargetBase: the process of a base.
	TargetBase FaultTarget = "base"
	// TargetAPI: the connections of controllers to the Kubernetes API.
	TargetAPI FaultTarget = "api"
	// TargetMQTT: the connections of controllers or bases to the broker.
	TargetMQTT FaultTarget = "mqtt"
)

// FaultTargets lists the targets.
var FaultTargets = []FaultTarget{TargetBase, TargetAPI, TargetMQTT}

// The kinds of faults of the targets api and mqtt; package fault has those of bases. Kinds that are
// marked (state) hold until they end and take neither skip nor count nor probability.
const (
	// APIHoldWatch holds the events of watches back, and delivers them in order when the fault ends.
	// Watches of other resources continue (state).
	APIHoldWatch fault.Kind = "holdWatch"
	// APICutWatch ends the open watches. With relist the next watch of each is answered 410 Gone, so that the
	// controller lists again.
	APICutWatch fault.Kind = "cutWatch"
	// APIRefuse answers a request with status 409, 429 or 500 in place of the API server.
	APIRefuse fault.Kind = "refuse"
	// APILoseAnswer breaks the connection in place of the answer to a write that the API server has done.
	APILoseAnswer fault.Kind = "loseAnswer"
	// APIKillBefore kills the controller in place of a write.
	APIKillBefore fault.Kind = "killBefore"
	// APIKillAfter kills the controller when the API server has done its write, before it has the answer.
	APIKillAfter fault.Kind = "killAfter"
	// APIDelay delays requests by delay.
	APIDelay fault.Kind = "delay"
	// APIOldList answers lists with resourceVersion=0 as they were when the fault was set: what a restarted
	// client may get from an API server that lags. A watch brings the rest, so hold it too (state).
	APIOldList fault.Kind = "oldList"
	// APIBlackHole lets nothing through in either direction, while connections stay open and new ones are
	// accepted. What was sent arrives when the fault ends (state).
	APIBlackHole fault.Kind = "blackHole"
	// APILoseEvents drops the events of watches. No API server does it (state).
	APILoseEvents fault.Kind = "loseEvents"
	// APIDoubleEvents delivers the events of watches twice. No API server does it (state).
	APIDoubleEvents fault.Kind = "doubleEvents"
	// APIReorderEvents delivers every second event of a watch before the previous one. No API server does
	// it (state).
	APIReorderEvents fault.Kind = "reorderEvents"

	// MQTTCut ends connections, and refuses new ones (state).
	MQTTCut fault.Kind = "cut"
	// MQTTHalfOpen drops everything while the connection stays open. A connection that has lost something
	// is closed when the fault ends (state).
	MQTTHalfOpen fault.Kind = "halfOpen"
	// MQTTHold holds everything back, and delivers it in order when the fault ends (state).
	MQTTHold fault.Kind = "hold"
	// MQTTDelay delays everything by delay, in order (state).
	MQTTDelay fault.Kind = "delay"
	// MQTTDuplicate delivers a message again, marked as a duplicate, before it is acknowledged.
	MQTTDuplicate fault.Kind = "duplicate"
	// MQTTReorder delivers a message after the next one of another topic, or after a second: only the messages of
	// one topic have an order.
	MQTTReorder fault.Kind = "reorder"
	// MQTTKillBefore kills the controller in place of a message.
	MQTTKillBefore fault.Kind = "killBefore"
	// MQTTKillAfter kills the controller when a message has passed.
	MQTTKillAfter fault.Kind = "killAfter"
	// MQTTNote counts messages and lets them pass: await waits for them.
	MQTTNote fault.Kind = "note"
)

// Direction is one of a connection to the broker.
type Direction string

// The directions.
const (
	ToBroker       Direction = "toBroker"
	FromBroker     Direction = "fromBroker"
	BothDirections Direction = "both"
)

// Fault is one thing that goes wrong. Its target and its kind decide which fields have a meaning.
// Times of bases are divided by the speed of the sandbox, those of the targets api and mqtt are not.
type Fault struct {
	// ID names the fault in events, and to clear or await it. Default: KIND-N.
	ID string `json:"id,omitempty"`
	// Kind is what goes wrong. Each target has its own kinds.
	Kind fault.Kind `json:"kind" need:"say what goes wrong; see: koupsandbox scenario explain fault"`
	// Match narrows the fault down. Default: everything.
	Match FaultMatch `json:"match,omitzero"`
	// Skip is how many matches pass before the fault is triggered. Default: none.
	Skip int `json:"skip,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// Count is how often the fault is triggered before it ends. Default: without limit for bases (crash: once)
	// and the kind delay of the API; otherwise once.
	Count int `json:"count,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// Probability is the share of the matches that trigger the fault. Default: 1, all.
	Probability float64 `json:"probability,omitempty"`
	// For is how long the fault is in effect. Default: until it is cleared for bases; 30s for api and
	// mqtt, where 10m is the maximum.
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
	// Relist has cutWatch answer the next watch of each with 410 Gone. Default: false.
	Relist bool `json:"relist,omitempty"`
	// Delay is the time of the kinds latency, crash, slowLink, delay, reorder and stale.
	Delay fault.Delay `json:"delay,omitzero"`
	// Period is the half period of the kind flapping. Default: 5s.
	Period fault.Duration `json:"period,omitempty"`
	// Skew is the clock error of the kind clockSkew; negative = slow.
	Skew fault.Duration `json:"skew,omitempty"`
	// Restart says how the process of a base returns after the kind crash. Default: it stays down until
	// the base is restarted.
	Restart *fault.Restart `json:"restart,omitempty"`
	// Seed makes probability and random delays repeatable. Default: from the seed of the run.
	Seed uint64 `json:"seed,omitempty"`
	// MayNotFire lets a run pass although the fault was never triggered. Default: false. Kinds of
	// bases that are a state are not triggered, and do not take it.
	MayNotFire bool `json:"mayNotFire,omitempty"`
}

// FaultMatch narrows a fault down. An empty field matches everything.
type FaultMatch struct {
	// Commands are the commands to a base that match, such as installBiz.
	Commands []string `json:"commands,omitempty"`
	// Biz and Version are the module, of a base, that matches.
	Biz     string `json:"biz,omitempty"`
	Version string `json:"version,omitempty"`
	// Messages are the last parts of the topics that match, such as installBiz, bizOperation, simpleBiz or heart.
	// A fault of a base matches messages that it sends; over HTTP a heartbeat is a heart and an answer a response. A
	// fault of the target mqtt matches messages of QoS 1, of controllers those to and from the bases of the scenario.
	Messages []string `json:"messages,omitempty"`
	// Direction of a connection to the broker: toBroker, fromBroker or both. Default: both; of killBefore,
	// killAfter and note toBroker.
	Direction Direction `json:"direction,omitempty" jsonschema:"enum=toBroker,enum=fromBroker,enum=both"`
	// Verbs of requests to the API, as in a Role. Default: all writes; of refuse with status 409 update
	// and patch.
	Verbs []string `json:"verbs,omitempty"`
	// Resource of the API, as in a Role, such as nodes, pods or pods/status; pods matches the subresources
	// too.
	Resource string `json:"resource,omitempty"`
	// Namespace of objects of the API. Watches and lists of all namespaces match any.
	Namespace string `json:"namespace,omitempty"`
	// Name is a prefix of the names of objects of the API. A create has no name yet.
	Name string `json:"name,omitempty"`
}

// faultSpec describes the fields that a kind of the target api or mqtt reads.
type faultSpec struct {
	state bool // it holds until it ends
	// reads are the fields that it reads, besides id, kind, for and mayNotFire.
	reads string
	// needs is a field that must be given.
	needs     string
	verbs     []string
	direction Direction // the default
	beyond    bool      // no API server does it
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
	apiChanges = []string{"update", "patch"} // what may conflict with another write
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

// Lasts reports whether faults of the kind hold until they end, instead of being triggered.
func (t FaultTarget) Lasts(k fault.Kind) bool {
	if t == TargetBase {
		return k.IsState()
	}
	return faultSpecs[t][k].state
}

// Kills reports whether faults of the kind kill a controller.
func (t FaultTarget) Kills(k fault.Kind) bool { return faultSpecs[t][k].kills }

// BeyondContract reports whether faults of the kind do what no API server does to its clients.
func (t FaultTarget) BeyondContract(k fault.Kind) bool { return faultSpecs[t][k].beyond }

// Observed reports whether a run learns whether a fault of the kind was triggered. It does not for states of bases.
func (t FaultTarget) Observed(k fault.Kind) bool { return t != TargetBase || !k.IsState() }

// OfBase returns the fault for a base. It has the fields that package fault knows.
func (f *Fault) OfBase() (out fault.Fault) {
	convert(f, &out)
	return out
}

// FaultOf returns the fault of a base.
func FaultOf(f fault.Fault) (out Fault) {
	convert(&f, &out)
	return out
}

// convert copies the fields that two types share.
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
	defaultFaultTime = fault.Duration(30 * time.Second)
	maxFaultTime     = fault.Duration(10 * time.Minute)
)

// SetFaultDefaults sets the fields of a fault that are not given. A base sets those of its faults.
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
	def(&f.For, defaultFaultTime)
	if f.Status == 429 {
		def(&f.RetryAfter, fault.Duration(time.Second))
	}
}

// ValidateFault reports every problem of a fault that has its defaults.
func ValidateFault(target FaultTarget, f *Fault) field.ErrorList {
	v := &validator{}
	walk(reflect.ValueOf(f), "", nil, v.value)
	v.fault(target, f, nil)
	return v.errs
}

// ofBases are the fields that faults of bases read.
var ofBases = func() []string {
	names := fieldsOf(fault.Fault{})
	for _, name := range fieldsOf(fault.Match{}) {
		names = append(names, "match."+name)
	}
	return names
}()

// fault checks a fault of a target. A fault whose kind is an expression is checked after its evaluation.
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
		if d.value < 0 || d.value > maxFaultTime {
			v.invalid(at.Child(d.name), time.Duration(d.value).String(), "must be between 0s and %s",
				time.Duration(maxFaultTime))
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
			v.forbid(below(at, name), "has no meaning for kind %s of target %s", f.Kind, target)
		}
	}
	switch {
	case spec.needs != "" && !slices.Contains(names, spec.needs):
		v.add(field.Required(below(at, spec.needs), fmt.Sprintf("kind %s needs it", f.Kind)))
	case f.RetryAfter != 0 && f.Status != 429:
		v.forbid(at.Child("retryAfter"), "has no meaning without status 429")
	}
}

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

// below appends a path that is written out.
func below(at *field.Path, path string) *field.Path {
	first, rest, more := strings.Cut(path, ".")
	if more {
		return at.Child(first, rest)
	}
	return at.Child(path)
}
