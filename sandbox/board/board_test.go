package board

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// fakeDaemon simulates a sandbox daemon. The test supplies the events, and fakeDaemon records the requested actions.
type fakeDaemon struct {
	daemon // nil: methods that no test uses panic
	events chan events.Event

	mu    sync.Mutex
	calls []string
	fails error
	waits chan struct{} // if not nil, actions block until it is closed
}

func (d *fakeDaemon) Watch(ctx context.Context, _ sandbox.WatchRequest, sink func(events.Event)) error {
	for {
		select {
		case e, ok := <-d.events:
			if !ok {
				return nil
			}
			sink(e)
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func (d *fakeDaemon) Status(context.Context, bool) (*sandbox.Status, error) {
	return &sandbox.Status{Version: "v1.37.2",
		Components: []sandbox.Component{{Name: "broker", State: "running", PID: 7, RSS: 3<<20 + 5}}}, nil
}

func (d *fakeDaemon) Traffic(context.Context, string) ([]traffic.Summary, error) { return nil, nil }

func (d *fakeDaemon) call(format string, values ...any) error {
	d.mu.Lock()
	d.calls = append(d.calls, fmt.Sprintf(format, values...))
	waits := d.waits
	d.mu.Unlock()
	if waits != nil {
		<-waits
	}
	return d.fails
}

func (d *fakeDaemon) SetFault(_ context.Context, i fault.Injection) (string, error) {
	text, err := json.Marshal(i.OfBase())
	if err != nil {
		return "", err
	}
	return "fault-1", d.call("set %v %s", i.Bases, text)
}

func (d *fakeDaemon) ClearFaults(_ context.Context, r sandbox.FaultSelector) error {
	return d.call("clear %s %v %v", r.Target, r.Bases, r.IDs)
}

func (d *fakeDaemon) Act(_ context.Context, r sandbox.ActRequest) error {
	return d.call("%s %s", r.Action, r.Component)
}

func (d *fakeDaemon) AddBases(_ context.Context, r sandbox.AddRequest) ([]sandbox.Base, error) {
	return make([]sandbox.Base, r.Count), d.call("add %d", r.Count)
}

func (d *fakeDaemon) RestartBase(_ context.Context, base string, r sandbox.RestartRequest) (*sandbox.Base, error) {
	return nil, d.call("restart %s %v", base, r.NewIdentity)
}

func (d *fakeDaemon) StartTraffic(_ context.Context, group string, s traffic.Spec) error {
	return d.call("traffic %q %s %s/%s %s %d", group, s.Name, s.Namespace, s.Service, s.Module, *s.Rate)
}

func (d *fakeDaemon) StopTraffic(_ context.Context, group, name string) (*traffic.StreamResult, error) {
	e := &traffic.StreamResult{}
	e.Sent, e.Lost = 10, 1
	return e, d.call("stop %q %s", group, name)
}

// served is a running Board with a browser that has a session.
type served struct {
	*Board
	url    string
	client *http.Client
	cookie *http.Cookie
}

func serve(t *testing.T, o Options, d daemon) *served {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := &served{client: &http.Client{}}
	var urls []string
	o.Listener, o.Opened = l, func(url string) { urls = append(urls, url) }
	s.Board, err = newBoard(o, d)
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Start(ctx) }()
	t.Cleanup(func() {
		stop()
		s.client.CloseIdleConnections()
		if err := <-ended; err != nil {
			t.Errorf("the board ended with %v", err)
		}
	})
	page, token, _ := strings.Cut(urls[0], "/#token=")
	s.url = page
	answer := s.ask(t, "POST", "/api/session", `{"token":"`+token+`"}`)
	if answer.StatusCode != http.StatusNoContent {
		t.Fatalf("the session was answered by %s", answer.Status)
	}
	s.cookie = answer.Cookies()[0]
	return s
}

// askTime is the timeout of each request, including the time for reading a stream.
const askTime = 20 * time.Second

func (s *served) ask(t *testing.T, method, path, body string) *http.Response {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), askTime)
	t.Cleanup(cancel)
	r, err := http.NewRequestWithContext(ctx, method, s.url+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	r.Header.Set("Origin", s.url)
	if s.cookie != nil {
		r.AddCookie(s.cookie)
	}
	answer, err := s.client.Do(r)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = answer.Body.Close() })
	return answer
}

