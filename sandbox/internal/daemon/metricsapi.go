package daemon

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"strconv"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/graph"
)

var errMetricsAPI = errors.New("the API server does not reach this machine, as with an engine in a virtual machine: remove spec.controller.metricsAPI")

// metricsAPIStep tells the API server of the metrics API when controllers serve it. Nothing undoes it:
// it goes with the cluster, or by Cluster.Sweep where that is used again. onHost is where a controller
// on this machine serves it; nil = they are in the cluster.
func (a *assembly) metricsAPIStep(onHost func() string) graph.Step {
	c := a.cluster
	return graph.Step{
		Name: "Registering the metrics API", Needs: []graph.Condition{controllersReady},
		Run: func(ctx context.Context) error {
			m := cluster.MetricsAPI{}
			if onHost != nil {
				host, port, err := net.SplitHostPort(onHost())
				if err != nil {
					return errMetricsAPI
				}
				m.Host = host
				if m.Port, err = strconv.ParseInt(port, 10, 64); err != nil {
					return fmt.Errorf("reading the port of the metrics API: %w", err)
				}
			}
			_, _, authority, err := c.Serving(cluster.MetricsAPINames()...) // signs with the one of the controller's certificate
			if err != nil {
				return err
			}
			if m.CA, err = os.ReadFile(authority); err != nil {
				return fmt.Errorf("reading the authority of the metrics API: %w", err)
			}
			return m.Register(ctx, c.Cluster())
		},
	}
}
