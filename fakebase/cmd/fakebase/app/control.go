package app

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// maxFaultBytes is the maximum size in bytes of a fault in a request body.
const maxFaultBytes = 1 << 16

// control serves an HTTP API that controls the bases of this process.
//
//	GET    /bases                        return the status of all bases
//	GET    /bases/{identity}             return the status of a base
//	GET    /bases/{identity}/faults      list the faults of a base
//	POST   /bases/{identity}/faults      inject the fault in the body
//	DELETE /bases/{identity}/faults      clear all faults of a base
//	DELETE /bases/{identity}/faults/{id} clear one fault
//	POST   /bases/{identity}/crash       end the process of a base
//	POST   /bases/{identity}/restart     restart a base; ?identity= sets a new identity
//	POST   /bases/{identity}/web         open the listener for module traffic
//
// A failed request has a status of at least 400 and the body {"error": "..."}.
type control struct {
	ln    net.Listener
	bases []*fakebase.Base
}

func listenControl(ctx context.Context, addr string, bases []*fakebase.Base) (*control, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--control %s: %w", addr, err)
	}
	return &control{ln, bases}, nil
}

func (c *control) addr() string { return c.ln.Addr().String() }

func (c *control) start(ctx context.Context) error {
	srv := &http.Server{Handler: c.guard(c.routes()), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(c.ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving the control endpoint: %w", err)
	}
	return nil
}

// guard rejects requests that web pages can send: requests with an Origin header, and requests whose Host is neither
// localhost nor an IP address. The author of a web page can make a host name resolve to this machine (DNS rebinding).
func (c *control) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host := (&url.URL{Host: r.Host}).Hostname()
		if r.Header.Get("Origin") != "" || host != "localhost" && net.ParseIP(host) == nil {
			writeJSON(w, http.StatusForbidden,
				map[string]string{
					"error": "requests from web pages are rejected; use an IP address or localhost in the URL, and " +
						"no Origin header"})
			return
		}
		next.ServeHTTP(w, r)
	})
}

func (c *control) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /bases", func(w http.ResponseWriter, _ *http.Request) {
		all := make([]fakebase.Status, len(c.bases))
		for i, b := range c.bases {
			all[i] = b.Status()
		}
		writeJSON(w, http.StatusOK, all)
	})
	// handleBase registers a handler that calls do with the base in the path. do returns the response body, or an
	// error and its HTTP status.
	handleBase := func(pattern string, do func(*fakebase.Base, *http.Request) (any, int, error)) {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			out, status, err := any(nil), http.StatusNotFound, fmt.Errorf(
				"no base has the identity %q; list the bases with: GET /bases",
				r.PathValue("identity"))
			for _, b := range c.bases {
				if b.Identity() == r.PathValue("identity") {
					out, status, err = do(b, r)
					break
				}
			}
			if err != nil {
				writeJSON(w, status, map[string]string{"error": err.Error()})
				return
			}
			writeJSON(w, http.StatusOK, out)
		})
	}
	handleBase("GET /bases/{identity}",
		func(b *fakebase.Base, _ *http.Request) (any, int, error) { return b.Status(), 0, nil })
	handleBase("GET /bases/{identity}/faults",
		func(b *fakebase.Base, _ *http.Request) (any, int, error) { return b.Faults(), 0, nil })
	handleBase("POST /bases/{identity}/faults", inject)
	handleBase("DELETE /bases/{identity}/faults", func(b *fakebase.Base, _ *http.Request) (any, int, error) {
		return map[string]int{"cleared": b.Clear()}, 0, nil
	})
	handleBase("DELETE /bases/{identity}/faults/{id}", func(b *fakebase.Base, r *http.Request) (any, int, error) {
		if b.Clear(r.PathValue("id")) == 0 {
			return nil, http.StatusNotFound, fmt.Errorf("fault %q not found", r.PathValue("id"))
		}
		return map[string]int{"cleared": 1}, 0, nil
	})
	handleBase("POST /bases/{identity}/crash", func(b *fakebase.Base, _ *http.Request) (any, int, error) {
		b.Crash()
		return struct{}{}, 0, nil
	})
	handleBase("POST /bases/{identity}/restart", func(b *fakebase.Base, r *http.Request) (any, int, error) {
		err := b.Restart(r.URL.Query().Get("identity"))
		if errors.Is(err, fakebase.ErrNotRunning) {
			return nil, http.StatusConflict, err
		}
		return struct{}{}, http.StatusBadRequest, err
	})
	handleBase("POST /bases/{identity}/web", func(b *fakebase.Base, r *http.Request) (any, int, error) {
		addr, err := b.WebAddr(r.Context())
		return map[string]string{"addr": addr}, http.StatusInternalServerError, err
	})
	return mux
}

func inject(b *fakebase.Base, r *http.Request) (any, int, error) {
	d := json.NewDecoder(http.MaxBytesReader(nil, r.Body, maxFaultBytes))
	d.DisallowUnknownFields()
	var f fault.Fault
	if err := d.Decode(&f); err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("invalid fault: %w", err)
	}
	id, err := b.Inject(f)
	return map[string]string{"id": id}, http.StatusBadRequest, err
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may have disconnected
}
