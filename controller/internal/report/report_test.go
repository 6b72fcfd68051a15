package report

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/koupleless/koupsandbox/controller/errcode"
)

// pipes is an in-memory network in a synctest bubble. It contains listeners by host name.
type pipes map[string]*pipeListener

type pipeListener struct {
	conns chan net.Conn
	done  chan struct{}
	once  sync.Once
}

func (l *pipeListener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.done:
		return nil, net.ErrClosed
	}
}

func (l *pipeListener) Close() error {
	l.once.Do(func() { close(l.done) })
	return nil
}

func (l *pipeListener) Addr() net.Addr { return &net.IPAddr{} }

func (p pipes) dial(ctx context.Context, _, address string) (net.Conn, error) {
	host, _, _ := net.SplitHostPort(address)
	l, ok := p[host]
	if !ok {
		return nil, errors.New("connection refused")
	}
	client, server := net.Pipe()
	select {
	case l.conns <- server:
		return client, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

// logBuffer is a log buffer that is safe for concurrent reads and writes.
type logBuffer struct {
	mu   sync.Mutex
	text strings.Builder
}

func (b *logBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *logBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

// fixture is a Reporter with its hooks, running in a synctest bubble.
type fixture struct {
	t        *testing.T
	network  pipes
	log      logBuffer
	counters Counters
	reporter *Reporter
	stop     func()
}

// runTest runs a test in a synctest bubble. handlers are the handlers of the fake webhooks, by host name.
func runTest(t *testing.T, hooks string, handlers map[string]http.HandlerFunc, change func(*Options),
	test func(*fixture)) {
	synctest.Test(t, func(t *testing.T) {
		w := &fixture{t: t, network: pipes{}}
		for host, handler := range handlers {
			w.network[host] = &pipeListener{conns: make(chan net.Conn), done: make(chan struct{})}
			server := httptest.NewUnstartedServer(handler)
			_ = server.Listener.Close()
			server.Listener = w.network[host]
			server.Start()
			defer server.Close()
		}
		w.counters = Counters{
			Sent:    prometheus.NewCounter(prometheus.CounterOpts{Name: "sent"}),
			Failed:  prometheus.NewCounter(prometheus.CounterOpts{Name: "failed"}),
			Dropped: prometheus.NewCounter(prometheus.CounterOpts{Name: "dropped"}),
		}
		addresses, err := ParseHooks(hooks, true)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Hooks: addresses, Transport: &http.Transport{DialContext: w.network.dial, DisableKeepAlives: true},
			Counters: w.counters, Logger: slog.New(slog.NewTextHandler(&w.log, nil))}
		if change != nil {
			change(&o)
		}
		w.reporter = New(o)
		ctx, cancel := context.WithCancel(t.Context())
		ended := make(chan error, 1)
		go func() { ended <- w.reporter.Start(ctx) }()
		w.stop = func() {
			cancel()
			if err := <-ended; err != nil {
				t.Errorf("Start: %v", err)
			}
		}
		test(w)
		cancel()
	})
}

func (w *fixture) advance(d time.Duration) {
	<-time.After(d)
	synctest.Wait()
}

// wantCounts compares the counters with the expected values.
func (w *fixture) wantCounts(sent, failed, dropped float64) {
	w.t.Helper()
	var got []float64
	for _, counter := range []prometheus.Counter{w.counters.Sent, w.counters.Failed, w.counters.Dropped} {
		metric := &dto.Metric{}
		if err := counter.Write(metric); err != nil {
			w.t.Fatal(err)
		}
		got = append(got, metric.GetCounter().GetValue())
	}
	if diff := cmp.Diff([]float64{sent, failed, dropped}, got); diff != "" {
		w.t.Errorf("sent, failed, dropped (-want +got):\n%s", diff)
	}
}

// wantLog checks the number of log lines, and that the log contains the texts and does not contain the token.
func (w *fixture) wantLog(lines int, texts ...string) {
	w.t.Helper()
	log := w.log.String()
	if got := strings.Count(log, "\n"); got != lines {
		w.t.Errorf("%d log lines, want %d:\n%s", got, lines, log)
	}
	for _, text := range texts {
		if !strings.Contains(log, text) {
			w.t.Errorf("the log does not contain %q:\n%s", text, log)
		}
	}
	if strings.Contains(log, "secret") {
		w.t.Errorf("the log contains the token:\n%s", log)
	}
}

func respondWith(status int, body string) http.HandlerFunc {
	return func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(status)
		_, _ = io.WriteString(w, body)
	}
}

const robotOK = `{"errcode":0,"errmsg":"ok"}`

func TestMessageIsSentToEveryHook(t *testing.T) {
	var mu sync.Mutex
	var got []string
	record := func(rw http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		mu.Lock()
		defer mu.Unlock()
		got = append(got, r.Method+" "+r.Host+r.URL.String()+" "+r.Header.Get("Content-Type")+"\n"+string(body))
		_, _ = io.WriteString(rw, robotOK)
	}
	hooks := "http://one/robot/send?access_token=secret; ;http://two/robot;"
	runTest(t, hooks, map[string]http.HandlerFunc{"one": record, "two": record}, nil, func(w *fixture) {
		w.reporter.Report(Event{
			TraceID: "t-1", Scene: "vpod_deploy", Event: "ContainerStart", Result: "FAILED",
			Code: errcode.UserDiskFull, Message: "no space", TimeUsed: 1500 * time.Millisecond,
			Labels: map[string]string{"pod": "default/p", "node": "vnode.1"},
		})
		w.advance(time.Millisecond)
		body := `{"msgtype":"markdown","markdown":{"title":"Log Notification","text":"# MC告警\n\n- Trace ID: t-1\n- 工单类型: vpod_deploy` +
			`\n- 节点: ContainerStart\n- 结果: FAILED\n- 失败信息: no space\n- 错误代码: User.DiskFull\n- 解决方案: 请替换\n- 耗时: 1.5s` +
			`\n- 部署信息: node=vnode.1, pod=default/p"}}`
		want := []string{"POST one/robot/send?access_token=secret application/json\n" + body,
			"POST two/robot application/json\n" + body}
		if len(got) == 2 && strings.HasPrefix(got[0], "POST two") {
			got[0], got[1] = got[1], got[0]
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("requests (-want +got):\n%s", diff)
		}
		w.wantCounts(2, 0, 0)
		w.wantLog(0)
	})
}

func TestResponses(t *testing.T) {
	tests := []struct {
		name         string
		status       int
		body         string
		sent, failed float64
		attempts     int64
		log          string
	}{
		{"ok", 200, robotOK, 1, 0, 1, ""},
		{"server that is not a robot", 204, "", 1, 0, 1, ""},
		{"unauthorized", 401, "", 0, 1, 1, "OtherUpstream.SecretAKError"},
		{"forbidden", 403, "", 0, 1, 1, "OtherUpstream.SecretAKError"},
		{"not found", 404, "", 0, 1, 1, "OtherUpstream.InvalidParameter 404"},
		{"redirect", 302, "", 0, 1, 1, "OtherUpstream.InvalidParameter 302"},
		{"server error", 500, "", 0, 1, 4, "ModuleController.RetryTimesExceeded 500"},
		{"too many requests", 429, "", 0, 1, 4, "429"},
		{"robot: unknown token", 200, `{"errcode":300001,"errmsg":"token is not exist"}`, 0, 1, 1,
			"OtherUpstream.SecretAKError 300001"},
		{"robot: security settings", 200, `{"errcode":310000,"errmsg":"sign not match"}`, 0, 1, 1,
			"OtherUpstream.SecretAKError 310000"},
		{"robot: too many messages", 200, `{"errcode":130101,"errmsg":"send too fast"}`, 0, 1, 4, "130101"},
		{"robot: other error", 200, `{"errcode":400102,"errmsg":"odd"}`, 0, 1, 1,
			"OtherUpstream.InvalidParameter 400102"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			var attempts atomic.Int64
			handler := func(w http.ResponseWriter, r *http.Request) {
				attempts.Add(1)
				respondWith(tt.status, tt.body)(w, r)
			}
			runTest(t, "http://one/?access_token=secret", map[string]http.HandlerFunc{"one": handler}, nil,
				func(w *fixture) {
					w.reporter.Report(Event{Event: "ContainerStart"})
					w.advance(30 * time.Second)
					w.wantCounts(tt.sent, tt.failed, 0)
					if got := attempts.Load(); got != tt.attempts {
						t.Errorf("%d attempts, want %d", got, tt.attempts)
					}
					w.wantLog(int(tt.failed), strings.Fields(tt.log)...)
				})
		})
	}
}

