package agent

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/stdio"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

const (
	waitTimeout = check.WaitTimeout
)

// inMemory is an agent that runs in the test process.
type inMemory struct {
	http.RoundTripper
	end  context.CancelFunc
	done chan struct{}
	why  error // error with which the agent ended; valid after done is closed
}

func (p *inMemory) Done() <-chan struct{} { return p.done }

func (p *inMemory) Err() error {
	select {
	case <-p.done:
		return p.why
	default:
		return nil
	}
}

func (p *inMemory) Close() error {
	p.end()
	<-p.done
	return nil
}

// fixture is a Remote that is stopped at the end of the test.
type fixture struct {
	*Remote
	lost chan traffic.LostRequest

	mu     sync.Mutex
	agents []*inMemory // agents that the Remote has started
	fail   error       // error that the next launch returns
	stop   func()
}

func newFixture(t *testing.T) *fixture {
	t.Helper()
	r := &fixture{lost: make(chan traffic.LostRequest, 10*traffic.MaxLost)}
	r.start(t, r.launch)
	return r
}

func (r *fixture) start(t *testing.T, launch func(context.Context) (Process, error)) {
	r.Remote = New(Options{Launch: launch, Lost: func(l traffic.LostRequest) { r.lost <- l }})
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- r.Start(ctx) }()
	r.stop = sync.OnceFunc(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(r.stop)
}

func (r *fixture) launch(ctx context.Context) (Process, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if err := r.fail; err != nil {
		r.fail = nil
		return nil, err
	}
	here, there := net.Pipe()
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	p := &inMemory{end: end, done: make(chan struct{}), why: errors.New("the node went away")}
	go func() {
		defer close(p.done)
		if err := Serve(ctx, there, 0); err != nil {
			p.why = err
		}
	}()
	client, err := stdio.Dial(here)
	p.RoundTripper = client
	r.agents = append(r.agents, p)
	return p, err
}

// startStream starts a stream of the group "g" that sends its requests to the given address.
func (r *fixture) startStream(t *testing.T, name, address string, change ...func(*traffic.Spec)) {
	t.Helper()
	check.Must(t, r.StartStream(t.Context(), "g", spec(name, address, change...), nil))
}

// finish waits until a stream has sent all its requests, then stops it and returns its result.
func (r *fixture) finish(t *testing.T, name string) *traffic.StreamResult {
	t.Helper()
	eventually(t, func() error {
		for _, s := range r.Summaries(t.Context(), "g") {
			if s.Name == name && !s.Ended.IsZero() && s.Open == 0 {
				return nil
			}
		}
		return errors.New("the stream has not ended")
	})
	end, err := r.Stop(t.Context(), "g", name)
	check.Must(t, err)
	return end
}

// spec returns the spec of a stream that sends 20 requests within 20 ms.
func spec(name, address string, change ...func(*traffic.Spec)) traffic.Spec {
	rate := 1000
	s := traffic.Spec{Namespace: "shop", Total: 20, Address: address}
	s.Name, s.Service, s.Module, s.Rate, s.Timeout = name, "stock", "biz1", &rate, &metav1.Duration{
		Duration: time.Minute}
	for _, c := range change {
		c(&s)
	}
	return s
}

// serve starts a server with the handler h and returns its address.
func serve(t *testing.T, h http.HandlerFunc) string {
	s := httptest.NewServer(h)
	t.Cleanup(func() {
		s.CloseClientConnections()
		s.Close()
	})
	return strings.TrimPrefix(s.URL, "http://")
}

func answers(w http.ResponseWriter, r *http.Request) {
	w.Header().Set(fakebase.HostNameHeader, "g-base-1")
	if r.Host != "stock.shop" || r.URL.Path != "/biz1" {
		w.WriteHeader(http.StatusTeapot)
		return
	}
	_, _ = w.Write([]byte(`{"hostName":"g-base-1","biz":"biz1","version":"2.0"}`))
}

func misses(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set(fakebase.HostNameHeader, "g-base-2")
	w.WriteHeader(http.StatusNotFound)
}

// hangs is a handler that never responds.
func hangs(_ http.ResponseWriter, r *http.Request) { <-r.Context().Done() }

func eventually(t *testing.T, look func() error) {
	t.Helper()
	check.Eventually(t, waitTimeout, look)
}

// ignoreTimes is a comparison option that ignores the times and error texts of records.
var ignoreTimes = cmpopts.IgnoreFields(traffic.Record{}, "Due", "Sent", "Done", "Error")

