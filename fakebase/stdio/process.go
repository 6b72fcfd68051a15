package stdio

import (
	"bytes"
	"cmp"
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
	"syscall"
	"time"

	"golang.org/x/net/http2"
)

const (
	// exitTimeout is how long a process may take to exit after its standard input was closed.
	exitTimeout = 5 * time.Second
	// tailSize is the maximum number of bytes of the standard error output that an error contains.
	tailSize = 1 << 10
)

// Dial returns an HTTP/2 client for a connection whose other side calls Serve. The client ignores the host in URLs.
// Closing the client closes conn.
func Dial(conn net.Conn) (*http2.ClientConn, error) {
	// There is only one connection, so requests wait for its stream limit.
	c, err := (&http2.Transport{StrictMaxConcurrentStreams: true}).NewClientConn(conn)
	if err != nil {
		_ = conn.Close() // it may be closed already
		return nil, fmt.Errorf("starting the HTTP/2 client: %w", err)
	}
	return c, nil
}

// Process is a child process that handles requests over its standard input and output. Its methods are safe for
// concurrent use.
type Process struct {
	cmd    *exec.Cmd
	client *http2.ClientConn
	tail   tail
	done   chan struct{}
	err    error // set before done is closed
}

// Start starts a binary that calls Serve with Standard. The standard input and output of cmd must be unset. If Stderr
// is set, it receives the standard error output. The process runs in its own process group, so Ctrl-C in a terminal
// does not stop it. The caller must call Close.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	p.tail.forward = cmd.Stderr
	cmd.Stderr = &p.tail
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.WaitDelay = exitTimeout // for child processes that have inherited the streams
	childIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("creating a pipe: %w", err)
	}
	out, childOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("creating a pipe: %w", err), childIn.Close(), in.Close())
	}
	cmd.Stdin, cmd.Stdout = childIn, childOut
	err = cmd.Start()
	_, _ = childIn.Close(), childOut.Close() // the process has copies
	conn := Join(out, in)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", cmd.Path, err), conn.Close())
	}
	go func() {
		defer close(p.done)
		p.err = p.exitError(cmd.Wait())
	}()
	p.client, err = Dial(conn)
	if err != nil {
		_ = p.Close() // the error of a process that has exited is more specific
		return nil, cmp.Or(p.Err(), err)
	}
	return p, nil
}

// RoundTrip implements http.RoundTripper. It ignores the host in the URL.
func (p *Process) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := p.client.RoundTrip(r)
	if err == nil || !p.client.State().Closed {
		return response, err
	}
	// The streams end shortly before the process exits, and its exit error is more specific.
	ctx, cancel := context.WithTimeout(r.Context(), exitTimeout)
	defer cancel()
	select {
	case <-p.done:
		return nil, fmt.Errorf("the process has exited: %w", cmp.Or(p.err, err))
	case <-ctx.Done():
		return nil, err
	}
}

// Done returns a channel that is closed when the process has exited.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns an *ExitError if the process exited with a failure. It returns nil while the process is running and
// after it has exited with status 0.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Close closes the standard input of the process and blocks until the process has exited. If the process has not
// exited after 5 s, Close kills it. Close may be called several times.
func (p *Process) Close() error {
	if p.client != nil {
		_ = p.client.Close() // the streams may have ended already
	}
	limit := time.NewTimer(exitTimeout)
	defer limit.Stop()
	select {
	case <-p.done:
		return nil
	case <-limit.C:
	}
	_ = p.cmd.Process.Kill() // it may have exited already
	<-p.done
	return fmt.Errorf("%s was killed because it did not exit within %s after its standard input was closed", p.cmd.Path,
		exitTimeout)
}

func (p *Process) exitError(err error) error {
	if err == nil {
		return nil
	}
	return &ExitError{Program: p.cmd.Path, Err: err, Stderr: p.tail.String()}
}

// ExitError is the error of a process that exited with a failure.
type ExitError struct {
	// Program is the path of the binary.
	Program string
	// Err is the exit error, for example an *exec.ExitError.
	Err error
	// Stderr is the last part of the standard error output.
	Stderr string
}

// Error returns the binary path, the exit error and the last part of the standard error output.
func (e *ExitError) Error() string {
	text := e.Program + ": " + e.Err.Error()
	if e.Stderr != "" {
		text += ": " + e.Stderr
	}
	return text
}

// Unwrap returns Err.
func (e *ExitError) Unwrap() error { return e.Err }

// tail is a writer that keeps the last bytes that were written to it.
type tail struct {
	forward io.Writer // receives all data; may be nil

	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.text = append(t.text, p...)
	t.text = bytes.Clone(t.text[max(0, len(t.text)-tailSize):])
	t.mu.Unlock()
	if t.forward == nil {
		return len(p), nil
	}
	return t.forward.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
