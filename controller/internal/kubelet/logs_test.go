package kubelet

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/virtual-kubelet/virtual-kubelet/node/api"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	controllerapi "github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

func TestLogs(t *testing.T) {
	w := newFixture(t, nil)
	client := w.authority.client("kube-apiserver")
	now := time.Now().UTC().Truncate(time.Second)
	var lines, stamped []string
	for i, age := range []time.Duration{2 * time.Hour, time.Hour, 10 * time.Minute} {
		at := now.Add(-age)
		w.opts.EventLog.Add("a", "biz1", LogEntry{At: at, Version: fmt.Sprint(i), Event: "happened"})
		lines = append(lines, fmt.Sprintf("%s biz1:%d happened\n", at.Format(controllerapi.LogTime), i))
		stamped = append(stamped, at.Format(time.RFC3339Nano)+" "+lines[i])
	}
	w.opts.EventLog.Add("a", "biz2", LogEntry{At: now, Event: "another module"})
	w.opts.EventLog.Add("b", "biz1", LogEntry{At: now, Event: "another base"})
	for query, want := range map[string][]string{
		"":                              lines,
		"tailLines=2":                   lines[1:],
		"tailLines=1":                   lines[2:],
		"tailLines=9":                   lines,
		"tailLines=0":                   nil,
		"sinceSeconds=5400":             lines[1:],
		"sinceSeconds=60":               nil,
		"sinceSeconds=5400&tailLines=1": lines[2:],
		"sinceTime=" + url.QueryEscape(now.Add(-time.Hour).Format(time.RFC3339)): lines[1:],
		"timestamps=true":               stamped,
		"timestamps=true&tailLines=1":   stamped[2:],
		"limitBytes=30":                 {lines[0][:30]},
		"tailLines=1&limitBytes=100000": lines[2:],
	} {
		t.Run(query, func(t *testing.T) {
			status, text, err := w.get(t, client, "GET", logsPath+"?"+query)
			if err != nil || status != 200 {
				t.Fatalf("status %d, body %q, error %v", status, text, err)
			}
			if diff := cmp.Diff(strings.Join(want, ""), text); diff != "" {
				t.Errorf("logs (-want +got):\n%s", diff)
			}
		})
	}
	if status, text, err := w.get(t, client, "GET", logsPath+"?tailLines=many"); err != nil || status != 400 {
		t.Errorf("status %d, body %q, error %v", status, text, err)
	}
}

// follow requests the logs of biz1 in the same way as the API server. next reads a line, and fails the test if the
// line differs from the expected one.
func (w *fixture) follow(t *testing.T, query string) (lines *bufio.Reader, next func(want string)) {
	t.Helper()
	transport := &http.Transport{TLSClientConfig: tlsConfig(t, w.authority.client("kube-apiserver")),
		DisableKeepAlives: true}
	req, err := http.NewRequestWithContext(t.Context(), "GET", w.url+logsPath+"?"+query, nil)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := transport.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = resp.Body.Close() })
	lines = bufio.NewReader(resp.Body)
	return lines, func(want string) {
		t.Helper()
		line, err := lines.ReadString('\n')
		if err != nil || !strings.HasSuffix(line, " biz1: "+want+"\n") {
			t.Fatalf("read %q, error %v, want %q", line, err, want)
		}
	}
}

// TestFollow follows the logs of a module over TLS. The client must receive new entries until the server stops.
func TestFollow(t *testing.T) {
	w := newFixture(t, nil)
	for _, c := range []struct{ query, first string }{{"follow=true&tailLines=1", "before"},
		{"follow=true&tailLines=0", ""}} {
		t.Run(c.query, func(t *testing.T) {
			w.opts.EventLog.Add("a", "biz1", LogEntry{At: noon, Event: "before"})
			lines, next := w.follow(t, c.query)
			if c.first != "" {
				next(c.first)
			}
			w.opts.EventLog.Add("a", "biz1", LogEntry{At: noon, Event: "one"})
			next("one")
			w.opts.EventLog.Add("a", "biz2", LogEntry{At: noon, Event: "another module"})
			w.opts.EventLog.Add("a", "biz1", LogEntry{At: noon, Event: "two"})
			next("two")
			if c.first == "" {
				w.stop()
				if rest, err := io.ReadAll(lines); err == nil && len(rest) > 0 {
					t.Errorf("read %q after the end", rest)
				}
			}
		})
	}
}

