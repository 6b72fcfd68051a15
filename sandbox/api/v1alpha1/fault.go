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

// FaultTarget is the part of the system in which a fault is injected.
type FaultTarget string

// The fault targets.
const (
	// TargetBase selects the process of a base.
	TargetBase FaultTarget = "base"
	// TargetAPI selects the connections between controllers and the Kubernetes API.
	TargetAPI FaultTarget = "api"
	// TargetMQTT selects the connections between the broker and the controllers or bases.
	TargetMQTT FaultTarget = "mqtt"
)

// FaultTargets lists all fault targets.
var FaultTargets = []FaultTarget{TargetBase, TargetAPI, TargetMQTT}

// The fault kinds for the targets api and mqtt. Package fault defines the fault kinds for the target base. A fault of
// a kind that is marked (state) stays in effect until it ends. Such a kind does not accept skip, count and
// probability.
const (
	// APIHoldWatch delays the watch events of a resource until the fault ends, and then delivers them in order (state).
	APIHoldWatch fault.Kind = "holdWatch"
	// APICutWatch closes all open watches. With `relist`, the next watch of each resource fails with 410 Gone.
	APICutWatch fault.Kind = "cutWatch"
	// APIRefuse answers a request with status 409, 429 or 500, without forwarding it to the API server.
	APIRefuse fault.Kind = "refuse"
	// APILoseAnswer forwards a write request, but closes the connection instead of returning the response.
	APILoseAnswer fault.Kind = "loseAnswer"
	// APIKillBefore kills the controller when it sends a write request, and does not forward the request.
	APIKillBefore fault.Kind = "killBefore"
	// APIKillAfter kills the controller after its write request was executed, before the response arrives.
	APIKillAfter fault.Kind = "killAfter"
	// APIDelay delays requests by Delay.
	APIDelay fault.Kind = "delay"
	// APIOldList answers list requests that have resourceVersion=0 from a snapshot taken when the fault was set
	// (state).
	APIOldList fault.Kind = "oldList"
	// APIBlackHole keeps connections open, but forwards no data until the fault ends (state).
	APIBlackHole fault.Kind = "blackHole"
	// APILoseEvents drops watch events, which no API server does (state).
	APILoseEvents fault.Kind = "loseEvents"
	// APIDoubleEvents delivers each watch event twice, which no API server does (state).
	APIDoubleEvents fault.Kind = "doubleEvents"
	// APIReorderEvents delivers every second watch event before the previous one, which no API server does (state).
	APIReorderEvents fault.Kind = "reorderEvents"

	// MQTTCut closes connections and refuses new connections (state).
	MQTTCut fault.Kind = "cut"
	// MQTTHalfOpen drops all packets, but keeps the connection open. Connections that have lost packets are closed
	// when the fault ends (state).
	MQTTHalfOpen fault.Kind = "halfOpen"
	// MQTTHold delays all packets until the fault ends, and then delivers them in order (state).
	MQTTHold fault.Kind = "hold"
	// MQTTDelay delays all packets by Delay, and keeps their order (state).
	MQTTDelay fault.Kind = "delay"
	// MQTTDuplicate delivers a message twice before it is acknowledged.
	MQTTDuplicate fault.Kind = "duplicate"
	// MQTTReorder delivers a message after the next message with a different topic, or after one second.
	MQTTReorder fault.Kind = "reorder"
	// MQTTKillBefore kills the controller instead of delivering a message.
	MQTTKillBefore fault.Kind = "killBefore"
	// MQTTKillAfter kills the controller after a message is delivered.
	MQTTKillAfter fault.Kind = "killAfter"
	// MQTTNote counts messages and delivers them unchanged, so that a step can await them.
	MQTTNote fault.Kind = "note"
)

// Direction is the direction of a message on a broker connection.
type Direction string

// The message directions.
const (
	ToBroker       Direction = "toBroker"
	FromBroker     Direction = "fromBroker"
	BothDirections Direction = "both"
)

