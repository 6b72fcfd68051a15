package remote

import (
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"
)

// dialTime bounds the way from a process to a listener of its own.
const dialTime = 5 * time.Second

// Listener is a listener of a base.
type Listener string

// The listeners.
const (
	Web    Listener = "web"    // for module traffic
	Arklet Listener = "arklet" // for commands over HTTP
)

// Forward carries a connection to a listener of the base, over the connection of its process, until
// either side closes it. Then it closes conn. Forward returns an error if the listener cannot be reached.
func (b *Base) Forward(ctx context.Context, conn net.Conn, to Listener) error {
	defer func() { _ = conn.Close() }() // what could be sent was sent
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	l := b.now()
	r, err := http.NewRequestWithContext(ctx, http.MethodPost,
		"http://server"+l.process.Path+"/"+connect+"?to="+string(to), io.NopCloser(conn))
	if err != nil {
		return err
	}
	answer, err := l.process.Transport.RoundTrip(r)
	if err != nil {
		return err
	}
	defer func() {
		_ = conn.Close() // first: closing the answer waits for the end of the request, which reads conn
		_ = answer.Body.Close()
	}()
	if answer.StatusCode != http.StatusOK {
		return fmt.Errorf("the %s listener of the base cannot be reached: %s", to, answer.Status)
	}
	_, _ = io.Copy(conn, answer.Body) // how it ended, both sides see by themselves
	return nil
}

// connect is the other side of Forward.
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
		return // nobody is there any more
	}
	go func() { // ends with the request, whose body ends with it
		_, _ = io.Copy(conn, r.Body)
		if tcp, ok := conn.(*net.TCPConn); ok {
			_ = tcp.CloseWrite()
		}
	}()
	_, _ = io.Copy(flushing{w, out}, conn)
}

func (s *server) dial(ctx context.Context, to Listener) (net.Conn, error) {
	ctx, cancel := context.WithTimeout(ctx, dialTime)
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

// flushing flushes after each write.
type flushing struct {
	io.Writer
	out *http.ResponseController
}

func (f flushing) Write(p []byte) (int, error) {
	n, err := f.Writer.Write(p)
	if err == nil {
		err = f.out.Flush()
	}
	return n, err
}
