package controller

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"golang.org/x/time/rate"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/metrics"
	"github.com/koupleless/koupsandbox/controller/internal/report"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// baseChanged passes a change in the state of a base to the components of the controller. It does not block.
func (c *Controller) baseChanged(change base.Change) {
	switch change.Kind {
	case base.Appeared:
		c.requestSweep()
		c.passBaseline(change.Identity)
		c.nodeReconciler.Enqueue(change.Identity)
	case base.InfoChanged, base.LivenessChanged, base.HealthChanged:
		c.nodeReconciler.Enqueue(change.Identity)
		c.provider.BaseChanged(change)
	case base.Disappeared, base.ObservedChanged:
		if change.TimedOut {
			c.nodeReconciler.HeartbeatsTimedOut(change.Identity)
		}
		c.nodeReconciler.Enqueue(change.Identity)
		c.provider.BaseChanged(change)
	case base.ModulesChanged:
		if b, known := c.registry.Get(change.Identity); known {
			c.moduleLog.AddModuleStates(change.Identity, change.Names, b.Modules, time.Now())
		}
		c.provider.BaseChanged(change)
	case base.Returned:
		c.requests.FailPending(change.Identity, "the base was disconnected from the broker when the request was sent")
	case base.Restarted:
		c.requests.FailPending(change.Identity, reasonRestarted)
		c.provider.BaseChanged(change)
	}
	if change.Kind == base.LivenessChanged {
		if change.Liveness == base.Reachable {
			c.requests.FailPending(change.Identity, "the base was unreachable after the request was sent")
		}
		c.logger.Info("the liveness of a base changed", "base", change.Identity, "liveness", change.Liveness.String())
		c.requestSweep()
	}
}

// reasonRestarted is the error reason of requests that a base will not answer because it has restarted.
const reasonRestarted = "the base has restarted"

// requestSweep triggers an additional sweep. It does not block.
func (c *Controller) requestSweep() {
	select {
	case c.sweepRequested <- struct{}{}:
	default: // already requested
	}
}

// minSweepInterval is the minimum time between two sweeps. It limits the additional sweeps that requestSweep
// triggers.
const minSweepInterval = 50 * time.Millisecond

// sweep sends the queries that are due, and reports bases that miss heartbeats.
func (c *Controller) sweep(ctx context.Context) error {
	tick := time.NewTicker(c.opts.timeScale().Of(api.SweepInterval))
	defer tick.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		found := c.registry.Sweep()
		pause.Reset(minSweepInterval)
		c.metrics.AddMissedHeartbeats(found.Missed)
		for _, n := range found.Events {
			c.reportConnectivity(n)
		}
		for _, p := range found.Queries {
			if err := c.requests.Send(ctx, p.Tunnel, p.To, arklet.Request{Command: p.Command}); err != nil {
				c.logger.Debug("could not send a query to a base", "base", p.To.Identity, "command", p.Command, "err",
					err)
			}
		}
		select {
		case <-ctx.Done():
			return nil
		case <-pause.C:
		}
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		case <-c.sweepRequested:
		}
	}
}

// reportConnectivity logs the start and the end of a period in which missed heartbeats are ignored. It counts the
// start in the metrics, and sends a mass outage to the report hooks.
func (c *Controller) reportConnectivity(n base.ConnectivityEvent) {
	attrs := []any{"reason", string(n.Reason)}
	if n.Tunnel != "" {
		attrs = append(attrs, "tunnel", n.Tunnel)
	}
	switch {
	case n.Ended:
		c.logger.Info("bases can be observed again", append(attrs, "lasted", n.Duration)...)
		return
	case n.Reason == base.MassOutage:
		code := errcode.ModuleControllerOverFiftyPercentBaseInstancesUnavaliable
		text := fmt.Sprintf("%d of %d bases stopped responding at the same time; assuming a network failure and "+
			"keeping their Nodes", n.Missing, n.Bases)
		c.logger.Warn(text, append(attrs, "code", code)...)
		c.reporter.Report(report.Event{
			Scene: "vnode", Event: "MassSilence", Result: "FAILED", Code: code, Message: text,
			Labels: map[string]string{"tunnel": n.Tunnel},
		})
	case n.Reason == base.ControllerSuspended:
		c.logger.Warn("this process was suspended; missed heartbeats are ignored until bases can answer",
			append(attrs, "for", n.Duration)...)
	case n.Reason == base.ControllerBehind:
		c.logger.Warn("messages from bases arrive late or are lost because this process or the broker is overloaded; "+
			"missed heartbeats are ignored", attrs...)
	default:
		c.logger.Warn("bases cannot be observed; missed heartbeats are ignored", attrs...)
	}
	c.metrics.AddUnobservable(n.Tunnel, string(n.Reason))
}

// listener passes messages from the tunnels to the controller. It implements tunnel.Handler.
type listener struct{ *Controller }

func (l listener) Heartbeat(from tunnel.Origin, h arklet.Heartbeat) {
	if reason, err := l.registry.HandleHeartbeat(from, h); reason != "" {
		l.Rejected(from, "heartbeat", reason, err)
	}
}

// accepts reports whether the controller accepts a message of the given kind. It records each rejected message.
func (l listener) accepts(from tunnel.Origin, kind string) bool {
	reason, err := l.registry.Accept(from)
	if reason != "" {
		l.Rejected(from, kind, reason, err)
	}
	return reason == ""
}

