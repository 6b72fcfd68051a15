package remote

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// dialTimeout is the timeout of a connection from a process to one of its own listeners.
const dialTimeout = 5 * time.Second

// Listener identifies a listener of a base.
type Listener string

// The listeners of a base.
const (
	Web    Listener = "web"    // for module traffic
	Arklet Listener = "arklet" // for commands over HTTP
)

// Forward forwards conn to a listener of the base, over the connection to the base process. It blocks until either
// side closes the connection, and then closes conn. It returns an error if the listener is unreachable.
func (b *Base) Forward(ctx context.Context, conn net.Conn, to Listener) error {
	defer func() { _ = conn.Close() }() // all data has been sent
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := b.currentIncarnation()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://server"+l.process.Path+"/"+connect+"?to="+string(to), io.NopCloser(conn))
	if err != nil {
		return err
	}
	response, err := l.process.Transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() {
		_ = conn.Close() // first, because closing the response waits for the end of the request, which reads conn
		_ = response.Body.Close()
	}()
	if response.StatusCode != http.StatusOK {
		return fmt.Errorf("connecting to the %s listener of the base: %s", to, response.Status)
	}
	_, _ = io.Copy(conn, response.Body) // both sides detect errors themselves
	return nil
}

// connect handles a request that Forward has sent.
func (s *server) connect(w http.ResponseWriter, r *http.Request) {
	conn, err := s.dial(r.Context(), Listener(r.URL.Query().Get("to")))
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = conn.Close() }() // as in Forward
	defer context.AfterFunc(r.Context(), func() { _ = conn.Close() })()
	out := http.NewResponseController(w)
	w.WriteHeader(http.StatusOK)
	if out.Flush() != nil {
		return // the client has disconnected
	}
	go func() { // ends with the body of the request
		_, _ = io.Copy(conn, r.Body)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}()
	_, _ = io.Copy(flushWriter{w, out}, conn)
}

func (s *server) dial(ctx context.Context, to Listener) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTimeout)
	defer cancel()
	addr := s.base.HTTPAddr()
	if to == Web {
		var err error
		addr, err = s.base.WebAddr(ctx)
		if err != nil {
			return nil, err
		}
	}
	return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
}

// flushWriter is a writer that flushes the response after each write.
type flushWriter struct {
	io.Writer
	out *http.ResponseController
}

func (f flushWriter) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.out.Flush()
	}
	return n, err
}
