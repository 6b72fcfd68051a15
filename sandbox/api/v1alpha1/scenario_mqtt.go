package v1alpha1

import (
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// MQTTAction disturbs the way to the broker by rules, or waits for one of them: one of Set, Clear and
// Await is given. Rules that are left at the end of the steps are cleared then.
type MQTTAction struct {
	// Set sets a rule.
	Set *MQTTRule `json:"set,omitempty" jsonschema:"oneof_required=set"`
	// Clear ends rules by their ids, or all with *.
	Clear []string `json:"clear,omitempty" jsonschema:"oneof_required=clear"`
	// Await waits until the rules with these ids have ended: they have struck as often as they may, or
	// their time is over.
	Await []string `json:"await,omitempty" jsonschema:"oneof_required=await"`
	// Bases whose way is disturbed. Default: none, but that of the controllers.
	Bases BaseNames `json:"bases,omitempty"`
	// Replica of the controller whose way is disturbed, from 1. Default: all, without Bases.
	Replica *int `json:"replica,omitempty"`
}

// MQTTRuleKind says what a rule does.
type MQTTRuleKind string

// The kinds of rules. Those marked (state) hold as long as they last and take neither messages nor skip
// nor count; the others strike messages of QoS 1. Each does only what a network, or a broker of MQTT
// 3.1.1, may do to any client.
const (
	// MQTTCut ends connections, and refuses new ones (state).
	MQTTCut MQTTRuleKind = "cut"
	// MQTTHalfOpen lets nothing through while the connection stays; what comes is lost, and a connection
	// that has lost something is ended with the rule (state).
	MQTTHalfOpen MQTTRuleKind = "halfOpen"
	// MQTTHold keeps back what comes, and delivers it in order when the rule ends (state).
	MQTTHold MQTTRuleKind = "hold"
	// MQTTDelay has everything come later, in order (state).
	MQTTDelay MQTTRuleKind = "delay"
	// MQTTDuplicate delivers a message again, marked as such, before it is acknowledged.
	MQTTDuplicate MQTTRuleKind = "duplicate"
	// MQTTReorder delivers a message after the next one of another topic: only those of one topic have
	// an order. After a second it comes in any case.
	MQTTReorder MQTTRuleKind = "reorder"
	// MQTTKillBefore kills the controller in place of a message.
	MQTTKillBefore MQTTRuleKind = "killBefore"
	// MQTTKillAfter kills the controller when a message has passed.
	MQTTKillAfter MQTTRuleKind = "killAfter"
	// MQTTNote only counts messages: await waits for it.
	MQTTNote MQTTRuleKind = "note"
)

// Direction is one of a connection to the broker.
type Direction string

// The directions.
const (
	ToBroker       Direction = "toBroker"
	FromBroker     Direction = "fromBroker"
	BothDirections Direction = "both"
)

// mqttRuleSpec says which fields a kind reads.
type mqttRuleSpec struct {
	state     bool // it lasts: no messages, skip, count
	direction Direction
	undirect  bool // it has no direction
	count     bool // it may strike more than once
	kills     bool // it is for controllers
}

var mqttRuleSpecs = map[MQTTRuleKind]mqttRuleSpec{
	MQTTCut:        {state: true, undirect: true},
	MQTTHalfOpen:   {state: true, direction: BothDirections},
	MQTTHold:       {state: true, direction: BothDirections},
	MQTTDelay:      {state: true, direction: BothDirections},
	MQTTDuplicate:  {direction: BothDirections, count: true},
	MQTTReorder:    {direction: BothDirections, count: true},
	MQTTKillBefore: {direction: ToBroker, kills: true},
	MQTTKillAfter:  {direction: ToBroker, kills: true},
	MQTTNote:       {direction: ToBroker, count: true},
}

// Lasts tells whether rules of the kind hold as long as they last.
func (k MQTTRuleKind) Lasts() bool { return mqttRuleSpecs[k].state }

// Kills tells whether rules of the kind kill a controller.
func (k MQTTRuleKind) Kills() bool { return mqttRuleSpecs[k].kills }

// MQTTRule is a disturbance of the way to the broker. Times are real ones at any speed of the sandbox.
type MQTTRule struct {
	// ID names the rule in events, for Clear and Await. Default: its kind.
	ID string `json:"id,omitempty"`
	// Kind says what it does: cut, halfOpen, hold, delay, duplicate, reorder, killBefore, killAfter or
	// note.
	Kind MQTTRuleKind `json:"kind" jsonschema:"enum=cut,enum=halfOpen,enum=hold,enum=delay,enum=duplicate,enum=reorder,enum=killBefore,enum=killAfter,enum=note" need:"one of cut, halfOpen, hold, delay, duplicate, reorder, killBefore, killAfter, note"`
	// Direction that it disturbs: toBroker, fromBroker or both. Default: both; of killBefore, killAfter
	// and note toBroker.
	Direction Direction `json:"direction,omitempty" jsonschema:"enum=toBroker,enum=fromBroker,enum=both"`
	// Messages that it strikes, by the last parts of their topics, such as installBiz, bizOperation or
	// heart. Default: all. Of a controller, those to and from the bases of the scenario.
	Messages []string `json:"messages,omitempty"`
	// Skip is how many matching messages pass first. Default: none.
	Skip int `json:"skip,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// Count is how often it strikes before it ends. Default: once.
	Count int `json:"count,omitempty" jsonschema:"minimum=1,maximum=1000000"`
	// For is how long it lasts, at most 10m.
	For *metav1.Duration `json:"for,omitempty" jsonschema:"default=30s" check:"positive"`
	// Delay of delay.
	Delay *metav1.Duration `json:"delay,omitempty" check:"positive"`
	// MayNotFire keeps a run from failing when the rule has done nothing by its end. Default: false.
	MayNotFire bool `json:"mayNotFire,omitempty"`
}

// SetMQTTRuleDefaults fills what is not given.
func SetMQTTRuleDefaults(r *MQTTRule) {
	spec := mqttRuleSpecs[r.Kind]
	def(&r.ID, string(r.Kind))
	def(&r.Direction, spec.direction)
	if _, known := mqttRuleSpecs[r.Kind]; known && !spec.state {
		def(&r.Count, 1)
	}
	if r.For == nil {
		r.For = &metav1.Duration{Duration: 30 * time.Second}
	}
}

// ValidateMQTTRule reports every problem of a rule that has its defaults.
func ValidateMQTTRule(r *MQTTRule) field.ErrorList {
	v := &validator{}
	walk(reflect.ValueOf(r), "", nil, v.value)
	v.mqttRule(r, nil)
	return v.errs
}

// DisturbsAll says that a rule for controllers strikes what they do for any base.
func (a *MQTTAction) DisturbsAll() bool {
	return a.Set != nil && len(a.Bases) == 0 && (a.Set.Kind.Lasts() || a.Set.Kind.Kills())
}

func (v *validator) mqttAction(a *MQTTAction, at *field.Path) {
	const rule = "sets a rule, clears some, or awaits some"
	var given []string
	for name, is := range map[string]bool{"set": a.Set != nil, "clear": len(a.Clear) > 0, "await": len(a.Await) > 0} {
		if is {
			given = append(given, name)
		}
	}
	slices.Sort(given)
	switch {
	case len(given) == 0:
		v.add(field.Required(at, rule+"; say which: set, clear, await"))
	case len(given) > 1:
		v.forbid(at, "%s, but has %s", rule, strings.Join(given, " and "))
	}
	if a.Replica != nil {
		v.replica(a.Replica, at)
		if len(given) > 0 && a.Set == nil {
			v.forbid(at.Child("replica"), "is for set only")
		}
		if len(a.Bases) > 0 {
			v.forbid(at.Child("replica"), "is of the controller, and bases are named: leave one of them out")
		}
	}
	if len(a.Bases) > 0 && a.Set == nil {
		v.forbid(at.Child("bases"), "is for set only")
	}
	if len(a.Bases) > 0 {
		v.bases(a.Bases, at.Child("bases"))
	}
	for name, ids := range map[string][]string{"clear": a.Clear, "await": a.Await} {
		for i, id := range ids {
			if _, known := v.ways[id]; !known && (id != "*" || name != "clear") && !HasExpression(id) {
				v.invalid(at.Child(name).Index(i), id, "no step sets a rule of this id")
			}
		}
	}
	if a.Set == nil {
		return
	}
	v.mqttRule(a.Set, at.Child("set"))
	if a.Set.Kind.Kills() && len(a.Bases) > 0 {
		v.forbid(at.Child("bases"), "%s kills a controller: the base has the fault crash for that", a.Set.Kind)
	}
}

func (v *validator) mqttRule(r *MQTTRule, at *field.Path) {
	spec, known := mqttRuleSpecs[r.Kind]
	if !known { // as its tag has said
		return
	}
	reject := func(used bool, name string) {
		if used {
			v.forbid(at.Child(name), "has no meaning for kind %s", r.Kind)
		}
	}
	reject(spec.state && len(r.Messages) > 0, "messages")
	reject(spec.state && r.Skip != 0, "skip")
	reject(!spec.count && r.Count > 1 || spec.state && r.Count != 0, "count")
	reject(spec.undirect && r.Direction != "", "direction")
	reject(r.Kind != MQTTDelay && r.Delay != nil, "delay")
	switch {
	case r.ID == "*":
		v.invalid(at.Child("id"), r.ID, "means all rules where they are cleared: give it a name")
	case r.Kind == MQTTDelay && r.Delay == nil:
		v.add(field.Required(at.Child("delay"), "say how much later everything comes"))
	}
	for name, d := range map[string]*metav1.Duration{"for": r.For, "delay": r.Delay} {
		if d != nil && d.Duration > maxAPIRuleTime {
			v.invalid(at.Child(name), d.Duration.String(), "must be at most %s, so that nothing hangs for ever", maxAPIRuleTime)
		}
	}
}
