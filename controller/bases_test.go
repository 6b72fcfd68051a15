package controller

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/metrics"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// unansweredTunnel is a tunnel that accepts commands and never delivers an answer.
type unansweredTunnel struct{ sent chan arklet.Request }

func (unansweredTunnel) Key() tunnel.Key { return tunnel.MQTT }

func (q unansweredTunnel) Send(_ context.Context, _ tunnel.Address, r arklet.Request) error {
	q.sent <- r
	return nil
}

// newListener returns the listener of a controller that has no API server and knows one base, which is connected over
// MQTT.
func newListener(t *testing.T, log *bytes.Buffer) (listener, unansweredTunnel) {
	t.Helper()
	c := &Controller{logger: slog.New(slog.NewTextHandler(log, nil)), metrics: metrics.New(),
		sweepRequested: make(chan struct{}, 1), logLimiter: newLogLimiter()}
	c.rejects = newRejections(c.metrics, c.logger)
	c.registry = base.NewRegistry(base.Options{})
	c.requests = base.NewRequestTracker(c.registry)
	q := unansweredTunnel{make(chan arklet.Request, 1)}
	c.requests.AddTunnel(q)
	l := listener{c}
	l.Heartbeat(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "a"}, arklet.Heartbeat{Name: "base", Active: true})
	if _, known := c.registry.Get("a"); !known {
		t.Fatal("the base is not registered")
	}
	return l, q
}

// rejected returns the number of rejected HTTP messages with the given message kind and rejection reason.
func rejected(t *testing.T, c *Controller) map[string]string {
	t.Helper()
	w := httptest.NewRecorder()
	c.Metrics().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", nil))
	counts := map[string]string{}
	for line := range strings.Lines(w.Body.String()) {
		if rest, is := strings.CutPrefix(line, "module_controller_rejected_messages_total"); is {
			labels, count, _ := strings.Cut(strings.TrimSpace(rest), " ")
			counts[strings.ReplaceAll(labels, `,tunnel="http_tunnel_provider"`, "")] = count
		}
	}
	return counts
}

// TestMessagesOverOtherTunnelChangeNothing checks that a client that can connect to the heartbeat port does not
// affect a base that is connected over MQTT: it cannot report that the base has stopped, answer requests for the
// base, or cancel the commands of the base.
func TestMessagesOverOtherTunnelChangeNothing(t *testing.T) {
	var log bytes.Buffer
	l, q := newListener(t, &log)
	install := arklet.Request{Command: arklet.CommandInstallBiz, Module: arklet.Module{Name: "m", Version: "1"}}
	done := make(chan error, 1)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		_, err := l.requests.Do(ctx, "a", install, nil)
		done <- err
	}()
	<-q.sent
	before, _ := l.registry.Get("a")
	from := tunnel.Origin{Tunnel: tunnel.HTTP, Identity: "a", IP: "10.0.0.9", At: time.Now()}
	l.Heartbeat(from, arklet.Heartbeat{Active: false})
	l.Heartbeat(from, arklet.Heartbeat{Active: true, IP: "10.0.0.9", Port: 1})
	l.Health(from, arklet.Health{CPUs: 99})
	l.BizList(from, []arklet.Biz{{Name: "m", Version: "1", State: arklet.StateActivated}})
	l.Answer(from, arklet.Answer{Command: install.Command, Module: install.Module, Code: arklet.CodeSuccess})
	l.BatchAnswer(from, arklet.BatchResult{})
	if modules := l.BaselineQuery(from, arklet.Metadata{Identity: "a", Name: "base"}); modules != nil {
		t.Errorf("the query returned a baseline: %v", modules)
	}
	after, known := l.registry.Get("a")
	if diff := cmp.Diff(before, after); !known || diff != "" {
		t.Errorf("registered: %t (-before +after):\n%s", known, diff)
	}
	select {
	case err := <-done:
		t.Errorf("the command ended: %v", err)
	default:
	}
	cancel()
	if err := <-done; !errors.Is(err, base.ErrNoAnswer) {
		t.Errorf("the command ended with %v", err)
	}
	want := map[string]string{}
	for kind, n := range map[string]int{"heartbeat": 2, "health": 1, "simpleBiz": 1, "bizOperation": 1,
		"batchInstallBizResponse": 1, "queryBaseline": 1} {
		want[fmt.Sprintf(`{kind=%q,reason="other-tunnel"}`, kind)] = fmt.Sprint(n)
	}
	if diff := cmp.Diff(want, rejected(t, l.Controller)); diff != "" {
		t.Errorf("counts of rejected messages (-want +got):\n%s", diff)
	}
	if n := strings.Count(log.String(), "reason=other-tunnel"); n != 1 {
		t.Errorf("logged %d times, want once:\n%s", n, log.String())
	}
}

