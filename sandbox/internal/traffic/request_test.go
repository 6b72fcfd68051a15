package traffic

import (
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

// TestResults checks the record of a request for each result. For this, a server behaves in a way that causes the
// result.
func TestResults(t *testing.T) {
	reset := func(c *net.TCPConn) {
		_ = c.SetLinger(0)
		_ = c.Close()
	}
	say := func(text string, then func(*net.TCPConn)) func(*net.TCPConn) {
		return func(c *net.TCPConn) {
			_, _ = io.WriteString(c, text)
			then(c)
		}
	}
	fin := func(c *net.TCPConn) { _ = c.Close() }
	hang := func(c *net.TCPConn) { _, _ = c.Read(make([]byte, 1)) }
	const half = "HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n{\"version\":\"2\""
	for name, c := range map[string]struct {
		web      string
		versions []string
		want     Record
	}{
		"ok": {
			web: serve(t, answer("h", "biz1", "2")), versions: []string{"1", "2"},
			want: Record{Result: OK, Status: 200, Version: "2"},
		},
		"ok in words": {
			web: serve(t, http.HandlerFunc(
				func(w http.ResponseWriter, _ *http.Request) { _, _ = io.WriteString(w, "hello") })),
			want: Record{Result: OK, Status: 200},
		},
		"created is ok": {web: serve(t, status(201)), want: Record{Result: OK, Status: 201}},
		"wrong version": {
			web: serve(t, answer("h", "biz1", "1")), versions: []string{"2"},
			want: Record{Result: WrongVersion, Status: 200, Version: "1", Error: `"1"`},
		},
		"no version where one is asked for": {
			web: serve(t, status(200)), versions: []string{"2"},
			want: Record{Result: WrongVersion, Status: 200, Error: `""`},
		},
		"another module": {
			web:  serve(t, answer("h", "root", "1")),
			want: Record{Result: Other, Status: 200, Version: "1", Error: "root"},
		},
		"another base has the port": {
			web:  serve(t, answer("other", "biz1", "1")),
			want: Record{Result: Refused, Status: 200, Error: errorNoListener},
		},
		"not found":   {web: serve(t, status(404)), want: Record{Result: NotFound, Status: 404, Error: "biz1"}},
		"unavailable": {web: serve(t, status(503)), want: Record{Result: Unavailable, Status: 503}},
		"failure":     {web: serve(t, status(500)), want: Record{Result: Other, Status: 500, Error: "500"}},
		"a redirect is not followed": {
			web:  serve(t, http.RedirectHandler("/elsewhere", http.StatusFound)),
			want: Record{Result: Other, Status: 302, Error: "302"},
		},
		"not HTTP": {
			web: listen(t, say("SSH-2.0\r\n\r\n", fin)),
			want: Record{Result: Other,
				Error: `net/http: HTTP/1.x transport connection broken: malformed HTTP response "SSH-2.0"`},
		},
		"no listener": {web: closed(t), want: Record{Result: Refused, Error: errorRefused}},
		"no base":     {web: "", want: Record{Result: Refused, Error: errorNoBase}},
		"reset":       {web: listen(t, reset), want: Record{Result: Reset, Error: errorReset}},
		"reset in the answer": {
			web:  listen(t, say(half, func(c *net.TCPConn) { awaitRead(c); reset(c) })),
			want: Record{Result: Reset, Status: 200, Error: errorReset},
		},
		"closed without an answer": {
			web:  listen(t, fin),
			want: Record{Result: Reset, Error: errorCutOff},
		},
		"closed in the answer": {
			web:  listen(t, say(half, fin)),
			want: Record{Result: Reset, Status: 200, Error: errorCutOff},
		},
		"no answer": {web: listen(t, hang), want: Record{Result: Timeout}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			for _, reuse := range []bool{false, true} {
				r := newFixture(t)
				r.bases.set(Target{IP: "198.18.0.1", Base: "base-1", Host: "h", Web: c.web})
				spec := spec("s", 1000, 1, timeout(waitTimeout))
				spec.Versions, spec.Reuse = c.versions, reuse
				if c.want.Result == Timeout {
					timeout(50 * time.Millisecond)(&spec)
				}
				end := r.run(t, spec)
				want := c.want
				want.Seq, want.Endpoint, want.Base = 1, "198.18.0.1", "base-1"
				records, err := r.generator.Records("g", "s")
				check.Must(t, err)
				n := 0
				for got := range records {
					n++
					d := cmp.Diff(want, got, cmpopts.IgnoreFields(Record{}, "Due", "Sent", "Done", "Error"))
					if d != "" || !strings.Contains(got.Error, want.Error) || (got.Error == "") != (want.Result == OK) {
						t.Errorf("reuse=%v: error %q, record (-want +got):\n%s", reuse, got.Error, d)
					}
					want.Error = got.Error
					if got.Due.After(got.Sent) || got.Sent.After(got.Done) {
						t.Errorf("due %v, sent %v, done %v", got.Due, got.Sent, got.Done)
					}
				}
				if n != 1 {
					t.Errorf("%d records", n)
				}
				var lost []Record
				if want.Result != OK {
					lost = append(lost, want)
					if d := cmp.Diff(want, <-r.lost, cmpopts.IgnoreFields(Record{}, "Due", "Sent", "Done")); d != "" {
						t.Errorf("reported lost request (-want +got):\n%s", d)
					}
				}
				if d := cmp.Diff(lost, end.LostRequests,
					cmpopts.IgnoreFields(Record{}, "Due", "Sent", "Done")); d != "" {
					t.Errorf("lost (-want +got):\n%s", d)
				}
				if d := cmp.Diff(map[Result]int{want.Result: 1}, end.Results); d != "" {
					t.Errorf("results (-want +got):\n%s", d)
				}
			}
		})
	}
}

