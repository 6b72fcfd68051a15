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

// baseChanged passes a change to the parts of the controller. It does not block.
func (c *Controller) baseChanged(change base.Change) {
	switch change.Kind {
	case base.Appeared:
		c.wake()
		c.expectNewcomer(change.Identity)
		c.nodeReconciler.Changed(change.Identity)
	case base.InfoChanged, base.LivenessChanged, base.HealthChanged:
		c.nodeReconciler.Changed(change.Identity)
		c.provider.BaseChanged(change)
	case base.Disappeared, base.ObservedChanged:
		if change.Silent {
			c.nodeReconciler.FellSilent(change.Identity)
		}
		c.nodeReconciler.Changed(change.Identity)
		c.provider.BaseChanged(change)
	case base.ModulesChanged:
		if b, known := c.registry.Get(change.Identity); known {
			c.journal.NoteModules(change.Identity, change.Names, b.Modules, time.Now())
		}
		c.provider.BaseChanged(change)
	case base.Returned:
		c.dialog.Lost(change.Identity, "the base was away from the broker when it was asked")
	case base.Restarted:
		c.dialog.Lost(change.Identity, restarted)
		c.provider.BaseChanged(change)
	}
	if change.Kind == base.LivenessChanged {
		if change.Liveness == base.Alive {
			c.dialog.Lost(change.Identity, "the base was silent meanwhile")
		}
		c.logger.Info("a base changed its liveness", "base", change.Identity, "liveness", change.Liveness.String())
		c.wake()
	}
}

// restarted is the reason why a base does not answer earlier requests.
const restarted = "the base has restarted"

// wake causes a sweep soon.
func (c *Controller) wake() {
	select {
	case c.due <- struct{}{}:
	default: // it will
	}
}

// sweepPause is the minimum time between two sweeps. Bases that appear cause sweeps between those of
// api.SweepInterval.
const sweepPause = 50 * time.Millisecond

// sweep sends the queries that are due, and reports missed heartbeats.
func (c *Controller) sweep(ctx context.Context) error {
	tick := time.NewTicker(c.opts.speed().Of(api.SweepInterval))
	defer tick.Stop()
	pause := time.NewTimer(0)
	defer pause.Stop()
	for {
		found := c.registry.Sweep()
		pause.Reset(sweepPause)
		c.metrics.Missed(found.Missed)
		for _, n := range found.News {
			c.tellNews(n)
		}
		for _, p := range found.Probes {
			if err := c.dialog.Send(ctx, p.Tunnel, p.To, arklet.Request{Command: p.Command}); err != nil {
				c.logger.Debug("could not ask a base", "base", p.To.Identity, "command", p.Command, "err", err)
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
		case <-c.due:
		}
	}
}

// tellNews logs and reports the begin and the end of episodes in which missed heartbeats are ignored.
func (c *Controller) tellNews(n base.News) {
	at := []any{"reason", string(n.Blind)}
	if n.Tunnel != "" {
		at = append(at, "tunnel", n.Tunnel)
	}
	switch {
	case n.Ended:
		c.logger.Info("bases are observed again", append(at, "lasted", n.Lasted)...)
		return
	case n.Blind == base.MassSilence:
		code := errcode.ModuleControllerOverFiftyPercentBaseInstancesUnavaliable
		text := fmt.Sprintf("%d of %d bases fell silent together: taken for a fault of the way to them", n.Silent,
			n.Bases)
		c.logger.Warn(text, append(at, "code", code)...)
		c.reporter.Report(report.Event{
			Scene: "vnode", Event: "MassSilence", Result: "FAILED", Code: code, Message: text,
			Labels: map[string]string{"tunnel": n.Tunnel},
		})
	case n.Blind == base.ControllerSuspended:
		c.logger.Warn("this process stood still: bases are asked anew, and have time to answer",
			append(at, "for", n.Lasted)...)
	case n.Blind == base.ControllerBehind:
		c.logger.Warn("what bases say comes late or is lost: this process, or the broker, has too much to do; nothing is concluded from their silence", at...)
	default:
		c.logger.Warn("bases cannot be observed: nothing is concluded from their silence", at...)
	}
	c.metrics.Blind(n.Tunnel, string(n.Blind))
}

// listener passes messages from the tunnels to the controller. It implements tunnel.Handler.
type listener struct{ *Controller }

func (l listener) Heartbeat(from tunnel.Origin, h arklet.Heartbeat) {
	if reason, err := l.registry.Heard(from, h); reason != "" {
		l.Rejected(from, "heartbeat", reason, err)
	}
}

// accepts reports whether a message is accepted, and rejects it otherwise.
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
	l.dialog.HealthCame(from.Identity, h)
}

