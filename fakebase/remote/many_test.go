package remote_test

import (
	"bufio"
	"context"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/remote"
	"github.com/koupleless/koupsandbox/fakebase/rpc"
)

func named(identity string) fakebase.Options {
	o := options()
	o.Identity = identity
	return o
}

// newBase makes a base in a process.
func newBase(t *testing.T, p *process, identity string) *remote.Base {
	t.Helper()
	b, err := remote.New(t.Context(), p, remote.Options{Options: named(identity)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Bases of one process are bases of their own; one that ends leaves the others alone.
func TestManyBasesInOneProcess(t *testing.T) {
	p := newProcess(t)
	one, two := newBase(t, p, "b1"), newBase(t, p, "b2")
	first, second := watch(t, one), watch(t, two)
	end := start(t, one)
	start(t, two)
	first.until(t, kind(fakebase.EventReady))
	second.until(t, kind(fakebase.EventReady))
	if _, err := one.Inject(fault.Fault{ID: "mine", Kind: fault.KindSilent}); err != nil {
		t.Fatal(err)
	}
	end()
	if n := len(two.Faults()); n != 1 || one.Status().Running || !two.Status().Running {
		t.Errorf("the other has %d faults; running: %t, %t", n, one.Status().Running, two.Status().Running)
	}
	discarded := newBase(t, p, "b3")
	if err := discarded.Discard(t.Context()); err != nil {
		t.Error(err)
	}
	var refused *rpc.Error
	if _, err := discarded.Inject(fault.Fault{Kind: fault.KindSilent}); !errors.As(err, &refused) ||
		refused.Code != http.StatusConflict {
		t.Errorf("a base that was discarded takes a fault: %v", err)
	}
}

// A base whose process is lost is made anew in another, as after a crash.
func TestRenew(t *testing.T) {
	p := newProcess(t)
	b := newBase(t, p, "b1")
	l, done := watch(t, b), make(chan error, 1)
	go func() { done <- b.Start(t.Context()) }()
	l.until(t, kind(fakebase.EventReady))
	install(t, b, "1.0")
	l.until(t, biz("1.0", fakebase.StateActivated))
	if _, err := b.Inject(fault.Fault{ID: "later", Kind: fault.KindSilent}); err != nil {
		t.Fatal(err)
	}
	if err := b.Renew(t.Context(), newProcess(t), ""); !errors.Is(err, fakebase.ErrStarted) {
		t.Errorf("one that runs was made anew: %v", err)
	}
	p.kill()
	if err := <-done; !remote.Lost(err) {
		t.Errorf("Start: %v", err)
	}
	down := l.until(t, kind(fakebase.EventDown))
	if err := b.Renew(t.Context(), newProcess(t), "198.18.0.9"); err != nil {
		t.Fatal(err)
	}
	start(t, b)
	up := l.until(t, kind(fakebase.EventUp))
	l.until(t, kind(fakebase.EventReady))
	var faults []string
	for _, f := range b.Faults() {
		faults = append(faults, f.ID)
	}
	if d := cmp.Diff([]string{"first", "later"}, faults); d != "" {
		t.Errorf("faults (-want +got):\n%s", d)
	}
	if s := b.Status(); up.Seq <= down.Seq || s.Identity != "b1" || s.IP != "198.18.0.9" || !s.Running ||
		len(s.Biz) != 0 {
		t.Errorf("event %d after %d; then %+v", up.Seq, down.Seq, s)
	}
	if _, err := b.Inject(fault.Fault{Kind: fault.KindWebRefuse}); err != nil {
		t.Error(err)
	}
}

// Requests to modules pass the connection of the process.
func TestForward(t *testing.T) {
	p := newProcess(t)
	b := newBase(t, p, "b1")
	l := watch(t, b)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = b.Start(ctx) }() // its process is killed below
	t.Cleanup(func() { cancel(); <-ended })
	l.until(t, kind(fakebase.EventReady))
	here, there := net.Pipe()
	carried := make(chan error, 1)
	go func() { carried <- b.Forward(t.Context(), there, remote.Web) }()
	request, err := http.NewRequest(http.MethodGet, "http://b1/actuator/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := request.Write(here); err != nil {
		t.Fatal(err)
	}
	answer, err := http.ReadResponse(bufio.NewReader(here), request)
	if err != nil {
		t.Fatal(err)
	}
	if answer.StatusCode != http.StatusOK || answer.Header.Get(fakebase.HostNameHeader) == "" {
		t.Errorf("answered %s with %v", answer.Status, answer.Header)
	}
	_ = answer.Body.Close()
	_ = here.Close()
	if err := <-carried; err != nil {
		t.Error(err)
	}
	p.kill()
	here, there = net.Pipe()
	go func() { carried <- b.Forward(t.Context(), there, remote.Web) }()
	if err := <-carried; err == nil {
		t.Error("something was carried to a process that has ended")
	}
	if _, err := here.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("the connection is open: %v", err)
	}
}

// Bases end when nobody says anything to their process any more, though its connection stays.
func TestPatience(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		here, there := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, here) }()
		go func() {
			_, _ = io.WriteString(here, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		}()
		began := time.Now()
		remote.Serve(context.Background(), there, "dev", slog.New(slog.DiscardHandler), 20*time.Second)
		if took := time.Since(began); took < 20*time.Second || took > 25*time.Second {
			t.Errorf("it ended after %s", took)
		}
		_ = here.Close()
	})
}
