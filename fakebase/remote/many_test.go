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

func optionsOf(identity string) fakebase.Options {
	o := options()
	o.Identity = identity
	return o
}

// newBase creates a base in a process.
func newBase(t *testing.T, p *process, identity string) *remote.Base {
	t.Helper()
	b, err := remote.New(t.Context(), p, remote.Options{Options: optionsOf(identity)})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestBasesOfOneProcessAreIndependent checks that neither a fault of one base nor its end affects other bases in the
// same process.
func TestBasesOfOneProcessAreIndependent(t *testing.T) {
	p := newProcess(t)
	one, two := newBase(t, p, "b1"), newBase(t, p, "b2")
	first, second := watch(t, one), watch(t, two)
	end := start(t, one)
	start(t, two)
	first.waitFor(t, ofKind(fakebase.EventReady))
	second.waitFor(t, ofKind(fakebase.EventReady))
	if _, err := one.Inject(fault.Fault{ID: "f1", Kind: fault.KindSilent}); err != nil {
		t.Fatal(err)
	}
	end()
	if n := len(two.Faults()); n != 1 || one.Status().Running || !two.Status().Running {
		t.Errorf("faults of the other base = %d, running = %t, %t; want 1, false, true", n, one.Status().Running,
			two.Status().Running)
	}
	discarded := newBase(t, p, "b3")
	if err := discarded.Discard(t.Context()); err != nil {
		t.Error(err)
	}
	var serverError *rpc.Error
	if _, err := discarded.Inject(fault.Fault{Kind: fault.KindSilent}); !errors.As(err, &serverError) ||
		serverError.Code != http.StatusConflict {
		t.Errorf("Inject() on a discarded base = %v, want Conflict", err)
	}
}

func TestRecreate(t *testing.T) {
	p := newProcess(t)
	b := newBase(t, p, "b1")
	l, done := watch(t, b), make(chan error, 1)
	go func() { done <- b.Start(t.Context()) }()
	l.waitFor(t, ofKind(fakebase.EventReady))
	install(t, b, "1.0")
	l.waitFor(t, biz("1.0", fakebase.StateActivated))
	if _, err := b.Inject(fault.Fault{ID: "later", Kind: fault.KindSilent}); err != nil {
		t.Fatal(err)
	}
	if err := b.Recreate(t.Context(), newProcess(t), ""); !errors.Is(err, fakebase.ErrStarted) {
		t.Errorf("Recreate() of a running base = %v, want ErrStarted", err)
	}
	p.kill()
	if err := <-done; !remote.IsProcessLost(err) {
		t.Errorf("Start() = %v, want a lost process", err)
	}
	down := l.waitFor(t, ofKind(fakebase.EventDown))
	if err := b.Recreate(t.Context(), newProcess(t), "198.18.0.9"); err != nil {
		t.Fatal(err)
	}
	start(t, b)
	up := l.waitFor(t, ofKind(fakebase.EventUp))
	l.waitFor(t, ofKind(fakebase.EventReady))
	var faults []string
	for _, f := range b.Faults() {
		faults = append(faults, f.ID)
	}
	if d := cmp.Diff([]string{"first", "later"}, faults); d != "" {
		t.Errorf("faults (-want +got):\n%s", d)
	}
	if s := b.Status(); up.Seq <= down.Seq || s.Identity != "b1" || s.IP != "198.18.0.9" || !s.Running ||
		len(s.Biz) != 0 {
		t.Errorf("event %d after %d; status = %+v", up.Seq, down.Seq, s)
	}
	if _, err := b.Inject(fault.Fault{Kind: fault.KindWebRefuse}); err != nil {
		t.Error(err)
	}
}

// TestForward checks that Forward reaches the listeners of a base over the connection to the process.
func TestForward(t *testing.T) {
	p := newProcess(t)
	b := newBase(t, p, "b1")
	l := watch(t, b)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = b.Start(ctx) }() // the process is killed below
	t.Cleanup(func() { cancel(); <-ended })
	l.waitFor(t, ofKind(fakebase.EventReady))
	local, remoteEnd := net.Pipe()
	forwarded := make(chan error, 1)
	go func() { forwarded <- b.Forward(t.Context(), remoteEnd, remote.Web) }()
	request, err := http.NewRequest(http.MethodGet, "http://b1/actuator/health", nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := request.Write(local); err != nil {
		t.Fatal(err)
	}
	response, err := http.ReadResponse(bufio.NewReader(local), request)
	if err != nil {
		t.Fatal(err)
	}
	if response.StatusCode != http.StatusOK || response.Header.Get(fakebase.HostNameHeader) == "" {
		t.Errorf("response = %s with the headers %v", response.Status, response.Header)
	}
	_ = response.Body.Close()
	_ = local.Close()
	if err := <-forwarded; err != nil {
		t.Error(err)
	}
	p.kill()
	local, remoteEnd = net.Pipe()
	go func() { forwarded <- b.Forward(t.Context(), remoteEnd, remote.Web) }()
	if err := <-forwarded; err == nil {
		t.Error("Forward() to a process that has ended succeeded, want an error")
	}
	if _, err := local.Read(make([]byte, 1)); !errors.Is(err, io.EOF) {
		t.Errorf("reading from the connection: error = %v, want EOF", err)
	}
}

// TestIdleTimeout checks that Serve returns if no data arrives within the idle timeout, even if the connection stays
// open.
func TestIdleTimeout(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		local, remoteEnd := net.Pipe()
		go func() { _, _ = io.Copy(io.Discard, local) }()
		go func() {
			_, _ = io.WriteString(local, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\x00\x00\x00\x04\x00\x00\x00\x00\x00")
		}()
		began := time.Now()
		remote.Serve(context.Background(), remoteEnd, "dev", slog.New(slog.DiscardHandler), 20*time.Second)
		if took := time.Since(began); took < 20*time.Second || took > 25*time.Second {
			t.Errorf("Serve() returned after %s, want 20s to 25s", took)
		}
		_ = local.Close()
	})
}
