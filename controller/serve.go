package controller

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/connlimit"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// servers opens the listeners for health checks and metrics, so that Start fails if a port is in use. It returns the
// functions that serve requests on these listeners.
func (c *Controller) servers() ([]func(context.Context) error, error) {
	mux := http.NewServeMux()
	mux.Handle("/metrics", c.Metrics())
	if c.opts.Profiling {
		mux.HandleFunc("/debug/pprof/", pprof.Index)
		mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	}
	var serve []func(context.Context) error
	for _, s := range []struct {
		name, addr string
		handler    http.Handler
	}{{"health", c.opts.HealthAddr, c.health()}, {"metrics", c.opts.MetricsAddr, mux}} {
		if s.addr == "" {
			continue
		}
		l, err := net.Listen("tcp", s.addr)
		if err != nil {
			return nil, fmt.Errorf("serving %s: %w", s.name, err)
		}
		c.logger.Info("serving", "what", s.name, "addr", l.Addr().String())
		server := &http.Server{Handler: s.handler, ReadHeaderTimeout: headerTimeout, IdleTimeout: time.Minute}
		serve = append(serve, func(ctx context.Context) error {
			return connlimit.Serve(ctx, server, connlimit.NewListener(l, connlimit.Limits{Connections: connections}), 0)
		})
	}
	return serve, nil
}

// health returns the handler for /healthz, /readyz and /tunnelz.
func (c *Controller) health() http.Handler {
	health := http.NewServeMux()
	health.HandleFunc("/healthz", checkHandler(func() error { return nil }))
	health.HandleFunc("/readyz", checkHandler(c.Ready))
	health.HandleFunc("/tunnelz", checkHandler(c.Connected))
	return health
}

// checkHandler returns a handler that responds with "ok", or with status 503 and the error if the check fails.
func checkHandler(check func() error) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		if err := check(); err != nil {
			http.Error(w, err.Error(), http.StatusServiceUnavailable)
			return
		}
		fmt.Fprintln(w, "ok")
	}
}

// connections is the maximum number of connections to each of the two listeners: for health checks and for metrics.
const connections = 64

const headerTimeout = 10 * time.Second

// gauges registers the metrics whose values are computed at each scrape.
func (c *Controller) gauges() {
	for liveness, name := range map[base.Liveness]string{base.Reachable: "alive", base.Unreachable: "unreachable"} {
		c.metrics.Gauge("module_controller_bases", "Bases by state.", map[string]string{"state": name}, func() float64 {
			return float64(c.registry.Count()[liveness])
		})
	}
	for _, reason := range []base.UnobservableReason{base.TunnelDown, base.ControllerSuspended, base.MassOutage} {
		c.metrics.Gauge("module_controller_bases_unobserved", "Bases whose missed heartbeats are ignored, by reason.",
			map[string]string{"reason": string(reason)}, func() float64 {
				return float64(c.registry.Unobserved()[reason])
			})
	}
	c.metrics.Gauge("module_controller_other_controllers",
		"Other controllers of the environment that renew their Leases.", nil, func() float64 {
			return float64(c.nodeReconciler.OtherControllers())
		})
	c.metrics.Gauge("module_controller_client_id_conflict",
		"1 while this controller serves no base because another controller with the same CLIENT_ID renews its Lease.",
		nil, func() float64 {
			return oneIf(c.nodeReconciler.ClientIDConflict())
		})
	c.metrics.Gauge("module_controller_pods", "Module Pods on the bases that this controller serves.", nil,
		func() float64 { return float64(c.provider.PodCount()) })
	for queue, depth := range map[string]func() int{"lanes": c.provider.Depth, "statuses": c.provider.Unpublished,
		"nodes": c.nodeReconciler.QueueLength} {
		c.metrics.Gauge("module_controller_queue_depth", "Items that are queued or in progress, by queue.",
			map[string]string{"queue": queue}, func() float64 {
				return float64(depth())
			})
	}
	if c.mqtt != nil {
		c.metrics.Gauge("module_controller_tunnel_connected", "1 while the tunnel is connected.",
			map[string]string{"tunnel": string(tunnel.MQTT)}, func() float64 {
				return oneIf(c.mqtt.Connected())
			})
		c.metrics.Gauge("module_controller_tunnel_behind", "1 while messages of bases arrive late or are lost.",
			map[string]string{"tunnel": string(tunnel.MQTT)}, func() float64 {
				return oneIf(c.mqtt.Delayed())
			})
	}
}

func oneIf(condition bool) float64 {
	if condition {
		return 1
	}
	return 0
}

// Metrics returns the handler of the path /metrics.
func (c *Controller) Metrics() http.Handler { return c.metrics.Handler() }
