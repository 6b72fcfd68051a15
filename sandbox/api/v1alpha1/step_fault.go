package v1alpha1

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation/field"
)

// FaultAction sets, clears or awaits faults. Exactly one field is set. Faults of the targets api and mqtt are cleared
// after the last step.
type FaultAction struct {
	// Set sets a fault.
	Set *FaultSet `json:"set,omitempty" jsonschema:"oneof_required=set"`
	// Clear ends the faults of the scenario that match the selector.
	Clear *FaultSelector `json:"clear,omitempty" jsonschema:"oneof_required=clear"`
	// Await waits until the faults of the scenario that match the selector have ended, because their count or their
	// duration is reached.
	Await *FaultSelector `json:"await,omitempty" jsonschema:"oneof_required=await"`
}

// FaultSet sets a fault.
type FaultSet struct {
	// Target is the target of the fault: base, api (connections between controllers and the Kubernetes API), or mqtt
	// (broker connections).
	Target FaultTarget `json:"target,omitempty" jsonschema:"enum=base,enum=api,enum=mqtt,default=base"`
	// Bases selects the affected bases. It is required for the target base. Default for mqtt: none; the fault affects
	// the connections of controllers.
	Bases BaseNames `json:"bases,omitempty"`
	// Replica is the number of the affected controller replica, starting at 1. It applies to the targets api and
	// mqtt. Default: all replicas.
	Replica *int `json:"replica,omitempty"`
	// Fault describes the fault: kind, match, count and so on. See koupsandbox scenario explain fault.
	Fault Fault `json:"fault"`
}

// FaultSelector selects the faults that match all of its fields.
type FaultSelector struct {
	// Target selects faults by their target. Default: all targets.
	Target FaultTarget `json:"target,omitempty" jsonschema:"enum=base,enum=api,enum=mqtt"`
	// Bases selects faults by the bases that they affect. Default: all bases and controllers.
	Bases BaseNames `json:"bases,omitempty"`
	// IDs selects faults by their IDs. Default: all IDs.
	IDs []string `json:"ids,omitempty"`
}

func (a *FaultAction) title(kind string) string {
	if len(nonZeroFields(a)) == 0 {
		return kind
	}
	if s := a.Set; s != nil {
		on := strings.Join(s.Bases, ", ")
		if s.Target != TargetBase {
			on = strings.TrimSpace(string(s.Target) + " " + on)
		}
		return fmt.Sprintf("set fault %s on %s", s.Fault.Kind, on)
	}
	s := a.Clear
	if s == nil {
		s = a.Await
	}
	text := a.verb() + " faults " + strings.Join(s.IDs, ", ")
	if len(s.Bases) > 0 {
		text = strings.TrimSpace(text) + " of " + strings.Join(s.Bases, ", ")
	}
	return strings.TrimSpace(text)
}

func (a *FaultAction) setDefaults(*Step, *ScenarioSpec) {
	if a.Set != nil {
		SetFaultDefaults(a.Set.Target, &a.Set.Fault)
	}
}

func (a *FaultAction) collect(n *Names, _ *field.Path) {
	if a.Set != nil {
		n.Faults[a.Set.Fault.ID] = true
	}
}

func (a *FaultAction) validate(v *validator, _ *Step, at *field.Path) {
	if !v.exactlyOne(a, at, "fault needs exactly one action") {
		return
	}
	if a.Set != nil {
		v.faultSet(a.Set, at.Child("set"))
		return
	}
	s, at := a.Clear, at.Child(a.verb())
	if a.Await != nil {
		s = a.Await
		if len(s.IDs) == 0 {
			v.add(field.Required(at.Child("ids"), "set the IDs of the faults to wait for"))
		}
	}
	if len(s.Bases) > 0 {
		v.bases(s.Bases, at.Child("bases"))
	}
	for i, id := range s.IDs {
		if !v.names.Faults[id] && !HasExpression(id) {
			v.invalid(at.Child("ids").Index(i), id, "no step sets a fault with this ID")
		}
	}
}

// verb returns the YAML name of the field that is set: set, clear or await.
func (a *FaultAction) verb() string { return nonZeroFields(a)[0] }

func (v *validator) faultSet(s *FaultSet, at *field.Path) {
	if s.Target == TargetBase || len(s.Bases) > 0 {
		v.bases(s.Bases, at.Child("bases"))
	}
	switch {
	case s.Target == TargetAPI && len(s.Bases) > 0:
		v.forbid(at.Child("bases"), "is not supported by target api: bases have no connections to the API")
	case s.Replica == nil:
	case s.Target == TargetBase:
		v.forbid(at.Child("replica"), "is not supported by target base")
	case len(s.Bases) > 0:
		v.forbid(at.Child("replica"), "selects a controller, but bases are set; remove one of them")
	default:
		v.replica(s.Replica, at)
	}
	if len(s.Bases) > 0 && s.Target.Kills(s.Fault.Kind) {
		v.forbid(at.Child("bases"), "%s kills a controller; to stop a base, use the fault crash", s.Fault.Kind)
	}
	if slices.Contains(FaultTargets, s.Target) {
		v.fault(s.Target, &s.Fault, at.Child("fault"))
	}
}

func (v *validator) replica(n *int, at *field.Path) {
	most := 1
	if needs := v.scenario.Spec.Controller; needs != nil && needs.Replicas != nil {
		most = *needs.Replicas
	}
	if n != nil && (*n < 1 || *n > most) {
		v.invalid(at.Child("replica"), *n, "must be between 1 and %d; set the number in spec.controller.replicas", most)
	}
}

func (a *FaultAction) disrupts() disruption {
	if a.Set == nil {
		return disruption{}
	}
	kind, target := a.Set.Fault.Kind, a.Set.Target
	ofControllers := target == TargetMQTT && len(a.Set.Bases) == 0 && (target.IsState(kind) || target.Kills(kind))
	return disruption{sandbox: target == TargetAPI || ofControllers, proxy: target == TargetAPI}
}
