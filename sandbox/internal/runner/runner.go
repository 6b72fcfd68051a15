package runner

import (
	"fmt"
	"strconv"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// lastLines is how much of a log goes into an error.
const lastLines = 10

// Name is the name of the first controller as a component.
const Name = "module-controller"

// AllNetworks is BASE_NETWORKS of the controllers of a sandbox. Its bases have addresses that lead nowhere,
// or are on loopback, and their heartbeats come through a relay, which alone reaches the controllers.
const AllNetworks = "0.0.0.0/0,::/0"

// Limits returns settings that let a controller of a sandbox serve the largest fleet. All heartbeats over HTTP
// come from the address of the relay. MAX_BASES is twice the size of the fleet, because half of MAX_BASES can
// connect over MQTT in one burst.
func Limits() map[string]string {
	return map[string]string{"MAX_BASES": strconv.Itoa(2 * v1alpha1.MaxBases),
		"MAX_BASES_PER_ADDRESS": strconv.Itoa(2 * v1alpha1.MaxBases)}
}

// ComponentName is the name of the n-th controller as a component, from 1, wherever it runs.
func ComponentName(n int) string {
	if n == 1 {
		return Name
	}
	return fmt.Sprintf("%s-%d", Name, n)
}

// Broker is what a runner must know of the broker. *broker.Link is one; its address is known when the
// broker listens.
type Broker interface {
	// Addr is the host:port where controllers reach it.
	Addr() string
	// CAFile names the authority to trust; empty without TLS.
	CAFile() string
	// Controller is the login of the controllers.
	Controller() broker.Login
}

// WithLog adds to an error the last lines of a controller's log, if there are any. nil stays nil.
func WithLog(err error, log string) error {
	if lines := supervise.Tail(log, 0, lastLines); err != nil && len(lines) > 0 {
		err = fmt.Errorf("%w\nlast lines of %s:\n  %s", err, log, strings.Join(lines, "\n  "))
	}
	return err
}
