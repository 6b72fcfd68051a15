package v1alpha1

import (
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
)

// TrafficAction starts or stops a stream of requests. Exactly one field is set.
type TrafficAction struct {
	Start *Traffic     `json:"start,omitempty" jsonschema:"oneof_required=start"`
	Stop  *TrafficStop `json:"stop,omitempty" jsonschema:"oneof_required=stop"`
}

// Via is the route that requests take to a module.
type Via string

// The routes to a module.
const (
	// ViaService sends requests to a Service. An endpoint is selected in the same way as kube-proxy selects it.
	ViaService Via = "service"
	// ViaBases sends requests to all bases in turn, regardless of the state of their Pods, like a load balancer in
	// front of the base application.
	ViaBases Via = "bases"
)

// Traffic starts a stream of requests to a module at a fixed rate. A request is sent even if earlier requests have
// not been answered.
type Traffic struct {
	// Name is the name of the stream, which expressions use as traffic.NAME.
	Name string `json:"name,omitempty" jsonschema:"default=traffic" check:"identifier"`
	// Via is the route of the requests: service or bases.
	Via Via `json:"via,omitempty" jsonschema:"enum=service,enum=bases,default=service"`
	// Service is the name of the Service to which requests are sent (via: service).
	Service string `json:"service,omitempty"`
	// Port is the name or the number of a Service port. Default: the first port of the Service.
	Port string `json:"port,omitempty"`
	// Bases selects the bases to which requests are sent (via: bases). Bases that match the selection later are
	// included. Default: all bases of the run.
	Bases BaseNames `json:"bases,omitempty"`
	// Module is the name of the module. It is the first segment of the URL path.
	Module string `json:"module" need:"set the name of the module"`
	// Rate is the number of requests per second, from 1 to 5000.
	Rate *int `json:"rate,omitempty" jsonschema:"minimum=1,maximum=5000,default=100"`
	// Timeout is the timeout of each request.
	Timeout *metav1.Duration `json:"timeout,omitempty" jsonschema:"default=2s" check:"positive"`
	// Reuse sends requests over persistent connections, like a client with a connection pool. Default: false; each
	// request opens a new connection, so that it uses the current endpoints.
	Reuse bool `json:"reuse,omitempty"`
	// Versions lists the module versions that are allowed to answer. Answers of other versions are counted as
	// wrongVersion. Default: all versions.
	Versions []string `json:"versions,omitempty" need:"set the version"`
	// Judge is a CEL expression that must be true when the stream ends. It can use the number of requests for each
	// result: sent, ok, lost, noEndpoint, refused, reset, notFound, unavailable, timeout, wrongVersion and other. In
	// addition, at least one request must have been sent.
	Judge string `json:"judge,omitempty" jsonschema:"default=lost == 0" need:"set the condition, in CEL" check:"cel"`
}

// TrafficStop stops a stream and waits for the answers to its in-flight requests.
type TrafficStop struct {
	// Name is the name of the stream.
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
	if !v.exactlyOne(t, at, "traffic needs exactly one action") {
		return
	}
	if t.Stop != nil {
		if _, known := v.names.Streams[t.Stop.Name]; !known && !HasExpression(t.Stop.Name) {
			v.invalid(at.Child("stop", "name"), t.Stop.Name, "no step starts this stream")
		}
		return
	}
	s, at := t.Start, at.Child("start")
	switch s.Via {
	case ViaService:
		if v.need(at.Child("service"), s.Service, "set the name of the Service, or via: bases") &&
			!HasExpression(s.Service) {
			v.reasons(at.Child("service"), s.Service, validation.IsDNS1123Label(s.Service))
		}
		if len(s.Bases) > 0 {
			v.forbid(at.Child("bases"), "requires via: bases")
		}
	case ViaBases:
		if s.Service != "" || s.Port != "" {
			v.forbid(at.Child(nonZeroFields(&Traffic{Service: s.Service, Port: s.Port})[0]), "requires via: service")
		}
		v.bases(s.Bases, at.Child("bases"))
	}
}