func (l listener) BizList(from tunnel.Origin, list []arklet.Biz) {
	if !l.accepts(from, "simpleBiz") {
		return
	}
	if !l.registry.SetModules(from, list) {
		l.Rejected(from, "simpleBiz", tunnel.Stale, nil)
		return
	}
	l.dialog.Listed(from.Identity)
}

// Answer implements tunnel.Handler. An answer that no call waits for was late: its result is in the module list.
func (l listener) Answer(from tunnel.Origin, a arklet.Answer) {
	if !l.accepts(from, "bizOperation") {
		return
	}
	answered := l.dialog.Answered(from.Identity, a)
	l.registry.Touch(from.Identity) // afterwards: a base that has Returned gives no answer to what was asked before
	if !answered {
		l.registry.AskModules(from.Identity)
		l.wake()
	}
}

// Unanswered implements tunnel.Handler. The operation may have been done.
func (l listener) Unanswered(from tunnel.Origin, r arklet.Request, err error) {
	l.logger.Debug("a base did not answer", "base", from.Identity, "command", r.Command, "err", err)
	if !l.dialog.Unanswered(from.Identity, r, err) && !r.Command.IsQuestion() {
		l.registry.AskModules(from.Identity)
	}
}

func (l listener) BatchAnswer(from tunnel.Origin, r arklet.BatchResult) {
	if !l.accepts(from, "batchInstallBizResponse") {
		return
	}
	l.registry.Touch(from.Identity)
	l.tellFailed(from.Identity, r.Failed)
	l.registry.AskModules(from.Identity)
	l.wake()
}

// mostFailed is the number of failed modules of a baseline that are logged individually.
const mostFailed = 20

func (l listener) tellFailed(identity string, failed map[string]arklet.Answer) {
	told, say := 0, func(message string, about ...any) {
		l.logger.Log(context.Background(), l.chat(slog.LevelWarn), message,
			append([]any{"base", identity}, about...)...)
	}
	for url, one := range failed {
		told++
		if told > mostFailed {
			say("a base did not install more modules of its baseline", "modules", len(failed)-mostFailed)
			return
		}
		say("a base did not install a module of its baseline", "url", url, "code", one.DataCode, "message",
			one.DataMessage)
	}
}

// newChatter limits the log lines about messages that bases sent without a request.
func newChatter() *rate.Limiter { return rate.NewLimiter(10, 500) }

// chat returns the level of such a line: debug beyond the limit.
func (c *Controller) chat(level slog.Level) slog.Level {
	if c.chatter.Allow() {
		return level
	}
	return slog.LevelDebug
}

func (l listener) BaselineQuery(from tunnel.Origin, m arklet.Metadata) []arklet.Module {
	if !l.accepts(from, "queryBaseline") {
		return nil
	}
	if l.registry.Recognizes(from) { // otherwise any client could keep a stopped base alive, or fail its installs
		l.registry.Touch(from.Identity)
		l.registry.AskModules(from.Identity) // a base sends this query when it starts, without modules
		l.dialog.Lost(from.Identity, restarted)
	}
	return l.baselineFor(base.Info{
		Identity: from.Identity, Name: m.Name, Version: m.Version, Cluster: m.Cluster, Tunnel: from.Tunnel,
	})
}

func (l listener) Rejected(from tunnel.Origin, kind string, reason tunnel.Rejection, err error) {
	l.rejects.add(from, kind, reason, err)
}

// rejections counts rejected messages. It logs each reason at most once per hour for each base, or for each
// address if the base is unknown. So invalid messages do not fill the log.
type rejections struct {
	metrics *metrics.Metrics
	logger  *slog.Logger

	mu     sync.Mutex
	hour   time.Time
	logged map[rejection]bool
}

type rejection struct {
	from   string // the identity of the base, or its address
	reason tunnel.Rejection
}

// maxLogged limits the lines per hour, because any client can invent identities.
const maxLogged = 1000

func newRejections(m *metrics.Metrics, l *slog.Logger) *rejections {
	return &rejections{metrics: m, logger: l, logged: map[rejection]bool{}}
}

func (r *rejections) add(from tunnel.Origin, kind string, reason tunnel.Rejection, err error) {
	r.metrics.Rejected(string(from.Tunnel), kind, string(reason))
	one := rejection{cmp.Or(from.Identity, from.IP), reason}
	if reason == tunnel.TooManyOfAddress { // one line for the address, not for each identity
		one.from = from.Peer
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if now := time.Now().Truncate(time.Hour); now != r.hour {
		r.hour = now
		clear(r.logged)
	}
	if r.logged[one] || len(r.logged) >= maxLogged {
		return
	}
	r.logged[one] = true
	r.logger.Warn("a message was rejected, or a part of it", "base", from.Identity, "kind", kind, "reason", reason,
		"err", err)
}