func TestRejectionsAreLoggedOncePerReasonAndBase(t *testing.T) {
	var log bytes.Buffer
	r := newRejections(metrics.New(), slog.New(slog.NewTextHandler(&log, nil)))
	for range 3 {
		for _, identity := range []string{"a", "b"} {
			for _, reason := range []tunnel.Rejection{tunnel.Malformed, tunnel.Oversized} {
				r.add(tunnel.Origin{Identity: identity}, "heart", reason, nil)
			}
		}
	}
	if n := strings.Count(log.String(), "\n"); n != 4 {
		t.Errorf("logged %d times, want 4:\n%s", n, log.String())
	}
	for i := range 3 * maxLogged {
		r.add(tunnel.Origin{Identity: fmt.Sprint(i)}, "heart", tunnel.Malformed, nil)
	}
	if len(r.logged) > maxLogged || strings.Count(log.String(), "\n") > maxLogged {
		t.Errorf("%d rejections are remembered, and %d lines logged", len(r.logged), strings.Count(log.String(), "\n"))
	}
}

func TestFailedBaselinesAreLoggedWithLimit(t *testing.T) {
	var log bytes.Buffer
	l, _ := newListener(t, &log)
	failed := map[string]arklet.Answer{}
	for i := range 1000 {
		failed[fmt.Sprint(i)] = arklet.Answer{DataCode: "FAILED"}
	}
	l.BatchAnswer(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "a"}, arklet.BatchResult{Failed: failed})
	if n := strings.Count(log.String(), "\n"); n != maxFailedLogged+1 ||
		!strings.Contains(log.String(), "modules=980") {
		t.Errorf("%d lines:\n%.500s", n, log.String())
	}
	for range 1000 { // the base repeats the message
		l.BatchAnswer(tunnel.Origin{Tunnel: tunnel.MQTT, Identity: "a"}, arklet.BatchResult{Failed: failed})
	}
	if n := strings.Count(log.String(), "\n"); n > 2000 {
		t.Errorf("%d lines", n)
	}
}

// TestClosedConnectionsAreReported checks that connections that are closed because of a limit are counted, and logged
// at most once per hour and address.
func TestClosedConnectionsAreReported(t *testing.T) {
	var log bytes.Buffer
	l, _ := newListener(t, &log)
	log.Reset()
	for range 3 {
		for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
			l.Rejected(tunnel.Origin{Tunnel: tunnel.HTTP, IP: ip}, "connection", tunnel.TooMany,
				errors.New("closed a connection from "+ip))
		}
	}
	if diff := cmp.Diff(map[string]string{`{kind="connection",reason="too-many"}`: "6"},
		rejected(t, l.Controller)); diff != "" {
		t.Errorf("counts (-want +got):\n%s", diff)
	}
	for _, ip := range []string{"10.0.0.1", "10.0.0.2"} {
		want := "ModuleController.ResourceConstraned: closed a connection from " + ip
		if n := strings.Count(log.String(), want); n != 1 {
			t.Errorf("%s is logged %d times, want once:\n%s", ip, n, log.String())
		}
	}
}
