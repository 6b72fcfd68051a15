package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TrafficAction starts or stops requests: exactly one field is set.
type TrafficAction struct {
	Start *Traffic     `json:"start,omitempty" jsonschema:"oneof_required=start"`
	Stop  *TrafficStop `json:"stop,omitempty" jsonschema:"oneof_required=stop"`
}

// Via says which way requests take to a module.
type Via string

// The ways.
const (
	// ViaService sends to a Service, which picks an endpoint as kube-proxy does.
	ViaService Via = "service"
	// ViaBases sends to every base in turn, whatever its Pods say, as a load balancer in front of
	// the base application does.
	ViaBases Via = "bases"
)

// Traffic is a stream of requests to a module, at a fixed rate. A request never waits for another's
// answer.
type Traffic struct {
	// Name of the stream, in expressions traffic.NAME.
	Name string `json:"name,omitempty" jsonschema:"default=traffic" check:"identifier"`
	// Via is service or bases.
	Via Via `json:"via,omitempty" jsonschema:"enum=service,enum=bases,default=service"`
	// Service that the requests go to, with ViaService.
	Service string `json:"service,omitempty"`
	// Port of the Service, by name or number. Default: its first.
	Port string `json:"port,omitempty"`
	// Bases that the requests go to, with ViaBases: those that match at any time. Default: all of
	// the run.
	Bases BaseNames `json:"bases,omitempty"`
	// Module is the name of the module, the first part of the path.
	Module string `json:"module" need:"the name of the module that answers"`
	// Rate is the number of requests per second, 1 to 5000.
	Rate *int `json:"rate,omitempty" jsonschema:"minimum=1,maximum=5000,default=100"`
	// Timeout of a request.
	Timeout *metav1.Duration `json:"timeout,omitempty" jsonschema:"default=2s" check:"positive"`
	// Reuse sends requests over connections that stay, as clients with a pool do. Default: false, a
	// connection for each, so that each meets the endpoints of its moment.
	Reuse bool `json:"reuse,omitempty"`
	// Versions of the module that may answer; any other is a wrong version. Default: all.
	Versions []string `json:"versions,omitempty" need:"say which version"`
	// Judge is the CEL expression over this stream that must be true at the end, with its figures
	// by name: sent, ok, lost, noEndpoint, refused, reset, notFound, unavailable, timeout,
	// wrongVersion, other. At least one request must have been sent in any case.
	Judge string `json:"judge,omitempty" jsonschema:"default=lost == 0" need:"say what must be true of the stream, in CEL" check:"cel"`
}

// TrafficStop stops a stream and waits for the answers that are on their way.
type TrafficStop struct {
	// Name of the stream.
	Name string `json:"name,omitempty" jsonschema:"default=traffic"`
}

func (t *TrafficAction) title(kind string) string {
	switch {
	case t.Start != nil:
		return "start " + t.Start.Name
	case t.Stop != nil:
		return "stop " + t.Stop.Name
	}
	return kind
}

func (t *TrafficAction) setDefaults(*Step, *ScenarioSpec) {
	if t.Start != nil && t.Start.Via == ViaBases && len(t.Start.Bases) == 0 {
		t.Start.Bases = BaseNames{"*"}
	}
}

func (t *TrafficAction) collect(n *Names, at *field.Path) {
	if t.Start != nil {
		n.unique(n.Streams, at.Child("start", "name"), t.Start.Name)
	}
}

func (t *TrafficAction) validate(v *validator, _ *Step, at *field.Path) {
	if !v.exactlyOne(t, at, "either starts or stops requests") {
		return
	}
	if t.Stop != nil {
		if _, known := v.names.Streams[t.Stop.Name]; !known && !HasExpression(t.Stop.Name) {
			v.invalid(at.Child("stop", "name"), t.Stop.Name, "there is no step that starts it")
		}
		return
	}
	s, at := t.Start, at.Child("start")
	switch s.Via {
	case ViaService:
		if v.need(at.Child("service"), s.Service, "the Service that the requests go to; or set via: bases") &&
			!HasExpression(s.Service) {
			v.reasons(at.Child("service"), s.Service, validation.IsDNS1123Label(s.Service))
		}
		if len(s.Bases) > 0 {
			v.forbid(at.Child("bases"), "is for via: bases only; a Service picks the bases itself")
		}
	case ViaBases:
		if s.Service != "" || s.Port != "" {
			v.forbid(at.Child(given(&Traffic{Service: s.Service, Port: s.Port})[0]), "is for via: service only")
		}
		v.bases(s.Bases, at.Child("bases"))
	}
}