func (l listener) Health(from tunnel.Origin, h arklet.Health) {
	if !l.accepts(from, "health") {
		return
	}
	l.registry.SetHealth(from, h)
	l.requests.HandleHealth(from.Identity, h)
}

func (l listener) BizList(from tunnel.Origin, list []arklet.Biz) {
	if !l.accepts(from, "simpleBiz") {
		return
	}
	if !l.registry.SetModules(from, list) {
		l.Rejected(from, "simpleBiz", tunnel.Stale, nil)
		return
	}
	l.requests.HandleList(from.Identity)
}

// Answer implements tunnel.Handler. If no call waits for the answer, the answer arrived too late; the next module
// list then shows the result.
func (l listener) Answer(from tunnel.Origin, a arklet.Answer) {
	if !l.accepts(from, "bizOperation") {
		return
	}
	answered := l.requests.HandleAnswer(from.Identity, a)
	// Touch comes after HandleAnswer, because Returned fails all pending requests of the base.
	l.registry.Touch(from.Identity)
	if !answered {
		l.registry.RequestModules(from.Identity)
		l.requestSweep()
	}
}

// Unanswered implements tunnel.Handler. The base may have executed the operation although it did not answer.
func (l listener) Unanswered(from tunnel.Origin, r arklet.Request, err error) {
	l.logger.Debug("a base did not answer", "base", from.Identity, "command", r.Command, "err", err)
	if !l.requests.HandleNoAnswer(from.Identity, r, err) && !r.Command.IsQuery() {
		l.registry.RequestModules(from.Identity)
	}
}

func (l listener) BatchAnswer(from tunnel.Origin, r arklet.BatchResult) {
	if !l.accepts(from, "batchInstallBizResponse") {
		return
	}
	l.registry.Touch(from.Identity)
	l.logFailedModules(from.Identity, r.Failed)
	l.registry.RequestModules(from.Identity)
	l.requestSweep()
}

// maxFailedLogged is the maximum number of failed modules of one baseline that are logged individually.
const maxFailedLogged = 20

func (l listener) logFailedModules(identity string, failed map[string]arklet.Answer) {
	logged, warn := 0, func(message string, attrs ...any) {
		l.logger.Log(context.Background(), l.limitedLevel(slog.LevelWarn), message,
			append([]any{"base", identity}, attrs...)...)
	}
	for url, answer := range failed {
		logged++
		if logged > maxFailedLogged {
			warn("a base did not install more modules of its baseline; they are not logged separately", "modules",
				len(failed)-maxFailedLogged)
			return
		}
		warn("a base did not install a module of its baseline", "url", url, "code", answer.DataCode, "message",
			answer.DataMessage)
	}
}

// newLogLimiter returns the rate limiter for log lines about unsolicited messages from bases.
func newLogLimiter() *rate.Limiter { return rate.NewLimiter(10, 500) }

// limitedLevel returns the log level for an unsolicited message from a base: level if the rate limit allows the log
// line, otherwise debug.
func (c *Controller) limitedLevel(level slog.Level) slog.Level {
	if c.logLimiter.Allow() {
		return level
	}
	return slog.LevelDebug
}

func (l listener) BaselineQuery(from tunnel.Origin, m arklet.Metadata) []arklet.Module {
	if !l.accepts(from, "queryBaseline") {
		return nil
	}
	// Otherwise, any client could make a stopped base look reachable, or fail its installs.
	if l.registry.Recognizes(from) {
		l.registry.Touch(from.Identity)
		l.registry.RequestModules(from.Identity) // a base sends this query when it starts, without modules
		l.requests.FailPending(from.Identity, reasonRestarted)
	}
	return l.baselineFor(base.Info{
		Identity: from.Identity, Name: m.Name, Version: m.Version, Cluster: m.Cluster, Tunnel: from.Tunnel,
	})
}

func (l listener) Rejected(from tunnel.Origin, kind string, reason tunnel.Rejection, err error) {
	l.rejects.add(from, kind, reason, err)
}

// rejections counts rejected messages. It logs each reason at most once per hour for each base, or for each address
// if the base is unknown, so that invalid messages do not fill the log.
type rejections struct {
	metrics *metrics.Metrics
	logger  *slog.Logger

	mu     sync.Mutex
	hour   time.Time
	logged map[rejection]bool
}

type rejection struct {
	from   string // identity of the base, or its address if the base is unknown
	reason tunnel.Rejection
}

// maxLogged limits the rejections that are logged per hour, because any client can invent identities.
const maxLogged = 1000

func newRejections(m *metrics.Metrics, l *slog.Logger) *rejections {
	return &rejections{metrics: m, logger: l, logged: map[rejection]bool{}}
}

func (r *rejections) add(from tunnel.Origin, kind string, reason tunnel.Rejection, err error) {
	r.metrics.AddRejected(string(from.Tunnel), kind, string(reason))
	key := rejection{cmp.Or(from.Identity, from.IP), reason}
	if reason == tunnel.TooManyOfAddress { // one line for the address, not for each identity
		key.from = from.Peer
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now().Truncate(time.Hour); now != r.hour {
		r.hour = now
		clear(r.logged)
	}
	if r.logged[key] || len(r.logged) >= maxLogged {
		return
	}
	r.logged[key] = true
	if reason == tunnel.TooMany || reason == tunnel.TooManyOfAddress {
		err = errcode.Wrap(errcode.ModuleControllerResourceConstraned, err)
	}
	r.logger.Warn("rejected a message or a part of it", "base", from.Identity, "kind", kind, "reason", reason,
		"err", err)
}
