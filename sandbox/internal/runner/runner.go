package runner

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// lastLines is the number of log lines that WithLog adds to an error.
const lastLines = 10

// Name is the component name of the first controller.
const Name = "module-controller"

// AllNetworks is the value of BASE_NETWORKS for the controllers of a sandbox. It allows all networks: bases have
// unrouted or loopback addresses, and only the heartbeat relay can reach the controllers.
const AllNetworks = "0.0.0.0/0,::/0"

// Limits returns controller settings that are sufficient for the largest fleet. All HTTP heartbeats come from the
// address of the relay. MAX_BASES is twice the size of the fleet, because at most half of MAX_BASES can connect over
// MQTT in one burst.
func Limits() map[string]string {
	return map[string]string{"MAX_BASES": strconv.Itoa(2 * v1alpha1.MaxBases),
		"MAX_BASES_PER_ADDRESS": strconv.Itoa(2 * v1alpha1.MaxBases)}
}

// ComponentName returns the component name of controller n, counted from 1.
func ComponentName(n int) string {
	if n == 1 {
		return Name
	}
	return fmt.Sprintf("%s-%d", Name, n)
}

// Broker provides the broker settings for a runner. *broker.Link implements it; the address is known as soon as the
// broker is listening.
type Broker interface {
	// Addr returns the host:port at which controllers reach the broker.
	Addr() string
	// CAFile returns the path of the broker's CA certificate, or an empty string if the broker does not use TLS.
	CAFile() string
	// Controller returns the broker login for the controllers.
	Controller() broker.Login
}

// WithLog adds the last lines of a controller's log to err. It returns nil if err is nil.
func WithLog(err error, log string) error {
	if lines := supervise.Tail(log, 0, lastLines); err != nil && len(lines) > 0 {
		err = fmt.Errorf("%w\nlast lines of %s:\n  %s", err, log, strings.Join(lines, "\n  "))
	}
	return err
}
