package stdio

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// maxRequests is the maximum number of concurrent requests. Each base in a process uses several long-running
// requests.
const maxRequests = 1 << 20

// Serve handles the requests on conn with h. It blocks until conn is closed, ctx is done, or no data has arrived for
// idleTimeout (0 means no limit). Then it closes conn, which cancels the contexts of the requests, and waits for the
// handlers to return.
func Serve(ctx context.Context, conn net.Conn, h http.Handler, idleTimeout time.Duration) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // ends ServeConn
	defer stop()
	var (
		busy  sync.RWMutex // held for reading by handlers
		ended bool
	)
	server := &http2.Server{MaxConcurrentStreams: maxRequests, ReadIdleTimeout: idleTimeout / 2,
		PingTimeout: idleTimeout / 2}
	server.ServeConn(conn, &http2.ServeConnOpts{
		Context: ctx,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			busy.RLock()
			defer busy.RUnlock()
			if !ended {
				h.ServeHTTP(w, r)
			}
		}),
	})
	busy.Lock()
	defer busy.Unlock()
	ended = true
}