func text(t *testing.T, answer *http.Response) string {
	t.Helper()
	body, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return strings.TrimSpace(string(body))
}

// matches reports whether a text matches a pattern, in which … stands for any text. An empty pattern matches every
// text.
func matches(text, pattern string) bool {
	return pattern == "" || regexp.MustCompile(
		"^"+strings.ReplaceAll(regexp.QuoteMeta(pattern), "…", ".*")+"$").MatchString(text)
}

// stream reads server-sent events strictly: the test fails if an event contains a field that wire.go does not define.
type stream struct {
	t      *testing.T
	lines  *bufio.Scanner
	tables Tables
	log    []LogEntry
}

func (s *served) stream(t *testing.T) *stream {
	t.Helper()
	lines := bufio.NewScanner(s.ask(t, "GET", "/api/events", "").Body)
	lines.Buffer(nil, 64<<20)
	return &stream{t: t, lines: lines}
}

func decode[T any](t *testing.T, data []byte) (value T) {
	t.Helper()
	d := json.NewDecoder(bytes.NewReader(data))
	d.DisallowUnknownFields()
	if err := d.Decode(&value); err != nil {
		t.Fatalf("%v in %s", err, data)
	}
	return value
}

// next reads one message from the stream and applies it to the tables of the stream.
func (x *stream) next() {
	x.t.Helper()
	event := ""
	for x.lines.Scan() {
		line := x.lines.Bytes()
		if name, ok := bytes.CutPrefix(line, []byte("event: ")); ok {
			event = string(name)
		}
		data, ok := bytes.CutPrefix(line, []byte("data: "))
		if !ok {
			continue
		}
		if event == "snapshot" {
			all := decode[Snapshot](x.t, data)
			x.tables, x.log = all.Tables, all.Log
		} else {
			x.apply(decode[Changes](x.t, data))
		}
		return
	}
	x.t.Fatalf("the stream ended: %v", x.lines.Err())
}

func (x *stream) apply(c Changes) {
	x.log = append(x.log, c.Log...)
	x.tables.Board = mergeRows(x.tables.Board, c.Set.Board, c.Del["board"])
	x.tables.Base = mergeRows(x.tables.Base, c.Set.Base, c.Del["base"])
	x.tables.Pod = mergeRows(x.tables.Pod, c.Set.Pod, c.Del["pod"])
	x.tables.Workload = mergeRows(x.tables.Workload, c.Set.Workload, c.Del["workload"])
	x.tables.Revision = mergeRows(x.tables.Revision, c.Set.Revision, c.Del["revision"])
	x.tables.Service = mergeRows(x.tables.Service, c.Set.Service, c.Del["service"])
	x.tables.Component = mergeRows(x.tables.Component, c.Set.Component, c.Del["component"])
	x.tables.Fault = mergeRows(x.tables.Fault, c.Set.Fault, c.Del["fault"])
	x.tables.Stream = mergeRows(x.tables.Stream, c.Set.Stream, c.Del["stream"])
	x.tables.Step = mergeRows(x.tables.Step, c.Set.Step, c.Del["step"])
	x.tables.Finding = mergeRows(x.tables.Finding, c.Set.Finding, c.Del["finding"])
	x.tables.Notice = mergeRows(x.tables.Notice, c.Set.Notice, c.Del["notice"])
}

func mergeRows[T any](rows, set map[string]T, del []string) map[string]T {
	if rows == nil {
		rows = map[string]T{}
	}
	for key, row := range set {
		rows[key] = row
	}
	for _, key := range del {
		delete(rows, key)
	}
	return rows
}