func TestRetrySucceeds(t *testing.T) {
	var attempts atomic.Int64
	handler := func(w http.ResponseWriter, r *http.Request) {
		if attempts.Add(1) < 3 {
			respondWith(502, "")(w, r)
		}
	}
	runTest(t, "http://one/", map[string]http.HandlerFunc{"one": handler}, nil, func(w *fixture) {
		w.reporter.Report(Event{})
		w.advance(30 * time.Second)
		w.wantCounts(1, 0, 0)
		w.wantLog(0)
	})
}

// TestUnavailableHooksDoNotBlockOthers checks that neither a hook that does not respond nor a hook that refuses
// connections blocks other hooks or the caller of Report.
func TestUnavailableHooksDoNotBlockOthers(t *testing.T) {
	hang := func(_ http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		<-r.Context().Done()
	}
	const events = queueSize + 10 // each hook is sending one event, and its queue is full
	hooks := "http://slow/?access_token=secret;http://dead/?access_token=secret;http://good/"
	handlers := map[string]http.HandlerFunc{"slow": hang, "good": respondWith(200, robotOK)}
	runTest(t, hooks, handlers, nil, func(w *fixture) {
		before := time.Now()
		for range events {
			w.reporter.Report(Event{Event: "ContainerStart"})
			synctest.Wait()
		}
		if took := time.Since(before); took != 0 {
			t.Errorf("Report took %v", took)
		}
		w.wantCounts(20, 0, 2*9)
		w.wantLog(0)
		w.advance(61 * time.Second)
		w.stop()
		w.wantLog(10, "hook=slow events=9", "hook=dead events=9", "connection refused", "context deadline exceeded")
	})
}

func TestRateLimit(t *testing.T) {
	runTest(t, "http://one/", map[string]http.HandlerFunc{"one": respondWith(200, robotOK)}, nil, func(w *fixture) {
		for range 50 {
			w.reporter.Report(Event{})
		}
		w.advance(time.Second)
		w.wantCounts(20, 0, 0)
		w.advance(time.Minute)
		w.wantCounts(40, 0, 0)
		w.stop()
		w.wantCounts(40, 0, 10)
		w.wantLog(1, "events=10")
	})
}
