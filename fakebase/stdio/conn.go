package stdio

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// Join returns a connection that reads from one stream and writes to another. Close closes both streams. Deadlines
// are not supported.
func Join(r io.ReadCloser, w io.WriteCloser) net.Conn { return &conn{r, w} }

// Standard returns a connection over the standard input and the standard output of this process. No other code may
// use these streams afterwards.
func Standard() (net.Conn, error) {
	signal.Ignore(syscall.SIGPIPE) // a failed write returns an error instead of ending the process
	const stdin = 0
	// Closing a blocking stream does not end a pending read.
	if err := syscall.SetNonblock(stdin, true); err != nil {
		return nil, fmt.Errorf("setting the standard input to non-blocking mode: %w", err)
	}
	return Join(os.NewFile(stdin, os.Stdin.Name()), os.Stdout), nil
}

type conn struct {
	io.ReadCloser
	w io.WriteCloser
}

func (c *conn) Write(p []byte) (int, error) { return c.w.Write(p) }

func (c *conn) Close() error { return errors.Join(c.w.Close(), c.ReadCloser.Close()) }

func (c *conn) LocalAddr() net.Addr  { return addr{} }
func (c *conn) RemoteAddr() net.Addr { return addr{} }

func (c *conn) SetDeadline(time.Time) error      { return os.ErrNoDeadline }
func (c *conn) SetReadDeadline(time.Time) error  { return os.ErrNoDeadline }
func (c *conn) SetWriteDeadline(time.Time) error { return os.ErrNoDeadline }

type addr struct{}

func (addr) Network() string { return "stdio" }
func (addr) String() string  { return "stdio" }