// until reads messages until the condition is true.
func (x *stream) until(what string, so func() bool) {
	x.t.Helper()
	deadline := time.Now().Add(20 * time.Second)
	for !so() {
		if time.Now().After(deadline) {
			x.t.Fatalf("never: %s; there is %+v", what, x.tables)
		}
		x.next()
	}
}

var began = time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)

func sendAll(d *fakeDaemon, all ...events.Event) {
	for i, e := range all {
		e.Time = began.Add(time.Duration(i) * time.Second)
		d.events <- e
	}
}

func TestWhatTheDaemonTellsIsShown(t *testing.T) {
	d := &fakeDaemon{events: make(chan events.Event)}
	x := serve(t, Options{Title: "koup"}, d).stream(t)
	sendAll(d,
		events.Event{Base: &events.BaseEvent{Base: "base-1", Identity: "id-1", Change: "up"}},
		events.Event{Base: &events.BaseEvent{Base: "base-1", Identity: "id-1", Change: "ready"}},
		events.Event{Base: &events.BaseEvent{Base: "base-1", Identity: "id-1", Change: "connected"}},
		events.Event{Component: &events.ComponentEvent{Name: "broker", State: "running"}},
		events.Event{Synced: true},
		events.Event{Module: &events.ModuleEvent{Base: "base-1",
			ModuleRef: events.ModuleRef{Name: "biz1", Version: "1.0.0"}, State: "ACTIVATED"}},
		events.Event{Fault: &events.FaultEvent{Target: "base", Base: "base-1", ID: "fault-1", Change: "set",
			Message: "latency"}},
		events.Event{Fault: &events.FaultEvent{Target: "base", Base: "base-1", ID: "fault-1", Change: "fired",
			Message: "latency"}},
		events.Event{Health: &events.HealthEvent{Base: "base-1", Health: "DOWN"}},
		events.Event{Step: &events.StepEvent{Name: "apply", State: "began"}},
		events.Event{Step: &events.StepEvent{Name: "apply", State: "passed", Message: "done"}},
	)
	x.until("the step", func() bool {
		return x.tables.Step["1"].State == "passed" && len(x.tables.Component) == 1 &&
			x.tables.Component["broker"].PID > 0
	})
	at := func(s int64) int64 { return began.UnixMilli() + s*1000 }
	actions, since := x.tables.Board["board"].Actions, x.tables.Board["board"].Since
	want := Tables{
		Board: map[string]BoardRow{
			"board": {Source: SourceSandbox, Title: "koup", Since: since, Version: "v1.37.2", Actions: actions}},
		Base: map[string]BaseRow{"base-1": {Name: "base-1", State: events.BaseStateReady, Health: HealthGood,
			Identity: "id-1", Started: at(0), Actuator: "DOWN",
			Modules: []ModuleOnBase{{Name: "biz1", Version: "1.0.0", State: "ACTIVATED", Since: at(5)}}}},
		Component: map[string]ComponentRow{
			"broker": {Name: "broker", State: "running", Since: at(3), PID: 7, RSS: 3 << 20}},
		Fault: map[string]FaultRow{
			"base-1/fault-1": {ID: "fault-1", Target: "base", Base: "base-1", Text: "latency", Since: at(6), Fired: 1}},
		Step: map[string]StepRow{
			"1": {Number: 1, Name: "apply", State: "passed", From: at(9), To: at(10), Message: "done"}},
		Pod: map[string]PodRow{}, Workload: map[string]WorkloadRow{}, Revision: map[string]RevisionRow{},
		Service: map[string]ServiceRow{}, Stream: map[string]StreamRow{},
		Finding: map[string]FindingRow{}, Notice: map[string]NoticeRow{},
	}
	if diff := cmp.Diff(want, x.tables); diff != "" {
		t.Errorf("tables (-want +got):\n%s", diff)
	}
	if len(actions) < 10 {
		t.Errorf("a sandbox offers %d actions", len(actions))
	}
	close(d.events)
	x.until("the notice", func() bool { return len(x.tables.Notice) == 1 && x.tables.Board["board"].Ended > 0 })
	if got, want := x.tables.Notice["sandbox"].Text, ": the event stream has ended"; !strings.HasSuffix(got, want) {
		t.Errorf("the notice is %q, want %q", got, want)
	}
	if len(x.tables.Base) != 1 {
		t.Error("the base is forgotten with its daemon")
	}
}

