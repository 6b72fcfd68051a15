package traffic

import (
	"errors"
	"fmt"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// Bounds of a stream. One that runs into the last two ends by itself and says so.
const (
	maxRate    = 5000
	maxTimeout = time.Minute
	// MaxDuration is how long a stream runs at most, MaxTotal how many requests it
	// sends: somebody has forgotten it.
	MaxDuration = 15 * time.Minute
	MaxTotal    = 2_000_000
	// MaxOpen is how many requests may wait for their answers. Each holds two open
	// files of the process, one on each side. A request beyond is not sent and is lost
	// with the result Other.
	MaxOpen = 4096
	// MaxLost is how many lost requests of a stream are told one by one.
	MaxLost = 1000
)

// Spec is a stream of requests to a module. Its JSON form goes over the control
// API.
type Spec struct {
	// Name of the stream. Default: traffic.
	Name string `json:"name"`
	// Via is the way that the requests take. Default: service.
	Via v1alpha1.Via `json:"via"`
	// Namespace, Service and Port are where they go to, with ViaService. Port is a
	// name, a number or a target port; default: the first.
	Namespace string `json:"namespace,omitempty"`
	Service   string `json:"service,omitempty"`
	Port      string `json:"port,omitempty"`
	// Bases are where they go to, with ViaBases: SET, SET-N or *, whichever of the
	// run match at that moment. Default: all of the run.
	Bases []string `json:"bases,omitempty"`
	// Module that is to answer, the first part of the path. Required.
	Module string `json:"module"`
	// Rate is requests a second, up to 5000. Default: 100.
	Rate int `json:"rate"`
	// Timeout of a request, from when it is sent; up to a minute. Default: 2s.
	Timeout time.Duration `json:"timeout"`
	// Reuse keeps connections, up to one for each request that is open. Default:
	// false, a connection for each request.
	Reuse bool `json:"reuse,omitempty"`
	// Versions that may answer. Default: all.
	Versions []string `json:"versions,omitempty"`
	// Duration and Total bound the stream. Default, and at most: MaxDuration and MaxTotal.
	Duration time.Duration `json:"duration,omitempty"`
	Total    int           `json:"total,omitempty"`
	// MaxOpen bounds the requests without an answer. Default: MaxOpen.
	MaxOpen int `json:"maxOpen,omitempty"`
}

// SpecOf is the Spec of a stream as a scenario describes it.
func SpecOf(namespace string, t *v1alpha1.Traffic) Spec {
	s := Spec{
		Name: t.Name, Via: t.Via, Namespace: namespace, Service: t.Service, Port: t.Port, Bases: t.Bases,
		Module: t.Module, Reuse: t.Reuse, Versions: t.Versions,
	}
	if t.Rate != nil {
		s.Rate = *t.Rate
	}
	if t.Timeout != nil {
		s.Timeout = t.Timeout.Duration
	}
	return s
}

// complete fills the defaults in and reports every mistake.
func (s *Spec) complete() error {
	orDefault(&s.Name, "traffic")
	orDefault(&s.Via, v1alpha1.ViaService)
	orDefault(&s.Rate, 100)
	orDefault(&s.Timeout, 2*time.Second)
	orDefault(&s.Duration, MaxDuration)
	orDefault(&s.Total, MaxTotal)
	orDefault(&s.MaxOpen, MaxOpen)
	var errs []error
	if s.Module == "" {
		errs = append(errs, errors.New("module is missing"))
	}
	switch s.Via {
	case v1alpha1.ViaService:
		if s.Service == "" || s.Namespace == "" {
			errs = append(errs, errors.New("service and namespace are needed via service"))
		}
	case v1alpha1.ViaBases:
	default:
		errs = append(errs, fmt.Errorf("via is %q; it is service or bases", s.Via))
	}
	errs = append(errs,
		within("rate", s.Rate, 1, maxRate), within("timeout", s.Timeout, time.Millisecond, maxTimeout),
		within("duration", s.Duration, time.Millisecond, MaxDuration), within("total", s.Total, 1, MaxTotal),
		within("maxOpen", s.MaxOpen, 1, MaxOpen))
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("traffic %q: %w", s.Name, err)
	}
	return nil
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func within[T int | time.Duration](name string, v, least, most T) error {
	if v < least || v > most {
		return fmt.Errorf("%s is %v; it is %v to %v", name, v, least, most)
	}
	return nil
}

// due is when a request, counted from 0, is to be sent, from the start.
func (s *Spec) due(n int) time.Duration {
	return time.Duration(int64(n) * int64(time.Second) / int64(s.Rate))
}