// awaitRead blocks until the peer has read all data, because a reset discards unread data.
func awaitRead(c *net.TCPConn) {
	_ = c.SetReadDeadline(time.Now().Add(20 * time.Millisecond))
	_, _ = c.Read(make([]byte, 1))
}

func TestNoBaseMatches(t *testing.T) {
	r := newFixture(t)
	r.bases.set(Target{IP: "198.18.0.1", Base: "base-1", Web: closed(t)})
	end := r.run(t, spec("s", 1, 1, toBases("old")))
	if d := cmp.Diff(map[Result]int{NoEndpoint: 1}, end.Results); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
}

// TestBasesAreUsedRoundRobin checks that requests use the matching bases in turn, including bases that are down and
// bases that were added later.
func TestBasesAreUsedRoundRobin(t *testing.T) {
	r := newFixture(t)
	web := serve(t, answer("", "biz1", "1"))
	named := func(base string) Target { return Target{IP: base, Base: base, Web: web} }
	list := []Target{named("new-1"), named("new-2"), named("news-1"), named("old-1"), named("old-2")}
	list[1].Web = closed(t)
	r.bases.set(list...)
	end := r.run(t, spec("s", 1000, 9, toBases("new", "old-2")))
	if d := cmp.Diff(map[Result]int{OK: 6, Refused: 3}, end.Results); d != "" {
		t.Errorf("results (-want +got):\n%s", d)
	}
	bases := &roundRobin{names: []string{"*"}}
	var got []string
	for i := range 6 {
		b, err := bases.next(list[:2+i/3]) // a third base from the fourth call on
		check.Must(t, err)
		got = append(got, b.Base)
	}
	if d := cmp.Diff([]string{"new-1", "new-2", "new-1", "new-1", "new-2", "news-1"}, got); d != "" {
		t.Errorf("order (-want +got):\n%s", d)
	}
}

func TestMatches(t *testing.T) {
	for _, c := range []struct {
		names []string
		base  string
		want  bool
	}{
		{nil, "base-1", true},
		{[]string{"*"}, "base-1", true},
		{[]string{"base"}, "base-12", true},
		{[]string{"base-1"}, "base-1", true},
		{[]string{"base-1"}, "base-12", false},
		{[]string{"base"}, "base-new-1", false},
		{[]string{"other", "base"}, "base-1", true},
		{[]string{"other"}, "base-1", false},
	} {
		if got := matches(c.names, c.base); got != c.want {
			t.Errorf("matches(%q, %q) = %v", c.names, c.base, got)
		}
	}
}