// TestRunIsShownAsItsEvents checks that the history chunks of a recorded run show the same rows as events.State,
// which the checks of the scenario used, at each point in time.
func TestRunIsShownAsItsEvents(t *testing.T) {
	run, err := ReadReport("../scenario/report/testdata/sample.json", "rolling-update")
	if err != nil {
		t.Fatal(err)
	}
	s := serve(t, Options{Run: run}, nil)
	x := &stream{t: t}
	h := decode[History](t, []byte(text(t, s.ask(t, "GET", "/api/history", ""))))
	for i, c := range h.Chunks {
		for n, line := range chunkLines(t, s, c.ID) {
			if n > 0 {
				x.apply(decode[Changes](t, line))
				compare(t, run, x)
			} else if first := decode[Snapshot](t, line); i == 0 {
				x.tables = first.Tables
			}
		}
	}
	if len(x.tables.Stream) != 2 || len(x.tables.Base) == 0 || len(x.log) < 50 {
		t.Errorf("at the end there are %d streams, %d bases, %d entries", len(x.tables.Stream), len(x.tables.Base),
			len(x.log))
	}
	live := s.stream(t)
	live.next()
	if diff := cmp.Diff(live.tables.Base, x.tables.Base); diff != "" {
		t.Errorf("the stream and the past differ (-stream +past):\n%s", diff)
	}
	if b := live.tables.Board["board"]; b.Source != SourceReport || b.Verdict != "passed" ||
		b.Ended != millis(run.Started.Add(run.Elapsed)) || b.Actions != nil {
		t.Errorf("board row: %+v", b)
	}
}

// TestRunShowsAllRequests checks that each second of each stream in a run is a separate change with all its requests,
// even if the run has no other events at that time, and that the last row of each stream has the totals of the report.
func TestRunShowsAllRequests(t *testing.T) {
	const seconds = 400 // more than the log entries of a snapshot, and more than one history chunk
	run := &scenario.Run{Scenario: "busy", Namespace: "busy", Started: began,
		Elapsed: (seconds + 1) * time.Second,
		Timeline: []events.Event{
			{Time: began, Base: &events.BaseEvent{Base: "base-1", Change: events.BaseUp}},
			{Time: began.Add((seconds - 2) * time.Second),
				Base: &events.BaseEvent{Base: "base-1", Change: events.BaseDown}},
		}}
	want := map[string][]int{}
	for i, name := range []string{"service", "bases", "gateway"} {
		from := began.Add(time.Duration(i+1) * 100 * time.Millisecond)
		s := scenario.Traffic{Summary: traffic.Summary{Name: name, Started: from,
			Ended: from.Add((seconds - 1) * time.Second).Add(500 * time.Millisecond)}}
		for n := range seconds {
			x := traffic.Second{Start: from.Add(time.Duration(n) * time.Second), Sent: 200 + n, Lost: n % (i + 2)}
			s.Seconds = append(s.Seconds, x)
			s.Sent, s.Summary.Lost = s.Sent+x.Sent, s.Summary.Lost+x.Lost
			want[name] = append(want[name], x.Lost)
		}
		run.Traffic = append(run.Traffic, s)
	}
	for _, elapsed := range []time.Duration{run.Elapsed, run.Elapsed - 2*time.Second} { // streams may outlast the run
		run.Elapsed = elapsed
		s := serve(t, Options{Run: run}, nil)
		got, last := map[string][]int{}, int64(0)
		for _, c := range decode[History](t, []byte(text(t, s.ask(t, "GET", "/api/history", "")))).Chunks {
			for _, line := range chunkLines(t, s, c.ID)[1:] {
				x := decode[Changes](t, line)
				for _, row := range x.Set.Stream {
					if row.Ended == 0 {
						got[row.Name] = append(got[row.Name], int(row.LostRate))
					}
				}
				last = x.Time
			}
		}
		if end := millis(began.Add(elapsed)); last > end {
			t.Errorf("the last change is %d ms after the run", last-end)
		}
		if diff := cmp.Diff(want, got); diff != "" && elapsed > seconds*time.Second {
			t.Errorf("lost requests by second (-want +got):\n%s", diff)
		}
		live := s.stream(t)
		live.next()
		for _, x := range run.Traffic {
			if row := live.tables.Stream["busy/"+x.Name]; row.Sent != x.Sent || row.Lost != x.Summary.Lost ||
				row.Ended != millis(x.Ended) {
				t.Errorf("%s: sent %d, lost %d, ended %d; the report has %d, %d, %d", x.Name, row.Sent, row.Lost,
					row.Ended, x.Sent, x.Summary.Lost, millis(x.Ended))
			}
		}
	}
}

