package traffic

import (
	"errors"
	"fmt"
	"net/netip"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// maxRate and the following constants are the limits of a stream. When a stream reaches MaxDuration or MaxTotal, it
// stops, and the reason is in Summary.Note.
const (
	maxRate    = 5000
	maxTimeout = time.Minute
	// DefaultDuration is the default run time of a stream. MaxDuration is the maximum run time, and MaxTotal is the
	// maximum number of requests. These limits stop streams that the user has forgotten.
	DefaultDuration = 15 * time.Minute
	MaxDuration     = 24 * time.Hour
	MaxTotal        = 2_000_000
	// MaxOpen is the maximum number of in-flight requests. Each request uses two file descriptors. Requests beyond
	// the limit are not sent. They are recorded as lost, with the result Other.
	MaxOpen = 4096
	// MaxLost is the maximum number of lost requests of a stream that are reported individually.
	MaxLost = 1000
)

// Spec describes a stream: its requests, their target and their limits. It is part of the control API.
type Spec struct {
	// Traffic as in a scenario, without expressions. Judge is ignored: the caller evaluates the result. Zero
	// values mean the defaults of a scenario.
	v1alpha1.Traffic `json:",inline"`
	// Namespace is the namespace of the Service. It is used only with ViaService.
	Namespace string `json:"namespace,omitempty"`
	// Address is the IP:port of the Service in its cluster, which makes kube-proxy select the endpoints. It is used
	// only with ViaService. Default: the gateway selects the endpoints.
	Address string `json:"address,omitempty"`
	// Inside means that requests are sent from within the cluster directly to bases in the cluster, whose addresses
	// the sender receives. Default: requests are sent from this machine, or to Address.
	Inside bool `json:"inside,omitempty"`
	// Seed makes endpoint selection reproducible. Default: the random source of the gateway.
	Seed uint64 `json:"seed,omitempty"`
	// Duration limits the run time of the stream. Total limits the number of its requests. Default: DefaultDuration
	// and MaxTotal. They must not exceed MaxDuration and MaxTotal.
	Duration time.Duration `json:"duration,omitempty"`
	Total    int           `json:"total,omitempty"`
	// MaxOpen limits the number of in-flight requests. The default and the maximum are the constant MaxOpen.
	MaxOpen int `json:"maxOpen,omitempty"`
}

// resolvedSpec is a Spec with its defaults filled in.
type resolvedSpec struct {
	Spec
	rate    int
	timeout time.Duration
}

// resolve returns the Spec with its defaults filled in, or an error that joins all validation errors.
func (s Spec) resolve() (resolvedSpec, error) {
	orDefault(&s.Name, "traffic")
	orDefault(&s.Via, v1alpha1.ViaService)
	orDefault(&s.Duration, DefaultDuration)
	orDefault(&s.Total, MaxTotal)
	orDefault(&s.MaxOpen, MaxOpen)
	p := resolvedSpec{s, ptr.Deref(s.Rate, 100), ptr.Deref(s.Timeout,
		metav1.Duration{Duration: 2 * time.Second}).Duration}
	var errs []error
	if s.Module == "" {
		errs = append(errs, errors.New("module is required"))
	}
	switch s.Via {
	case v1alpha1.ViaService:
		if s.Service == "" || s.Namespace == "" {
			errs = append(errs, errors.New("service and namespace are required for via: service"))
		}
		if _, err := netip.ParseAddrPort(s.Address); s.Address != "" && err != nil {
			errs = append(errs, fmt.Errorf("address %q is not valid; use IP:PORT", s.Address))
		}
	case v1alpha1.ViaBases:
	default:
		errs = append(errs, fmt.Errorf("via is %q; use %s or %s", s.Via, v1alpha1.ViaService, v1alpha1.ViaBases))
	}
	errs = append(errs,
		checkRange("rate", p.rate, 1, maxRate), checkRange("timeout", p.timeout, time.Millisecond, maxTimeout),
		checkRange("duration", s.Duration, time.Millisecond, MaxDuration), checkRange("total", s.Total, 1, MaxTotal),
		checkRange("maxOpen", s.MaxOpen, 1, MaxOpen))
	if err := errors.Join(errs...); err != nil {
		return p, fmt.Errorf("stream %q: %w", s.Name, err)
	}
	return p, nil
}

// Complete returns the Spec with its defaults filled in, or an error that joins all validation errors.
func (s Spec) Complete() (Spec, error) {
	p, err := s.resolve()
	return p.Spec, err
}

// Route returns the route by which requests reach a base: RouteGateway, RouteAgent, RouteKubeProxy or RouteBases.
func (s Spec) Route() string {
	switch {
	case s.Via == v1alpha1.ViaBases:
		return RouteBases
	case s.Address != "":
		return RouteKubeProxy
	case s.Inside:
		return RouteAgent
	default:
		return RouteGateway
	}
}

func orDefault[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}

func checkRange[T int | time.Duration](name string, v, least, most T) error {
	if v < least || v > most {
		return fmt.Errorf("%s is %v; use a value from %v to %v", name, v, least, most)
	}
	return nil
}

// due returns the time from the start of the stream until request n, counted from 0, is due.
func (p *resolvedSpec) due(n int) time.Duration {
	return time.Duration(int64(n) * int64(time.Second) / int64(p.rate))
}
