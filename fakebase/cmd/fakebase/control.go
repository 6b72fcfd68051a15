package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/remote"
)

// control is a small HTTP interface to the bases of this process.
//
//	GET    /bases                       the status of all bases
//	GET    /bases/{identity}            that of one
//	GET    /bases/{identity}/faults     its faults
//	POST   /bases/{identity}/faults     injects the fault in the body
//	DELETE /bases/{identity}/faults     clears all its faults
//	DELETE /bases/{identity}/faults/{id} clears one
//	POST   /bases/{identity}/crash      ends its process
//	POST   /bases/{identity}/restart    starts it again, as ?identity= if given
//	POST   /bases/{identity}/web        opens its listener for module traffic
type control struct {
	ln    net.Listener
	bases []*fakebase.Base
	each  []http.Handler // of each of them
}

func listenControl(ctx context.Context, addr string, bases []*fakebase.Base) (*control, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--control %s: %w", addr, err)
	}
	c := &control{ln: ln, bases: bases}
	for _, b := range bases {
		c.each = append(c.each, remote.Control(b))
	}
	return c, nil
}

func (c *control) addr() string { return c.ln.Addr().String() }

// start serves until ctx ends.
func (c *control) start(ctx context.Context) error {
	srv := &http.Server{Handler: c.routes(), ReadHeaderTimeout: 10 * time.Second}
	stop := context.AfterFunc(ctx, func() { _ = srv.Close() })
	defer stop()
	if err := srv.Serve(c.ln); err != nil && !errors.Is(err, http.ErrServerClosed) {
		return fmt.Errorf("serving control endpoint: %w", err)
	}
	return nil
}

func (c *control) routes() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /bases", func(w http.ResponseWriter, _ *http.Request) {
		all := make([]fakebase.Status, len(c.bases))
		for i, b := range c.bases {
			all[i] = b.Status()
		}
		remote.Answer(w, http.StatusOK, all)
	})
	mux.HandleFunc("/bases/{identity}", c.serveOne)
	mux.HandleFunc("/bases/{identity}/{rest...}", c.serveOne)
	return mux
}

// serveOne finds the base of the path, and leaves the rest of it to that.
func (c *control) serveOne(w http.ResponseWriter, r *http.Request) {
	identity := r.PathValue("identity")
	for i, b := range c.bases {
		if b.Identity() == identity {
			one := r.Clone(r.Context())
			one.URL.Path, one.URL.RawPath = "/"+r.PathValue("rest"), ""
			c.each[i].ServeHTTP(w, one)
			return
		}
	}
	remote.Refuse(w, http.StatusNotFound, fmt.Sprintf("there is no base %q; GET /bases lists them", identity))
}