func chunkLines(t *testing.T, s *served, id int64) [][]byte {
	t.Helper()
	body := []byte(text(t, s.ask(t, "GET", fmt.Sprintf("/api/history/%d", id), "")))
	return bytes.Split(body, []byte("\n"))
}

// compare applies the events of the run to an events.State, up to the newest event that the board has shown, and
// compares this state with the rows of the board.
func compare(t *testing.T, run *scenario.Run, x *stream) {
	t.Helper()
	var state events.State
	modules := func(row BaseRow) (out []events.ModuleRef) {
		for _, m := range row.Modules {
			out = append(out, events.ModuleRef{Name: m.Name, Version: m.Version})
		}
		return out
	}
	for _, e := range run.Timeline {
		state.Apply(e)
		if same := len(x.tables.Pod) == state.Pods.Len(); !same {
			continue
		}
		equal := true
		for b := range state.Bases.All() {
			row, there := x.tables.Base[b.Name]
			var want []events.ModuleRef
			for _, m := range b.Modules {
				want = append(want, m.ModuleRef)
			}
			equal = equal && there == !b.Removed && (b.Removed || row.State == b.State()) &&
				cmp.Equal(want, modules(row))
		}
		for p := range state.Pods.All() {
			row := x.tables.Pod[p.UID]
			equal = equal && row.Ready == p.Ready && row.Base == p.Base && row.Deleting == p.Deleting &&
				row.ReadySince == millis(p.ReadySince)
		}
		if equal {
			return
		}
	}
	t.Fatalf("no time of the run has the shown tables: %+v", x.tables)
}

