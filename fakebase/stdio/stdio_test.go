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

// serveArg is the command-line argument that makes the test binary call Serve.
const serveArg = "serve-standard-streams"

func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == serveArg {
		conn, err := stdio.Standard()
		if err != nil {
			panic(err)
		}
		fmt.Fprintln(os.Stderr, "serving")
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
		fmt.Fprintln(os.Stderr, "fatal error")
		os.Exit(3)
	})
	return mux
}

func start(t *testing.T) (*stdio.Process, *bytes.Buffer) {
	t.Helper()
	cmd, stderr := exec.Command(os.Args[0], serveArg), &bytes.Buffer{}
	cmd.Stderr = stderr
	p, err := stdio.Start(cmd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := p.Close(); err != nil {
			t.Error(err)
		}
	})
	return p, stderr
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

func TestConcurrentRequests(t *testing.T) {
	p, stderr := start(t)
	large := strings.Repeat("0123456789abcdef", 1<<8)
	var wg sync.WaitGroup
	for range 1000 { // more than the stream limit of a connection
		wg.Go(func() {
			if got, err := send(t.Context(), p, "POST", "/echo", large); err != nil || got != large {
				t.Errorf("response has %d bytes, error = %v", len(got), err)
			}
		})
	}
	wg.Wait()
	if err := p.Close(); err != nil || p.Err() != nil {
		t.Errorf("Close() = %v, Err() = %v", err, p.Err())
	}
	if stderr.String() != "serving\n" {
		t.Errorf("standard error = %q, want %q", stderr, "serving\n")
	}
}

func TestProcessFailsDuringRequest(t *testing.T) {
	p, _ := start(t)
	_, err := send(t.Context(), p, "POST", "/fail", "")
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(err.Error(), "fatal error") {
		t.Errorf("error of the request = %v, want exit status 3", err)
	}
	<-p.Done()
	if p.Err() == nil || !strings.Contains(err.Error(), p.Err().Error()) {
		t.Errorf("error of the request = %v, Err() = %v", err, p.Err())
	}
	if _, err := send(t.Context(), p, "POST", "/echo", "x"); !errors.As(err, &exit) {
		t.Errorf("error of a later request = %v, want the exit error", err)
	}
}

func TestProcessFailsImmediately(t *testing.T) {
	for range 20 { // it can exit before or after the first request
		p, err := stdio.Start(exec.Command("sh", "-c", "echo startup failed >&2; exit 4"))
		if err == nil {
			_, err = send(t.Context(), p, "POST", "/echo", "x")
			if closeErr := p.Close(); closeErr != nil {
				t.Error(closeErr)
			}
		}
		var exit *stdio.ExitError
		if !errors.As(err, &exit) || exit.Stderr != "startup failed" {
			t.Errorf("error = %v, want an ExitError with the standard error", err)
		}
	}
}

func TestMissingBinary(t *testing.T) {
	if _, err := stdio.Start(exec.Command("/does/not/exist")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// serveInProcess starts a server in the test process. It returns a client, and a channel that is closed when Serve
// has returned.
func serveInProcess(ctx context.Context, t *testing.T, h http.Handler) (client *http2.ClientConn,
	served <-chan struct{}) {
	t.Helper()
	clientEnd, serverEnd := net.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		stdio.Serve(ctx, stdio.Join(serverEnd, serverEnd), h, 0)
	}()
	client, err := stdio.Dial(clientEnd)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = client.Close()
		<-done
	})
	return client, done
}

func TestServeReturnsWhenContextEnds(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	client, served := serveInProcess(ctx, t, handler())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		_, _ = send(t.Context(), client, "GET", "/wait", "") // it may fail or get an empty response
	}()
	if _, err := send(t.Context(), client, "POST", "/echo", "x"); err != nil {
		t.Fatal(err)
	}
	cancel()
	<-served
	<-ended
}

func TestServeWaitsForHandlers(t *testing.T) {
	arrived, completed := make(chan struct{}), false
	client, served := serveInProcess(t.Context(), t, http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		close(arrived)
		<-r.Context().Done()
		completed = true
	}))
	go func() { _, _ = send(t.Context(), client, "GET", "/", "") }()
	<-arrived
	_ = client.Close()
	<-served
	if !completed {
		t.Error("Serve() returned before the handler")
	}
}
