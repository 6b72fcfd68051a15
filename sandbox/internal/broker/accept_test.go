package broker

import (
	"bytes"
	"log/slog"
	"net"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

// scarce is a listener at whose process runs out of files for a while.
type scarce struct {
	net.Listener
	failures int
	mu       sync.Mutex
	closed   chan struct{}
	conns    chan net.Conn
}

func (l *scarce) Accept() (net.Conn, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.failures > 0 {
		l.failures--
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: syscall.EMFILE}
	}
	select {
	case conn := <-l.conns:
		return conn, nil
	case <-l.closed:
		return nil, &net.OpError{Op: "accept", Net: "tcp", Err: net.ErrClosed}
	}
}

func (l *scarce) Addr() net.Addr { return pipeAddr("scarce") }

// Too many open files end no port: it takes connections again as soon as it can, and ends when it
// is closed.
func TestAcceptOutlivesFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &scarce{failures: 20, closed: make(chan struct{}), conns: make(chan net.Conn, 1)}
		var log bytes.Buffer
		taken, ended := make(chan net.Conn, 1), make(chan struct{})
		began := time.Now()
		go func() {
			defer close(ended)
			accept(l, slog.New(slog.NewTextHandler(&log, nil)), func(c net.Conn) { taken <- c })
		}()
		here, there := net.Pipe()
		defer func() { _ = here.Close(); _ = there.Close() }()
		l.conns <- there
		if conn := <-taken; conn != there {
			t.Error("another connection was taken")
		}
		if took := time.Since(began); took > 20*lastAcceptPause || took < lastAcceptPause {
			t.Errorf("20 failures took %s", took)
		}
		close(l.closed)
		<-ended
		if text := log.String(); strings.Count(text, "cannot be accepted") != 1 || strings.Count(text, "accepted again") != 1 {
			t.Errorf("logged:\n%s", text)
		}
	})
}