func TestStream(t *testing.T) {
	for name, reuse := range map[string]bool{"a connection each": false, "connections that stay": true} {
		t.Run(name, func(t *testing.T) {
			r := newFixture(t)
			address := serve(t, answers)
			r.startStream(t, "s", address, func(s *traffic.Spec) { s.Reuse = reuse })
			end := r.finish(t, "s")
			want := traffic.Summary{
				Name: "s", Route: traffic.RouteKubeProxy, Sent: 20, Results: map[traffic.Result]int{traffic.OK: 20},
				Versions: map[string]int{"2.0": 20},
			}
			ignored := cmpopts.IgnoreFields(traffic.Summary{}, "P50", "P99", "Max", "Late", "Started", "Ended", "Note")
			if diff := cmp.Diff(want, end.Summary, ignored); diff != "" || !strings.Contains(end.Note, "20 requests") {
				t.Errorf("summary (-want +got):\n%s", diff)
			}
			var n uint64
			err := r.Records(t.Context(), "g", "s", func(got traffic.Record) {
				n++
				want := traffic.Record{Seq: n, Endpoint: address, Base: "base-1", Version: "2.0", Result: traffic.OK,
					Status: 200}
				if diff := cmp.Diff(want, got, ignoreTimes); diff != "" {
					t.Errorf("record (-want +got):\n%s", diff)
				}
			})
			if err != nil || n != 20 {
				t.Errorf("%d records, error %v", n, err)
			}
			if all := r.Summaries(t.Context(), "g"); len(all) != 1 || all[0].Sent != 20 {
				t.Errorf("streams %+v", all)
			}
		})
	}
}