func TestActions(t *testing.T) {
	for name, c := range map[string]struct {
		action, params string
		fails          error
		status         int
		answer         string
		calls          []string
	}{
		"a fault": {"fault.set", `{"base":"base-1","kind":"error","code":"User.MetaspaceFull","count":"2"}`, nil, 200,
			`{"message":"…fault-1 (error)…base-1…","command":"koupsandbox fault set --base base-1 '{\"kind\":\"error\",\"count\":2,\"code\":\"User.MetaspaceFull\"}' --name koup"}`,
			[]string{`set [base-1] {"kind":"error","count":2,"code":"User.MetaspaceFull"}`}},
		"a fault that delays": {"fault.set", `{"base":"base-1","kind":"latency","delay":"1s"}`, nil, 200, "",
			[]string{`set [base-1] {"kind":"latency","delay":{"min":"1s"}}`}},
		"a clock": {"fault.set", `{"base":"base-1","kind":"clockSkew","delay":"1m"}`, nil, 200, "",
			[]string{`set [base-1] {"kind":"clockSkew","skew":"1m0s"}`}},
		"a fault that ends": {"fault.clear", `{"base":"base-1","target":"base","id":"fault-1"}`, nil, 200, "",
			[]string{"clear base [base-1] [fault-1]"}},
		"a fault of the API": {"fault.clear", `{"target":"api","id":"rule-1"}`, nil, 200, "",
			[]string{"clear api [] [rule-1]"}},
		"kill a base": {"base.kill", `{"base":"base-1"}`, nil, 200, "", []string{`set [base-1] {"kind":"crash"}`}},
		"restart a base": {"base.restart", `{"base":"base-1","newIdentity":"true"}`, nil, 200, "",
			[]string{"restart base-1 true"}},
		"more bases": {"base.add", `{"count":"2"}`, nil, 200,
			`{"message":"…2…","command":"koupsandbox base add 2 --name koup"}`, []string{"add 2"}},
		"a component": {"component.pause", `{"component":"broker"}`, nil, 200, "", []string{"pause broker"}},
		"requests": {"traffic.start", `{"namespace":"default","service":"stock","module":"biz1"}`, nil, 200, "",
			[]string{`traffic "" board default/stock biz1 20`}},
		"no more requests": {"traffic.stop", `{"stream":"board"}`, nil, 200, `{"message":"board…10…1…"}`,
			[]string{`stop "" board`}},
		"no action": {"nonsense", `{}`, nil, 404,
			`{"error":"…\"nonsense\"…","code":"KouplelessBoard.OperationPlanNotFound"}`, nil},
		"no JSON": {"base.kill", `{`, nil, 400, "", nil},
		"no parameter": {"base.kill", `{}`, nil, 400,
			`{"error":"base.kill…base…","code":"OtherUpstream.InvalidParameter"}`, nil},
		"a parameter too many": {"base.kill", `{"base":"base-1","force":"true"}`, nil, 400,
			`{"error":"base.kill…\"force\"…","code":"OtherUpstream.InvalidParameter"}`, nil},
		"no kind of fault": {"fault.set", `{"base":"base-1","kind":"rust"}`, nil, 400, "", nil},
		"no number": {"base.add", `{"count":"many"}`, nil, 400,
			`{"error":"count…0…1000000…","code":"OtherUpstream.InvalidParameter"}`, nil},
		"no time": {"fault.set", `{"base":"base-1","kind":"latency","delay":"soon"}`, nil, 400,
			`{"error":"delay…2s…","code":"OtherUpstream.InvalidParameter"}`, nil},
		"a base that refuses": {"base.kill", `{"base":"base-9"}`, &sandbox.Error{Code: 404, Message: "no such base"},
			502,
			`{"error":"no such base","code":"ModuleController.BaseInstanceOperationFailed"}`,
			[]string{`set [base-9] {"kind":"crash"}`}},
		"a sandbox that refuses": {"component.stop", `{"component":"daemon"}`,
			&sandbox.Error{Code: 409, Message: "not now"}, 502,
			`{"error":"not now","code":"OtherDownstream.ExternalError"}`, []string{"stop daemon"}},
		"a sandbox that is too slow": {"component.start", `{"component":"broker"}`,
			fmt.Errorf("asking: %w", context.DeadlineExceeded), 504,
			`{"error":"asking: context deadline exceeded","code":"KouplelessBoard.NetworkError"}`,
			[]string{"start broker"}},
		"something else": {"component.start", `{"component":"broker"}`, errors.New("strange"), 502,
			`{"error":"strange","code":"KouplelessBoard.UnknownError"}`, []string{"start broker"}},
		"a mistake of the board": {"base.remove", `{"base":"base-1"}`, nil, 500,
			`{"error":"…base.remove…","code":"KouplelessBoard.InternalError"}`, nil},
	} {
		t.Run(name, func(t *testing.T) {
			d := &fakeDaemon{events: make(chan events.Event), fails: c.fails}
			s := serve(t, Options{Title: "koup", Flags: []string{"--name", "koup"}}, d)
			answer := s.ask(t, "POST", "/api/actions/"+c.action, c.params)
			got := text(t, answer)
			if answer.StatusCode != c.status || !matches(got, c.answer) {
				t.Errorf("%d %s\nwant %d %s", answer.StatusCode, got, c.status, c.answer)
			}
			if diff := cmp.Diff(c.calls, d.calls); diff != "" {
				t.Errorf("calls (-want +got):\n%s", diff)
			}
			x := s.stream(t)
			x.until("an entry of the log", func() bool { return len(x.log) > 0 })
			if e := x.log[0]; e.Kind != LogAction || e.User == "" || e.Name != c.action || e.Time == 0 ||
				e.Bad != (c.status != 200) || (e.Code != "") != e.Bad {
				t.Errorf("log entry: %+v", e)
			}
		})
	}
}