// Fault describes a fault to inject. Its target and its kind determine which fields are allowed. Times of faults of
// the target base are divided by the speed of the sandbox; times of faults of the targets api and mqtt are not.
type Fault struct {
	// ID identifies the fault in events and steps. Default: KIND-N.
	ID string `json:"id,omitempty"`
	// Kind is the kind of the fault.
	Kind fault.Kind `json:"kind" need:"set a kind; see: koupsandbox scenario explain fault"`
	// Match limits the fault to matching commands, messages or requests. Default: all of them.
	Match FaultMatch `json:"match,omitzero"`
	// Skip is the number of matches to ignore before a match triggers the fault. Default: 0.
	Skip int `json:"skip,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// Count is the number of times that the fault is triggered before it ends. Default: no limit for the target `base`
	// (kind `crash`: 1) and for the API kind `delay`; otherwise 1.
	Count int `json:"count,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// Probability is the probability, from 0 to 1, that a match triggers the fault. Default: 1.
	Probability float64 `json:"probability,omitempty"`
	// For is the duration of the fault. Default: with the target `base`, until the fault is cleared; with `api` and
	// `mqtt`, 30s (maximum: 10m).
	For fault.Duration `json:"for,omitempty"`
	// Code is the error code that a base returns (kind `error`).
	Code string `json:"code,omitempty"`
	// Message is the exception text (kind `error`), such as "java.io.IOException: x".
	Message string `json:"message,omitempty"`
	// Status is the HTTP status (kind `refuse`): 409 (update and patch only), 429 or 500.
	Status int `json:"status,omitempty" jsonschema:"enum=409,enum=429,enum=500"`
	// RetryAfter is the value of the Retry-After header for status 429, in whole seconds. Default: 1s.
	RetryAfter fault.Duration `json:"retryAfter,omitempty"`
	// Relist makes the next watch of each resource fail with 410 Gone (kind `cutWatch`). Default: false.
	Relist bool `json:"relist,omitempty"`
	// Delay is the delay for the kinds latency, crash, slowLink, delay, reorder, stale and uninstalled.
	Delay fault.Delay `json:"delay,omitzero"`
	// Period is the time between two changes of the reported state (kind `flapping`). Default: 5s.
	Period fault.Duration `json:"period,omitempty"`
	// Skew is the clock offset (kind `clockSkew`), negative for a slow clock.
	Skew fault.Duration `json:"skew,omitempty"`
	// Restart is the automatic restart after a crash (kind `crash`). Default: the base stays stopped until a step
	// restarts it.
	Restart *fault.Restart `json:"restart,omitempty"`
	// Seed is the random seed for the probability and for delays. Default: derived from the seed of the run.
	Seed uint64 `json:"seed,omitempty"`
	// MayNotFire lets the run pass if the fault was never triggered; not allowed for state kinds of the target `base`.
	// Default: false.
	MayNotFire bool `json:"mayNotFire,omitempty"`
}

// FaultMatch selects the commands, messages or requests that trigger a fault. An empty field matches everything.
type FaultMatch struct {
	// Commands lists names of commands that a base receives, such as installBiz.
	Commands []string `json:"commands,omitempty"`
	// Biz and Version are the name and version of the module to match.
	Biz     string `json:"biz,omitempty"`
	Version string `json:"version,omitempty"`
	// Messages lists the last segments of topics, such as installBiz, simpleBiz or heart. The target `base` matches
	// messages that the base sends (over HTTP: heart and response). The target `mqtt` matches QoS 1 messages; on
	// controller connections, only messages to or from bases of the scenario.
	Messages []string `json:"messages,omitempty"`
	// Direction is the direction of messages: `toBroker`, `fromBroker` or `both`. Default: `toBroker` for
	// `killBefore`, `killAfter` and `note`; otherwise `both`.
	Direction Direction `json:"direction,omitempty" jsonschema:"enum=toBroker,enum=fromBroker,enum=both"`
	// Verbs lists the verbs of API requests, as in a Role. Default: all write verbs; for status 409, update and
	// patch.
	Verbs []string `json:"verbs,omitempty"`
	// Resource is the resource of API requests, such as nodes or pods/status. The value `pods` includes its
	// subresources.
	Resource string `json:"resource,omitempty"`
	// Namespace is the namespace of API requests. Watches and lists of all namespaces always match.
	Namespace string `json:"namespace,omitempty"`
	// Name is a prefix of the object name in API requests. Create requests have no name.
	Name string `json:"name,omitempty"`
}

