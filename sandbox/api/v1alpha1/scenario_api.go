package v1alpha1

import (
	"reflect"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// APIAction disturbs what the controllers see of the Kubernetes API, by rules of a proxy in front of
// them, or waits until they leave it alone: one of Set, Clear and Quiet is given. Rules that are left
// at the end of the steps are cleared then.
type APIAction struct {
	// Set sets a rule.
	Set *APIRule `json:"set,omitempty" jsonschema:"oneof_required=set"`
	// Clear ends rules by their ids, or all with *.
	Clear []string `json:"clear,omitempty" jsonschema:"oneof_required=clear"`
	// Quiet waits until the controllers have written nothing but Leases for so long.
	Quiet *metav1.Duration `json:"quiet,omitempty" jsonschema:"oneof_required=quiet" check:"positive"`
	// Replica of the controller that the rule is for, from 1. Default: all.
	Replica *int `json:"replica,omitempty"`
}

// APIRuleKind says what a rule does.
type APIRuleKind string

// The kinds of rules. Those marked (state) hold as long as they last and take neither skip nor count;
// the others strike requests. Each does only what the API may do to any client, but for those of which
// BeyondContract is true.
const (
	// APIHoldWatch keeps the events of watches back, and delivers them in order when it ends (state).
	// Other resources go on, so that the view is stale in a part.
	APIHoldWatch APIRuleKind = "holdWatch"
	// APICutWatch ends the watches that are open when it is set. With relist the next of each is
	// answered 410 Gone, so that the controller lists anew.
	APICutWatch APIRuleKind = "cutWatch"
	// APIRefuse answers a request itself: 409, 429 or 500. The API server never sees it.
	APIRefuse APIRuleKind = "refuse"
	// APILoseAnswer has the API server do a write, and breaks the request off in place of its answer.
	APILoseAnswer APIRuleKind = "loseAnswer"
	// APIKillBefore kills the controller in place of a write.
	APIKillBefore APIRuleKind = "killBefore"
	// APIKillAfter kills the controller when a write of its is done, before it knows.
	APIKillAfter APIRuleKind = "killAfter"
	// APIDelay passes requests on later.
	APIDelay APIRuleKind = "delay"
	// APIOldList keeps the lists that the controller has read, as they are when the rule is set, and
	// answers lists with resourceVersion=0 by them: what a restarted client may get from an API
	// server that is behind (state). A watch from there brings the rest: hold it too.
	APIOldList APIRuleKind = "oldList"
	// APIBlackHole lets nothing through in either direction, while connections stay and new ones are
	// accepted (state).
	APIBlackHole APIRuleKind = "blackHole"
	// APILoseEvents drops the events of watches, which go on (state). No API server does it.
	APILoseEvents APIRuleKind = "loseEvents"
	// APIDoubleEvents has the events of watches come twice (state). No API server does it.
	APIDoubleEvents APIRuleKind = "doubleEvents"
	// APIReorderEvents has every second event of a watch overtake the one before (state). No API server
	// does it.
	APIReorderEvents APIRuleKind = "reorderEvents"
)

// apiRuleSpec says which fields a kind reads.
type apiRuleSpec struct {
	state    bool // it lasts: no skip, no count
	match    bool // resource and namespace
	verbs    []string
	name     bool
	resource bool // it must be given
	beyond   bool // no API server does it
}

var (
	apiWrites  = []string{"create", "update", "patch", "delete", "deletecollection"}
	apiChanges = []string{"update", "patch"} // what may conflict with another write
	apiCodes   = []int{409, 429, 500}
	apiVerbs   = append([]string{"get", "list", "watch"}, apiWrites...)
)

var apiRuleSpecs = map[APIRuleKind]apiRuleSpec{
	APIHoldWatch:  {state: true, match: true, resource: true},
	APICutWatch:   {match: true},
	APIRefuse:     {match: true, name: true, verbs: apiVerbs},
	APILoseAnswer: {match: true, name: true, verbs: apiWrites},
	APIKillBefore: {match: true, name: true, verbs: apiWrites},
	APIKillAfter:  {match: true, name: true, verbs: apiWrites},
	APIDelay:      {match: true, name: true, verbs: apiVerbs},
	APIOldList:    {state: true, match: true, resource: true},
	APIBlackHole:  {state: true},

	APILoseEvents:    {state: true, match: true, resource: true, beyond: true},
	APIDoubleEvents:  {state: true, match: true, resource: true, beyond: true},
	APIReorderEvents: {state: true, match: true, resource: true, beyond: true},
}

// Lasts tells whether rules of the kind hold as long as they last.
func (k APIRuleKind) Lasts() bool { return apiRuleSpecs[k].state }

// BeyondContract tells whether rules of the kind do what no API server does to its clients.
func (k APIRuleKind) BeyondContract() bool { return apiRuleSpecs[k].beyond }

// maxAPIRuleTime is the longest time of a rule: nothing hangs for ever.
const maxAPIRuleTime = 10 * time.Minute

// APIRule is a disturbance of what controllers see of the Kubernetes API. Times are real ones at any
// speed of the sandbox.
type APIRule struct {
	// ID names the rule in events and for Clear. Default: its kind.
	ID string `json:"id,omitempty"`
	// Kind says what it does: holdWatch, cutWatch, refuse, loseAnswer, killBefore, killAfter, delay,
	// oldList or blackHole; and, which no API server does, loseEvents, doubleEvents or reorderEvents.
	Kind APIRuleKind `json:"kind" jsonschema:"enum=holdWatch,enum=cutWatch,enum=refuse,enum=loseAnswer,enum=killBefore,enum=killAfter,enum=delay,enum=oldList,enum=blackHole,enum=loseEvents,enum=doubleEvents,enum=reorderEvents" need:"one of holdWatch, cutWatch, refuse, loseAnswer, killBefore, killAfter, delay, oldList, blackHole, loseEvents, doubleEvents, reorderEvents"`
	// Verbs that it strikes, as in a Role. Default: all writes; of refuse with code 409 update and
	// patch.
	Verbs []string `json:"verbs,omitempty"`
	// Resource that it strikes, as in a Role, such as nodes, pods or pods/status; pods has those with
	// a subresource too. Default: all.
	Resource string `json:"resource,omitempty"`
	// Namespace of the objects. Default: all; watches and lists of all namespaces are in any.
	Namespace string `json:"namespace,omitempty"`
	// Name is how the names of the objects begin. A create has no name yet. Default: any.
	Name string `json:"name,omitempty"`
	// Skip is how many matching requests pass first. Default: none.
	Skip int `json:"skip,omitempty" jsonschema:"minimum=0,maximum=1000000"`
	// Count is how often it strikes before it ends. Default: once; a delay has no limit.
	Count int `json:"count,omitempty" jsonschema:"minimum=1,maximum=1000000"`
	// For is how long it lasts, at most 10m.
	For *metav1.Duration `json:"for,omitempty" jsonschema:"default=30s" check:"positive"`
	// Code of refuse: 409, 429 or 500.
	Code int `json:"code,omitempty" jsonschema:"enum=409,enum=429,enum=500"`
	// RetryAfter is in whole seconds what 429 tells the client to wait. Default: 1s.
	RetryAfter *metav1.Duration `json:"retryAfter,omitempty" check:"positive"`
	// Delay of delay.
	Delay *metav1.Duration `json:"delay,omitempty" check:"positive"`
	// Relist has cutWatch answer the next watch of each with 410 Gone. Default: false.
	Relist bool `json:"relist,omitempty"`
	// MayNotFire keeps a run from failing when the rule has done nothing by its end. Default: false.
	MayNotFire bool `json:"mayNotFire,omitempty"`
}

// SetAPIRuleDefaults fills what is not given.
func SetAPIRuleDefaults(r *APIRule) {
	def(&r.ID, string(r.Kind))
	if spec := apiRuleSpecs[r.Kind]; len(r.Verbs) == 0 && len(spec.verbs) > 0 {
		r.Verbs = apiWrites
		if r.Kind == APIRefuse && r.Code == 409 {
			r.Verbs = apiChanges
		}
	}
	if slices.Contains([]APIRuleKind{APIRefuse, APILoseAnswer, APIKillBefore, APIKillAfter}, r.Kind) {
		def(&r.Count, 1)
	}
	if r.For == nil {
		r.For = &metav1.Duration{Duration: 30 * time.Second}
	}
	if r.Code == 429 && r.RetryAfter == nil {
		r.RetryAfter = &metav1.Duration{Duration: time.Second}
	}
}

// ValidateAPIRule reports every problem of a rule that has its defaults.
func ValidateAPIRule(r *APIRule) field.ErrorList {
	v := &validator{}
	walk(reflect.ValueOf(r), "", nil, v.value)
	v.apiRule(r, nil)
	return v.errs
}

func (v *validator) apiAction(a *APIAction, at *field.Path) {
	const rule = "sets a rule, clears some, or waits for quiet"
	var given []string
	for name, is := range map[string]bool{"set": a.Set != nil, "clear": len(a.Clear) > 0, "quiet": a.Quiet != nil} {
		if is {
			given = append(given, name)
		}
	}
	slices.Sort(given)
	switch {
	case len(given) == 0:
		v.add(field.Required(at, rule+"; say which: set, clear, quiet"))
	case len(given) > 1:
		v.forbid(at, "%s, but has %s", rule, strings.Join(given, " and "))
	}
	if a.Replica != nil {
		v.replica(a.Replica, at)
		if len(given) > 0 && a.Set == nil {
			v.forbid(at.Child("replica"), "is for set only")
		}
	}
	for i, id := range a.Clear {
		if _, known := v.rules[id]; !known && id != "*" && !HasExpression(id) {
			v.invalid(at.Child("clear").Index(i), id, "no step sets a rule of this id; * clears all")
		}
	}
	if a.Set != nil {
		v.apiRule(a.Set, at.Child("set"))
	}
}

// replica checks the number of a controller.
func (v *validator) replica(n *int, at *field.Path) {
	most := 1
	if needs := v.scenario.Spec.Controller; needs != nil && needs.Replicas != nil {
		most = *needs.Replicas
	}
	if n != nil && (*n < 1 || *n > most) {
		v.invalid(at.Child("replica"), *n, "there are %d: say so in spec.controller.replicas", most)
	}
}

func (v *validator) apiRule(r *APIRule, at *field.Path) {
	spec, known := apiRuleSpecs[r.Kind]
	if !known { // as its tag has said
		return
	}
	reject := func(used bool, name string) {
		if used {
			v.forbid(at.Child(name), "has no meaning for kind %s", r.Kind)
		}
	}
	reject(spec.state && r.Skip != 0, "skip")
	reject((spec.state || r.Kind == APICutWatch) && r.Count != 0, "count")
	reject(r.Kind == APICutWatch && r.Skip != 0, "skip")
	reject(!spec.match && r.Resource != "", "resource")
	reject(!spec.match && r.Namespace != "", "namespace")
	reject(!spec.name && r.Name != "", "name")
	reject(len(spec.verbs) == 0 && len(r.Verbs) > 0, "verbs")
	reject(r.Kind != APIRefuse && r.Code != 0, "code")
	reject(r.Code != 429 && r.RetryAfter != nil, "retryAfter")
	reject(r.Kind != APIDelay && r.Delay != nil, "delay")
	reject(r.Kind != APICutWatch && r.Relist, "relist")
	switch {
	case r.ID == "*":
		v.invalid(at.Child("id"), r.ID, "means all rules where they are cleared: give it a name")
	case spec.resource && r.Resource == "":
		v.add(field.Required(at.Child("resource"), "say which resource, such as nodes"))
	case r.Kind == APIRefuse && r.Code == 0:
		v.add(field.Required(at.Child("code"), "409, 429 or 500"))
	case r.Kind == APIRefuse && !slices.Contains(apiCodes, r.Code):
		v.invalid(at.Child("code"), r.Code, "must be 409, 429 or 500")
	case r.Kind == APIDelay && r.Delay == nil:
		v.add(field.Required(at.Child("delay"), "say how long a request waits"))
	}
	if r.RetryAfter != nil && r.RetryAfter.Duration%time.Second != 0 {
		v.invalid(at.Child("retryAfter"), r.RetryAfter.Duration.String(), "must be whole seconds")
	}
	for name, d := range map[string]*metav1.Duration{"for": r.For, "delay": r.Delay} {
		if d != nil && d.Duration > maxAPIRuleTime {
			v.invalid(at.Child(name), d.Duration.String(), "must be at most %s, so that nothing hangs for ever", maxAPIRuleTime)
		}
	}
	verbs := spec.verbs
	if r.Kind == APIRefuse && r.Code == 409 {
		verbs = apiChanges
	}
	for i, verb := range r.Verbs {
		if len(verbs) > 0 && !HasExpression(verb) && !slices.Contains(verbs, verb) {
			v.add(field.NotSupported(at.Child("verbs").Index(i), verb, verbs))
		}
	}
}