func TestActionsExcludeEachOther(t *testing.T) {
	d := &fakeDaemon{events: make(chan events.Event), waits: make(chan struct{})}
	s := serve(t, Options{Title: "koup"}, d)
	goesOn := func(n int) bool {
		s.acts.mu.Lock()
		defer s.acts.mu.Unlock()
		return len(s.acts.busy) == n
	}
	var asked sync.WaitGroup
	defer asked.Wait()
	defer close(d.waits)
	begin := func(action, params string, n int) {
		asked.Go(func() {
			_, _ = s.acts.do(context.Background(), action, decode[map[string]string](t, []byte(params)))
		})
		for !goesOn(n) {
			runtime.Gosched()
		}
	}
	begin("base.kill", `{"base":"base-1"}`, 1)
	begin("component.stop", `{"component":"broker"}`, 2)
	for name, c := range map[string]struct{ action, params, want string }{
		"on a base": {"base.restart", `{"base":"base-1"}`,
			`{"error":"the action base.kill…base/base-1…","code":"ModuleController.BaseInstanceUnderOperation"}`},
		"on a component": {"component.kill", `{"component":"broker"}`,
			`{"error":"the action component.stop…component/broker…","code":"KouplelessBoard.OperationPlanMutualExclusion"}`},
	} {
		if answer := s.ask(t, "POST", "/api/actions/"+c.action, c.params); answer.StatusCode != 409 ||
			!matches(text(t, answer), c.want) {
			t.Errorf("%s: %d, want 409 %s", name, answer.StatusCode, c.want)
		}
	}
	for i := 2; i < maxActions; i++ {
		begin("component.kill", fmt.Sprintf(`{"component":"c%d"}`, i), i+1)
	}
	answer := s.ask(t, "POST", "/api/actions/base.kill", `{"base":"base-2"}`)
	if want := `{"error":"16…","code":"KouplelessBoard.ThreadPoolError"}`; answer.StatusCode != 503 ||
		!matches(text(t, answer), want) {
		t.Errorf("one too many: %d, want 503 %s", answer.StatusCode, want)
	}
}

func TestNoSessionNoData(t *testing.T) {
	s := serve(t, Options{Title: "koup"}, &fakeDaemon{events: make(chan events.Event)})
	s.cookie = nil
	for _, path := range []string{"/api/events", "/api/history", "/api/history/1", "/api/why?kind=pod&name=x",
		"/api/nonsense"} {
		if answer := s.ask(t, "GET", path, ""); answer.StatusCode != http.StatusUnauthorized {
			t.Errorf("GET %s without a session: %s", path, answer.Status)
		}
	}
	if answer := s.ask(t, "POST", "/api/actions/base.kill",
		`{"base":"base-1"}`); answer.StatusCode != http.StatusUnauthorized {
		t.Errorf("an action without a session: %s", answer.Status)
	}
	answer := s.ask(t, "GET", "/", "")
	if body := text(t, answer); answer.StatusCode != 200 || strings.Contains(body, "<script>") ||
		strings.Contains(body, "style=") {
		t.Errorf("the page: %s\n%s", answer.Status, body)
	}
}

func TestBoardNeedsSomethingToShow(t *testing.T) {
	if _, err := New(Options{}); err == nil || !strings.Contains(err.Error(), "requires a sandbox") {
		t.Errorf("error %v", err)
	}
}