// faultSpec describes a fault kind of the target api or mqtt.
type faultSpec struct {
	state bool // the fault stays in effect until it ends
	// reads lists the fields that the kind allows, in addition to id, kind, for and mayNotFire.
	reads string
	// needs is the name of a field that the kind requires.
	needs     string
	verbs     []string
	direction Direction // default of match.direction
	beyond    bool      // the kind violates the contract of the API server
	kills     bool      // the kind kills a controller
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

// Kinds lists the fault kinds of the target, sorted.
func (t FaultTarget) Kinds() []fault.Kind {
	if t == TargetBase {
		return fault.Kinds()
	}
	return slices.Sorted(maps.Keys(faultSpecs[t]))
}

// IsState reports whether faults of the kind stay in effect until they end, rather than acting on single messages or
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

// Observed reports whether a run can detect that a fault of the kind was triggered. It returns false for the state
// kinds of the target base.
func (t FaultTarget) Observed(k fault.Kind) bool { return t != TargetBase || !k.IsState() }

// OfBase converts f to a fault.Fault, the type that simulated bases use.
func (f *Fault) OfBase() (out fault.Fault) {
	convert(f, &out)
	return out
}

// FaultOf converts a fault of package fault to a Fault.
func FaultOf(f fault.Fault) (out Fault) {
	convert(&f, &out)
	return out
}

// convert copies the fields that have the same JSON name in both types.
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

// SetFaultDefaults sets the default value of every field that is not set. Package fakebase sets the defaults for
// faults of the target base.
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

// ValidateFault returns every problem of a fault. Call it after SetFaultDefaults.
func ValidateFault(target FaultTarget, f *Fault) field.ErrorList {
	v := &validator{}
	walk(reflect.ValueOf(f), "", nil, v.value)
	v.fault(target, f, nil)
	return v.errs
}

// ofBases lists the fields that are allowed in faults of the target base.
var ofBases = func() []string {
	names := fieldsOf(fault.Fault{})
	for _, name := range fieldsOf(fault.Match{}) {
		names = append(names, "match."+name)
	}
	return names
}()

// fault validates a fault of a target. If the kind is an expression, the fault is validated later, after the
// expression is evaluated.
func (v *validator) fault(target FaultTarget, f *Fault, at *field.Path) {
	if f.Kind == "" || HasExpression(string(f.Kind)) {
		return
	}
	spec, known := faultSpecs[target][f.Kind]
	if !known && target != TargetBase {
		v.add(field.NotSupported(at.Child("kind"), f.Kind, target.Kinds()))
		return
	}
	v.checkUsedFields(target, spec, f, at)
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

// checkUsedFields reports fields that the kind does not use, and a required field that is missing.
func (v *validator) checkUsedFields(target FaultTarget, spec faultSpec, f *Fault, at *field.Path) {
	names := slices.DeleteFunc(nonZeroFields(f), func(name string) bool { return name == "match" })
	for _, name := range nonZeroFields(&f.Match) {
		names = append(names, "match."+name)
	}
	reads := append(strings.Fields(spec.reads), "id", "kind", "for", "mayNotFire")
	if target == TargetBase {
		reads = ofBases
	}
	for _, name := range names {
		if !slices.Contains(reads, name) {
			v.forbid(childPath(at, name), "is not supported by kind %s of target %s", f.Kind, target)
		}
	}
	switch {
	case spec.needs != "" && !slices.Contains(names, spec.needs):
		v.add(field.Required(childPath(at, spec.needs), fmt.Sprintf("kind %s requires this field", f.Kind)))
	case f.RetryAfter != 0 && f.Status != 429:
		v.forbid(at.Child("retryAfter"), "requires status 429")
	}
}

// ofBase reports the problems that package fault finds in a fault of the target base.
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
			v.forbid(childPath(at, name), "%s %s", value, detail)
			continue
		}
		v.forbid(childPath(at, strings.TrimSuffix(name, ",")), "%s", detail)
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

// childPath appends a dotted path.
func childPath(at *field.Path, path string) *field.Path {
	first, rest, more := strings.Cut(path, ".")
	if more {
		return at.Child(first, rest)
	}
	return at.Child(path)
}