// TestLostRequestsAreReported checks that lost requests are reported while the stream is running, and that all of
// them have been reported when Stop returns.
func TestLostRequestsAreReported(t *testing.T) {
	r := newFixture(t)
	address := serve(t, misses)
	r.startStream(t, "s", address, func(s *traffic.Spec) { s.Total = 500 })
	want := traffic.LostRequest{Group: "g", Stream: "s", Route: traffic.RouteKubeProxy, Module: "biz1",
		Record: traffic.Record{
			Seq: 1, Endpoint: address, Base: "base-2", Result: traffic.NotFound, Status: 404,
		}}
	first := <-r.lost
	first.Record.Seq = 1 // concurrent requests may be reported in another order
	if diff := cmp.Diff(want, first, ignoreTimes); diff != "" {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	end, err := r.Stop(t.Context(), "g", "s")
	check.Must(t, err)
	if reported := 1 + len(r.lost); reported != end.Lost || end.Lost == 0 || len(end.LostRequests) != end.Lost {
		t.Errorf("%d reported, %d counted, %d listed", reported, end.Lost, len(end.LostRequests))
	}
}

// fastClockProcess is the Process of an agent whose clock is one hour ahead.
type fastClockProcess struct{ Process }

func (p fastClockProcess) RoundTrip(r *http.Request) (*http.Response, error) {
	answer, err := p.Process.RoundTrip(r)
	if err == nil && r.URL.Path == "/Clock" {
		_ = answer.Body.Close()
		text, _ := time.Now().Add(time.Hour).MarshalJSON() // the year is valid in JSON
		answer.Body = io.NopCloser(bytes.NewReader(text))
	}
	return answer, err
}

// TestTimesUseLocalClock checks that the times that an agent reports are converted to the local clock. The clock of
// the agent is one hour ahead.
func TestTimesUseLocalClock(t *testing.T) {
	r, began := &fixture{lost: make(chan traffic.LostRequest, 10*traffic.MaxLost)}, time.Now()
	r.start(t, func(ctx context.Context) (Process, error) {
		p, err := r.launch(ctx)
		return fastClockProcess{p}, err
	})
	r.startStream(t, "s", serve(t, misses))
	first := <-r.lost
	end := r.finish(t, "s")
	times := map[string]time.Time{
		"a reported loss": first.Record.Done, "a loss": end.LostRequests[0].Due, "the start": end.Started,
		"the end":          end.Ended,
		"the first second": end.Seconds[0].Start, "the start so far": r.Summaries(t.Context(), "g")[0].Started,
	}
	if err := r.Records(t.Context(), "g", "s",
		func(record traffic.Record) { times["a record"] = record.Sent }); err != nil {
		t.Error(err)
	}
	for what, at := range times {
		if earlier := began.Sub(at); earlier < 50*time.Minute || earlier > time.Hour {
			t.Errorf("%s was %s before the test, want an hour", what, earlier)
		}
	}
}

// TestAgentEndsMidStream checks that, if an agent exits during a stream, a lost request reports the interruption and
// Stop returns an error, because the result of the stream is lost.
func TestAgentEndsMidStream(t *testing.T) {
	r := newFixture(t)
	r.startStream(t, "done", serve(t, answers))
	r.finish(t, "done")
	r.startStream(t, "s", serve(t, hangs), func(s *traffic.Spec) { s.Total = 1 })
	eventually(t, func() error {
		if all := r.Summaries(t.Context(), "g"); all[1].Open != 1 {
			return errors.New("no request is open")
		}
		return nil
	})
	r.agents[0].end()

	const why = "the node went away"
	want := traffic.LostRequest{Group: "g", Stream: "s", Route: traffic.RouteKubeProxy,
		Record: traffic.Record{Result: traffic.Other}}
	lost := <-r.lost
	if diff := cmp.Diff(want, lost, ignoreTimes); diff != "" || !strings.Contains(lost.Record.Error, why) {
		t.Errorf("reported (-want +got):\n%s", diff)
	}
	all := r.Summaries(t.Context(), "g")
	if len(all) != 2 || all[0].Sent != 20 || strings.Contains(all[0].Note, why) || all[1].Open != 1 ||
		!strings.Contains(all[1].Note, why) || all[1].Ended.IsZero() {
		t.Errorf("streams %+v", all)
	}
	if end, err := r.Stop(t.Context(), "g", "s"); err == nil || !strings.Contains(err.Error(), `"s"`) ||
		!strings.Contains(err.Error(), why) {
		t.Errorf("Stop returned %+v and %v", end, err)
	}
	if err := r.Records(t.Context(), "g", "s", func(traffic.Record) {}); err == nil ||
		!strings.Contains(err.Error(), why) {
		t.Errorf("Records returned %v", err)
	}

	// The next stream has another agent.
	if err := r.StartStream(t.Context(), "g", spec("s", "127.0.0.1:1"), nil); !errors.Is(err, traffic.ErrStreamExists) {
		t.Errorf("a second stream with the same name returned %v", err)
	}
	r.startStream(t, "next", serve(t, answers))
	if end := r.finish(t, "next"); end.Results[traffic.OK] != 20 || len(r.agents) != 2 {
		t.Errorf("%d agents, %+v", len(r.agents), end)
	}
	r.Drop(t.Context(), "g")
	if all := r.Summaries(t.Context(), "g"); len(all) != 0 || len(r.lost) != 0 {
		t.Errorf("after Drop: streams %+v, %d more lost requests", all, len(r.lost))
	}
}

func TestDrop(t *testing.T) {
	r := newFixture(t)
	r.startStream(t, "s", serve(t, hangs))
	r.startStream(t, "misses", serve(t, misses), func(s *traffic.Spec) { s.Total = 0 })
	<-r.lost
	check.Must(t, r.StartStream(t.Context(), "other", spec("s", serve(t, answers)), nil))
	r.Drop(t.Context(), "g")
	reported := len(r.lost)
	if _, err := r.Stop(t.Context(), "g", "s"); !errors.Is(err, traffic.ErrNoStream) {
		t.Errorf("stopping a dropped stream returned %v", err)
	}
	if all := r.Summaries(t.Context(), "other"); len(all) != 1 || all[0].Name != "s" {
		t.Errorf("the other group has %+v", all)
	}
	if len(r.lost) != reported {
		t.Error("lost requests were reported after Drop")
	}
}

func TestStartStreamReturnsErrors(t *testing.T) {
	r := newFixture(t)
	r.fail = errors.New("no such container")
	air := spec("s", "127.0.0.1:1", func(s *traffic.Spec) { s.Via = "air" })
	for _, c := range []struct {
		spec traffic.Spec
		want string
	}{
		{air, `"air"`},
		{spec("s", "127.0.0.1:1"), "no such container"},
		{spec("s", ""), "Services"},
		{spec("s", "stock:80"), `"stock:80"`},
	} {
		if err := r.StartStream(t.Context(), "g", c.spec, nil); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("got %v\nwant %s", err, c.want)
		}
	}
	r.startStream(t, "s", serve(t, answers)) // the name is unused, and an agent is running
	r.stop()
	<-r.agents[0].done
	if err := r.StartStream(t.Context(), "g", spec("late", "127.0.0.1:1"), nil); !errors.Is(err, errNotRunning) {
		t.Errorf("after Start has returned, StartStream returned %v", err)
	}
	if l := len(r.lost); l != 0 {
		t.Errorf("%d lost requests were reported", l)
	}
}
