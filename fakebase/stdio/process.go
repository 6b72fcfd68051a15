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
	// endTime is how long a program may take to end when its input has ended.
	endTime = 5 * time.Second
	// tailSize is how much of what a program said last goes into an error.
	tailSize = 1 << 10
)

// Dial returns an HTTP/2 client of a connection whose other side calls Serve. The host of the URLs has no meaning.
// Closing the client closes conn.
func Dial(conn net.Conn) (*http2.ClientConn, error) {
	// There is no other connection: what is too much for one waits.
	c, err := (&http2.Transport{StrictMaxConcurrentStreams: true}).NewClientConn(conn)
	if err != nil {
		_ = conn.Close() // it may be closed
		return nil, fmt.Errorf("beginning HTTP/2: %w", err)
	}
	return c, nil
}

// Process is a program that was started, and that answers requests over its
// standard streams. Its methods may be called concurrently.
type Process struct {
	cmd    *exec.Cmd
	client *http2.ClientConn
	tail   tail
	done   chan struct{}
	err    error // read after done
}

// Start starts a program that calls Serve with Standard. The standard input and output of cmd must be unset; Stderr, if
// set, gets the standard error of the program. Ctrl-C in a terminal does not reach the program. The caller must call
// Close.
func Start(cmd *exec.Cmd) (*Process, error) {
	p := &Process{cmd: cmd, done: make(chan struct{})}
	p.tail.also = cmd.Stderr
	cmd.Stderr = &p.tail
	if cmd.SysProcAttr == nil {
		cmd.SysProcAttr = &syscall.SysProcAttr{}
	}
	cmd.SysProcAttr.Setpgid = true
	cmd.WaitDelay = endTime // of those who have inherited its streams
	theirIn, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("making a pipe: %w", err)
	}
	out, theirOut, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a pipe: %w", err), theirIn.Close(), in.Close())
	}
	cmd.Stdin, cmd.Stdout = theirIn, theirOut
	err = cmd.Start()
	_, _ = theirIn.Close(), theirOut.Close() // the program has its own
	conn := Join(out, in)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("starting %s: %w", cmd.Path, err), conn.Close())
	}
	go func() {
		defer close(p.done)
		p.err = p.why(cmd.Wait())
	}()
	p.client, err = Dial(conn)
	if err != nil {
		_ = p.Close() // the program has ended at once, which says more
		return nil, cmp.Or(p.Err(), err)
	}
	return p, nil
}

// RoundTrip sends a request, such as one to http://process/status.
func (p *Process) RoundTrip(r *http.Request) (*http.Response, error) {
	response, err := p.client.RoundTrip(r)
	if err == nil || !p.client.State().Closed {
		return response, err
	}
	// The streams end a little before the program, whose end says more.
	ctx, cancel := context.WithTimeout(r.Context(), endTime)
	defer cancel()
	select {
	case <-p.done:
		return nil, fmt.Errorf("the program has ended: %w", cmp.Or(p.err, err))
	case <-ctx.Done():
		return nil, err
	}
}

// Done is closed when the program has ended.
func (p *Process) Done() <-chan struct{} { return p.done }

// Err returns an *ExitError if the program has failed. It is nil while the program runs and after it has exited with
// status 0.
func (p *Process) Err() error {
	select {
	case <-p.done:
		return p.err
	default:
		return nil
	}
}

// Close ends the program's input and blocks until it has ended; after 5 s it
// kills it. It may be called again.
func (p *Process) Close() error {
	if p.client != nil {
		_ = p.client.Close() // the streams may have ended before
	}
	limit := time.NewTimer(endTime)
	defer limit.Stop()
	select {
	case <-p.done:
		return nil
	case <-limit.C:
	}
	_ = p.cmd.Process.Kill() // it may have ended by now
	<-p.done
	return fmt.Errorf("%s did not end within %s of its input, and was killed", p.cmd.Path, endTime)
}

func (p *Process) why(err error) error {
	if err == nil {
		return nil
	}
	return &ExitError{Program: p.cmd.Path, Err: err, Said: p.tail.String()}
}

// ExitError says how a program has ended that did not end well.
type ExitError struct {
	// Program is its path.
	Program string
	// Err is how it has ended, such as an exec.ExitError.
	Err error
	// Said is the end of what it had to say; empty = nothing.
	Said string
}

// Error is one sentence with all of it.
func (e *ExitError) Error() string {
	text := e.Program + ": " + e.Err.Error()
	if e.Said != "" {
		text += ": " + e.Said
	}
	return text
}

// Unwrap returns how it has ended.
func (e *ExitError) Unwrap() error { return e.Err }

// tail keeps the last bytes that are written to it.
type tail struct {
	also io.Writer // gets everything; nil = nobody does

	mu   sync.Mutex
	text []byte
}

func (t *tail) Write(p []byte) (int, error) {
	t.mu.Lock()
	t.text = append(t.text, p...)
	t.text = bytes.Clone(t.text[max(0, len(t.text)-tailSize):])
	t.mu.Unlock()
	if t.also == nil {
		return len(p), nil
	}
	return t.also.Write(p)
}

func (t *tail) String() string {
	t.mu.Lock()
	defer t.mu.Unlock()
	return strings.TrimSpace(string(t.text))
}