func TestFollowEndsWithPod(t *testing.T) {
	for name, change := range map[string]func(*fakePods){
		"the Pod goes":           func(p *fakePods) { p.remove("pod-0") },
		"another takes its name": func(p *fakePods) { p.set("pod-0", types.UID("2"), "biz1") },
		"the reader closes":      nil,
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				p := &fakePods{pods: map[string]*corev1.Pod{}}
				p.set("pod-0", "1", "biz1")
				l := NewEventLog()
				l.Add("a", "biz1", LogEntry{At: noon, Event: "before"})
				s := &Server{opts: Options{Pods: p, EventLog: l}}
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				r, err := s.logs(ctx, "default", "pod-0", "biz1", api.ContainerLogOpts{Follow: true})
				if err != nil {
					t.Fatal(err)
				}
				if change == nil {
					if err := r.Close(); err != nil {
						t.Error(err)
					}
					cancel()
				} else {
					time.AfterFunc(time.Minute, func() { change(p) })
					text, err := io.ReadAll(r)
					if err != nil || string(text) != noon.Format(controllerapi.LogTime)+" biz1: before\n" {
						t.Errorf("read %q, error %v", text, err)
					}
				}
			})
		})
	}
}

// TestLogsOfOnePod checks that the log of a Pod contains the history of its own modules since the Pod was assigned to
// the base, but no entries of earlier Pods.
func TestLogsOfOnePod(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		p, l := &fakePods{pods: map[string]*corev1.Pod{}}, NewEventLog()
		p.set("pod-0", "1", "biz1")
		s := &Server{opts: Options{Pods: p, EventLog: l}}
		read := func() (events []string) {
			t.Helper()
			r, err := s.logs(t.Context(), "default", "pod-0", "biz1", api.ContainerLogOpts{})
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(r)
			if err != nil {
				t.Fatal(err)
			}
			for line := range strings.Lines(string(text)) {
				_, event, _ := strings.Cut(strings.TrimSpace(line), "biz1:")
				events = append(events, event)
			}
			return events
		}
		expect := func(when string, want ...string) {
			t.Helper()
			if diff := cmp.Diff(want, read()); diff != "" {
				t.Errorf("%s (-want +got):\n%s", when, diff)
			}
		}
		earlier := arklet.Module{Name: "biz1", Version: "1", URL: "https://u:secret@h/biz1.jar?Signature=secret"}
		l.Add("a", "biz1", CommandSent(time.Now(), arklet.Request{Command: arklet.CommandInstallBiz, Module: earlier}))
		l.AddModuleStates("a", []string{"biz1"},
			[]arklet.Biz{{Name: "biz1", Version: "1", State: arklet.StateActivated,
				Latest: arklet.Record{At: noon, State: arklet.StateActivated, Reason: "STARTED"}}}, time.Now())
		expect("of every Pod", "1 installBiz sent: https://***@h/biz1.jar?Signature=***", "1 is activated: STARTED")
		time.Sleep(time.Second) // synctest clock
		p.from, p.versions = time.Now(), []string{"1", "2"}
		expect("of a Pod whose module was there", "1 is activated: STARTED (before this Pod)")
		p.versions = []string{"2"}
		expect("of a Pod to whose module nothing has happened")
		later := arklet.Request{Command: arklet.CommandInstallBiz,
			Module: arklet.Module{Name: "biz1", Version: "2", URL: "file:///m/biz1.jar"}}
		l.Add("a", "biz1", CommandSent(time.Now(), later))
		l.Add("a", "biz1", CommandAnswered(time.Now(), later,
			arklet.Answer{Code: "FAILED", Message: "no https://u:secret@h/x"}))
		later.Module.Version = "3"
		l.Add("a", "biz1", CommandSent(time.Now(), later)) // for another Pod
		expect("of a Pod of which one version was installed", "2 installBiz sent: file:///m/biz1.jar",
			"2 installBiz answered: FAILED no https://***@h/x")
	})
}

// TestStatesFollowCommands checks that the log does not show a state before the command that caused the state,
// although bases report times only in milliseconds.
func TestStatesFollowCommands(t *testing.T) {
	m := arklet.Module{Name: "biz1", Version: "1", URL: "file:///m/biz1.jar"}
	sent := noon.Add(225 * time.Millisecond).Add(900 * time.Microsecond)
	for name, tt := range map[string]struct {
		at   time.Time
		want []string
	}{
		"in the same millisecond": {sent.Truncate(time.Millisecond), []string{"installBiz sent", "is activated"}},
		"by a clock that is behind": {sent.Add(-999 * time.Millisecond),
			[]string{"installBiz sent", "is activated"}},
		"long before it":                {sent.Add(-time.Second), []string{"is activated", "installBiz sent"}},
		"after it, by the base's clock": {sent.Add(time.Millisecond), []string{"installBiz sent", "is activated"}},
	} {
		l := NewEventLog()
		l.Add("a", "biz1", CommandSent(sent, arklet.Request{Command: arklet.CommandInstallBiz, Module: m}))
		l.AddModuleStates("a", []string{"biz1"},
			[]arklet.Biz{{Name: "biz1", Version: "1", State: arklet.StateActivated,
				Latest: arklet.Record{At: tt.at, State: arklet.StateActivated}}}, sent)
		entries, _ := l.entriesAfter(moduleKey{"a", "biz1"}, 0, podEntries{})
		sortByTime(entries)
		var got []string
		for _, e := range entries {
			got = append(got, e.Event)
		}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
