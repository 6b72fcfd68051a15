package stdio

import (
	"context"
	"net"
	"net/http"
	"sync"
	"time"

	"golang.org/x/net/http2"
)

// maxRequests is the maximum number of concurrent requests. Each base of a process has some that
// last as long as the base.
const maxRequests = 1 << 20

// Serve answers the requests on conn with h until the other side or ctx ends, or the other side has sent nothing for
// longer than patience; 0 = no limit. Then it closes conn, which ends the contexts of the requests, and waits for them.
func Serve(ctx context.Context, conn net.Conn, h http.Handler, patience time.Duration) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // what ends serving
	defer stop()
	var (
		busy  sync.RWMutex // held for reading by whoever answers
		ended bool
	)
	server := &http2.Server{MaxConcurrentStreams: maxRequests, ReadIdleTimeout: patience / 2, PingTimeout: patience / 2}
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
