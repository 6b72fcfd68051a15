package stdio_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"golang.org/x/net/http2"

	"github.com/koupleless/koupsandbox/fakebase/stdio"
)

// program is the argument that makes the test a program to be started.
const program = "serve-standard-streams"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == program {
		conn, err := stdio.Standard()
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, "it serves")
		stdio.Serve(context.Background(), conn, handler(), 0)
		os.Exit(0)
	}
	os.Exit(m.Run())
}

func handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("POST /echo", func(w http.ResponseWriter, r *http.Request) { _, _ = io.Copy(w, r.Body) })
	mux.HandleFunc("GET /wait", func(w http.ResponseWriter, r *http.Request) {
		_ = http.NewResponseController(w).Flush()
		<-r.Context().Done()
	})
	mux.HandleFunc("POST /fail", func(http.ResponseWriter, *http.Request) {
		fmt.Fprintln(os.Stderr, "no more of this")
		os.Exit(3)
	})
	return mux
}

func start(t *testing.T) (*stdio.Process, *bytes.Buffer) {
	t.Helper()
	cmd, said := exec.Command(os.Args[0], program), &bytes.Buffer{}
	cmd.Stderr = said
	p, err := stdio.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, said
}

func send(ctx context.Context, to http.RoundTripper, method, path, body string) (string, error) {
	r, err := http.NewRequestWithContext(ctx, method, "http://process"+path, strings.NewReader(body))
	if err != nil {
		return "", err
	}
	response, err := to.RoundTrip(r)
	if err != nil {
		return "", err
	}
	defer func() { _ = response.Body.Close() }()
	text, err := io.ReadAll(response.Body)
	return string(text), err
}

func TestManyRequestsAtATime(t *testing.T) {
	p, said := start(t)
	large := strings.Repeat("0123456789abcdef", 1<<8)
	var wg sync.WaitGroup
	for range 1000 { // more than one connection takes at a time
		wg.Go(func() {
			if got, err := send(t.Context(), p, "POST", "/echo", large); err != nil || got != large {
				t.Errorf("%d bytes came back: %v", len(got), err)
			}
		})
	}
	wg.Wait()
	if err := p.Close(); err != nil || p.Err() != nil {
		t.Errorf("closed: %v, ended: %v", err, p.Err())
	}
	if said.String() != "it serves\n" {
		t.Errorf("it said %q", said)
	}
}

func TestProgramThatFails(t *testing.T) {
	p, _ := start(t)
	_, err := send(t.Context(), p, "POST", "/fail", "")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(err.Error(), "no more of this") {
		t.Errorf("the request got: %v", err)
	}
	<-p.Done()
	if p.Err() == nil || !strings.Contains(err.Error(), p.Err().Error()) {
		t.Errorf("the request got: %v, the process: %v", err, p.Err())
	}
	if _, err := send(t.Context(), p, "POST", "/echo", "x"); !errors.As(err, &exit) {
		t.Errorf("a later request got: %v", err)
	}
}

func TestProgramThatEndsAtOnce(t *testing.T) {
	for range 20 { // before it is spoken to, or after
		p, err := stdio.Start(exec.Command("sh", "-c", "echo not today >&2; exit 4"))
		if err == nil {
			_, err = send(t.Context(), p, "POST", "/echo", "x")
			if closeErr := p.Close(); closeErr != nil {
				t.Error(closeErr)
			}
		}
		var exit *stdio.ExitError
		if !errors.As(err, &exit) || exit.Said != "not today" {
			t.Errorf("it ended with: %v", err)
		}
	}
}

func TestNoProgram(t *testing.T) {
	if _, err := stdio.Start(exec.Command("/does/not/exist")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// rig is a server and a client in this process.
func rig(ctx context.Context, t *testing.T, h http.Handler) (client *http2.ClientConn, served <-chan struct{}) {
	t.Helper()
	here, there := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		stdio.Serve(ctx, stdio.Join(there, there), h, 0)
	}()
	client, err := stdio.Dial(here)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		<-done
	})
	return client, done
}

func TestServeEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	client, served := rig(ctx, t, handler())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = send(t.Context(), client, "GET", "/wait", "") // it may be told of the end in either way
	}()
	if _, err := send(t.Context(), client, "POST", "/echo", "x"); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-served
	<-ended
}

func TestServeWaitsForAnswers(t *testing.T) {
	arrived, answered := make(chan struct{}), false
	client, served := rig(t.Context(), t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		answered = true
	}))
	go func() { _, _ = send(t.Context(), client, "GET", "/", "") }()
	<-arrived
	_ = client.Close()
	<-served
	if !answered {
		t.Error("Serve returned before an answer was done")
	}
}
