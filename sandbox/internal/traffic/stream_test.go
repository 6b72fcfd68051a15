package traffic

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

func mustResolve(t *testing.T, s Spec) resolvedSpec {
	t.Helper()
	p, err := s.resolve()
	check.Must(t, err)
	return p
}

// TestRequestsAreSentWhenDue checks that each request is sent when it is due, and that slow responses do not delay
// later requests.
func TestRequestsAreSentWhenDue(t *testing.T) {
	for name, answerTime := range map[string]time.Duration{"quick": 0, "slow": 3 * time.Second} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				do := func(ctx context.Context) Record {
					select {
					case <-time.After(answerTime):
						return Record{Result: OK, Version: "1"}
					case <-ctx.Done():
						return Record{Result: Timeout}
					}
				}
				start := time.Now()
				s := newStream(t.Context(), mustResolve(t, spec("traffic", 300, 3000)), do, nil)
				<-s.done
				if took, want := time.Since(start), 9996666666*time.Nanosecond+answerTime; took != want {
					t.Errorf("took %v, want %v", took, want)
				}
				n := 0
				for r := range s.log.all() {
					due := start.Add(time.Duration(n) * time.Second / 300)
					if !r.Due.Equal(due) || !r.Sent.Equal(due) || r.Done.Sub(r.Sent) != answerTime {
						t.Fatalf("request %d: due %v, sent %v, done %v; want %v", n, r.Due, r.Sent, r.Done, due)
					}
					n++
				}
				want := Summary{
					Name: "traffic", Route: RouteBases, Sent: 3000, Results: map[Result]int{OK: 3000},
					Versions: map[string]int{"1": 3000},
					P50:      answerTime, P99: answerTime, Max: answerTime, Started: start,
					Ended: start.Add(9996666666),
				}
				if d := cmp.Diff(want, s.summary(), cmpopts.EquateApproxTime(0),
					cmpopts.IgnoreFields(Summary{}, "Note")); n != 3000 || d != "" ||
					!strings.Contains(s.summary().Note, "3000") {
					t.Errorf("%d records, summary (-want +got):\n%s", n, d)
				}
				seconds := s.log.seconds()
				for i, sec := range seconds {
					if d := cmp.Diff(
						Second{Start: start.Add(time.Duration(i) * time.Second), Sent: 300,
							Versions: map[string]int{"1": 300}}, sec); d != "" {
						t.Errorf("second %d (-want +got):\n%s", i, d)
					}
				}
				if len(seconds) != 10 {
					t.Errorf("%d seconds", len(seconds))
				}
				for length, want := range map[time.Duration]time.Duration{6 * time.Second: 10 * time.Millisecond,
					10 * time.Second: 20 * time.Millisecond, 5 * time.Minute: 500 * time.Millisecond,
					301 * time.Second: 0} {
					width, bins := s.log.bins(length)
					sent := 0
					for i, b := range bins {
						sent += b.Sent
						if want := (Bin{From: time.Duration(i) * width, Sent: int(300 * width / time.Second),
							Versions: map[string]int{"1": int(300 * width / time.Second)}}); cmp.Diff(want, b) != "" {
							t.Errorf("of %v, bin %d (-want +got):\n%s", length, i, cmp.Diff(want, b))
							break
						}
					}
					if width != want || width > 0 && sent != 3000 {
						t.Errorf("of %v: bins of %v with %d requests, want %v with 3000", length, width, sent, want)
					}
				}
			})
		})
	}
}

// TestTooManyOpenRequests checks that requests beyond MaxOpen are not sent and are recorded as lost.
func TestTooManyOpenRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var sent atomic.Int64
		do := func(context.Context) Record {
			sent.Add(1)
			time.Sleep(time.Second)
			return Record{Result: OK}
		}
		var lost atomic.Int64
		s := newStream(t.Context(), mustResolve(t, spec("s", 10, 20, func(s *Spec) { s.MaxOpen = 5 })), do,
			func(Record) { lost.Add(1) })
		<-s.done
		// Of the ten requests per second, five can be sent.
		if d := cmp.Diff(map[Result]int{OK: 10, Other: 10}, s.summary().Results); d != "" || sent.Load() != 10 ||
			lost.Load() != 10 {
			t.Errorf("sent %d, reported %d lost, results (-want +got):\n%s", sent.Load(), lost.Load(), d)
		}
		if got := s.log.lost()[0].Error; !strings.Contains(got, "5 requests") {
			t.Errorf("error %q", got)
		}
	})
}

func TestStreamStopsAtItsDurationLimit(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newStream(t.Context(), mustResolve(t, spec("s", 1, 0)),
			func(context.Context) Record { return Record{Result: OK} }, nil)
		start := time.Now()
		<-s.done
		sum := s.summary()
		if sum.Sent != 900 || !strings.Contains(sum.Note, "15m0s") || time.Since(start) > DefaultDuration {
			t.Errorf("after %v: %+v", time.Since(start), sum)
		}
	})
}

