package stdio

import (
	"context"
	"net"
	"net/http"
	"sync"

	"golang.org/x/net/http2"
)

// Serve answers the requests that come over conn, each with h, until the other
// side or ctx ends. Then it closes conn, which ends the contexts of requests that
// are being answered, and waits for them.
func Serve(ctx context.Context, conn net.Conn, h http.Handler) {
	stop := context.AfterFunc(ctx, func() { _ = conn.Close() }) // what ends serving
	defer stop()
	var (
		busy  sync.RWMutex // held for reading by whoever answers
		ended bool
	)
	new(http2.Server).ServeConn(conn, &http2.ServeConnOpts{
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
