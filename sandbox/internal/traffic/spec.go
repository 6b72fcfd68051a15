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

// Bounds of a stream. One that runs into the last two ends by itself and says so.
const (
	maxRate    = 5000
	maxTimeout = time.Minute
	// DefaultDuration is how long a stream runs unless told, MaxDuration at most, MaxTotal how many
	// requests it sends: somebody has forgotten it.
	DefaultDuration = 15 * time.Minute
	MaxDuration     = 24 * time.Hour
	MaxTotal        = 2_000_000
	// MaxOpen is the maximum number of open requests. Each uses two files of the process. Further requests are not sent,
	// and are lost with the result Other.
	MaxOpen = 4096
	// MaxLost is how many lost requests of a stream are told one by one.
	MaxLost = 1000
)

// Spec says what a stream sends, and where. It goes over the control API.
type Spec struct {
	// Traffic as a scenario writes it, without expressions; Judge is left to the
	// caller. Zero values mean its defaults.
	v1alpha1.Traffic `json:",inline"`
	// Namespace of the Service, with ViaService.
	Namespace string `json:"namespace,omitempty"`
	// Address is the IP:port of the Service in its cluster, with ViaService. kube-proxy selects the endpoint. Default:
	// the gateway selects it.
	Address string `json:"address,omitempty"`
	// Inside says that the stream is sent from within the cluster to bases there, and told which
	// there are. Default: it is sent from this machine, or to an Address.
	Inside bool `json:"inside,omitempty"`
	// Seed makes the choice of endpoints repeatable. Default: that of the gateway.
	Seed uint64 `json:"seed,omitempty"`
	// Duration and Total bound the stream. Default: DefaultDuration and MaxTotal; at most: MaxDuration
	// and MaxTotal.
	Duration time.Duration `json:"duration,omitempty"`
	Total    int           `json:"total,omitempty"`
	// MaxOpen bounds the requests without an answer. Default, and at most: MaxOpen.
	MaxOpen int `json:"maxOpen,omitempty"`
}

// plan is a Spec with its defaults.
type plan struct {
	Spec
	rate    int
	timeout time.Duration
}

// plan fills the defaults in and reports every mistake.
func (s Spec) plan() (plan, error) {
	orDefault(&s.Name, "traffic")
	orDefault(&s.Via, v1alpha1.ViaService)
	orDefault(&s.Duration, DefaultDuration)
	orDefault(&s.Total, MaxTotal)
	orDefault(&s.MaxOpen, MaxOpen)
	p := plan{s, ptr.Deref(s.Rate, 100), ptr.Deref(s.Timeout, metav1.Duration{Duration: 2 * time.Second}).Duration}
	var errs []error
	if s.Module == "" {
		errs = append(errs, errors.New("module is missing"))
	}
	switch s.Via {
	case v1alpha1.ViaService:
		if s.Service == "" || s.Namespace == "" {
			errs = append(errs, errors.New("service and namespace are needed via service"))
		}
		if _, err := netip.ParseAddrPort(s.Address); s.Address != "" && err != nil {
			errs = append(errs, fmt.Errorf("address %q is no IP:port", s.Address))
		}
	case v1alpha1.ViaBases:
	default:
		errs = append(errs, fmt.Errorf("via is %q; it is service or bases", s.Via))
	}
	errs = append(errs,
		within("rate", p.rate, 1, maxRate), within("timeout", p.timeout, time.Millisecond, maxTimeout),
		within("duration", s.Duration, time.Millisecond, MaxDuration), within("total", s.Total, 1, MaxTotal),
		within("maxOpen", s.MaxOpen, 1, MaxOpen))
	if err := errors.Join(errs...); err != nil {
		return p, fmt.Errorf("traffic %q: %w", s.Name, err)
	}
	return p, nil
}

// Complete fills the defaults in, and reports every mistake.
func (s Spec) Complete() (Spec, error) {
	p, err := s.plan()
	return p.Spec, err
}

// Route is what leads the requests to a base: RouteGateway, RouteAgent, RouteKubeProxy or RouteBases.
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

func within[T int | time.Duration](name string, v, least, most T) error {
	if v < least || v > most {
		return fmt.Errorf("%s is %v; it is %v to %v", name, v, least, most)
	}
	return nil
}

// due is when a request, counted from 0, is to be sent, from the start.
func (p *plan) due(n int) time.Duration {
	return time.Duration(int64(n) * int64(time.Second) / int64(p.rate))
}