// TestReportedLostRequestsAreLimited checks that only the first 1000 lost requests are reported individually, but all
// lost requests are counted.
func TestReportedLostRequestsAreLimited(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var reported atomic.Int64
		do := func(context.Context) Record { return Record{Result: Refused} }
		s := newStream(t.Context(), mustResolve(t, spec("s", 5000, 5000)), do, func(Record) { reported.Add(1) })
		<-s.done
		if sum := s.summary(); sum.Lost != 5000 || reported.Load() != MaxLost || len(s.log.lost()) != MaxLost {
			t.Errorf("lost %d, reported %d, listed %d", sum.Lost, reported.Load(), len(s.log.lost()))
		}
	})
}

// TestStopAndDrop checks that Stop waits for in-flight requests, and that Drop cancels them.
func TestStopAndDrop(t *testing.T) {
	r := newFixture(t)
	arrived, release := make(chan struct{}), make(chan struct{})
	web := listen(t, func(c *net.TCPConn) {
		arrived <- struct{}{}
		<-release
		_, _ = c.Write([]byte("HTTP/1.1 200 OK\r\nContent-Length: 0\r\n\r\n"))
	})
	r.bases.set(Target{IP: "198.18.0.1", Base: "base-1", Web: web})
	spec := spec("s", 1, 0, timeout(time.Minute))
	begin := func(name string) {
		t.Helper()
		spec.Name = name
		check.Must(t, r.generator.StartStream(t.Context(), "g", spec))
		<-arrived
	}
	begin("s")
	if err := r.generator.StartStream(t.Context(), "g", spec); !errors.Is(err, ErrStreamExists) {
		t.Errorf("a second stream with the same name returned %v", err)
	}
	ended := make(chan *StreamResult, 1)
	go func() {
		end, err := r.generator.Stop(t.Context(), "g", "s")
		if err != nil {
			t.Error(err)
		}
		ended <- end
	}()
	s, _ := r.generator.find("g", "s")
	eventually(t, func() error {
		if s.summary().Ended.IsZero() {
			return errors.New("the stream has not been stopped")
		}
		return nil
	})
	select {
	case end := <-ended:
		t.Fatalf("Stop did not wait: %+v", end)
	default:
	}
	if sum := s.summary(); sum.Sent != 1 || sum.Open != 1 || sum.Lost != 0 {
		t.Errorf("while a request is open: %+v", sum)
	}
	close(release)
	if end := <-ended; end.Results[OK] != 1 || end.Open != 0 {
		t.Errorf("end %+v", end)
	}

	release = make(chan struct{})
	defer close(release)
	begin("u")
	if names := []string{r.generator.Summaries("g")[0].Name, r.generator.Summaries("g")[1].Name}; names[0] != "s" ||
		names[1] != "u" {
		t.Errorf("streams %q", names)
	}
	u, _ := r.generator.find("g", "u")
	r.generator.Drop("g")
	if sum := u.summary(); sum.Open != 1 || sum.Lost != 0 {
		t.Errorf("dropped: %+v", sum)
	}
	if _, err := r.generator.Stop(t.Context(), "g", "u"); !errors.Is(err, ErrNoStream) {
		t.Errorf("stopping a dropped stream returned %v", err)
	}
	if len(r.generator.Summaries("g")) != 0 {
		t.Error("dropped streams are still listed")
	}
}

func TestInvalidSpecReturnsAllErrors(t *testing.T) {
	s := spec("x", 6000, -1, timeout(time.Hour))
	s.Via, s.Module = "air", ""
	_, err := s.resolve()
	lines := strings.SplitN(fmt.Sprint(err)+strings.Repeat("\n", 5), "\n", 6)
	for i, names := range []string{`"x" module`, `via "air" service bases`, "rate 6000 1 5000",
		"timeout 1h0m0s 1ms 1m0s", "total -1 1 2000000"} {
		check.ContainsWords(t, lines[i], names)
	}
	s = Spec{}
	s.Module = "m"
	if _, err := s.resolve(); err == nil || !strings.Contains(err.Error(), "service") ||
		!strings.Contains(err.Error(), "namespace") {
		t.Errorf("got %v", err)
	}
}

// TestLateIncludesReferenceRequests checks that the reported delay includes a pending reference request, because a
// stream may end before this request is answered.
func TestLateIncludesReferenceRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newRequestLog(time.Now())
		sent := time.Now()
		l.referenceSent(sent)
		time.Sleep(3 * time.Second)
		if late := l.summary().Late; late != 3*time.Second {
			t.Errorf("late without an answer is %v, want 3s", late)
		}
		l.referenceDone(sent, time.Now())
		time.Sleep(time.Minute)
		if late := l.summary().Late; late != 3*time.Second {
			t.Errorf("late after the answer is %v, want 3s", late)
		}
	})
}
