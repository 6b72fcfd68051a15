package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/koupleless/koupsandbox/fakebase"
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
}

// maxFault is the largest body of an injection.
const maxFault = 1 << 16

func listenControl(ctx context.Context, addr string, bases []*fakebase.Base) (*control, error) {
	ln, err := (&net.ListenConfig{}).Listen(ctx, "tcp", addr)
	if err != nil {
		return nil, fmt.Errorf("--control %s: %w", addr, err)
	}
	return &control{ln: ln, bases: bases}, nil
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
		answer(w, http.StatusOK, all)
	})
	mux.HandleFunc("GET /bases/{identity}", c.with(func(w http.ResponseWriter, _ *http.Request, b *fakebase.Base) {
		answer(w, http.StatusOK, b.Status())
	}))
	mux.HandleFunc("GET /bases/{identity}/faults", c.with(func(w http.ResponseWriter, _ *http.Request, b *fakebase.Base) {
		answer(w, http.StatusOK, b.Faults())
	}))
	mux.HandleFunc("POST /bases/{identity}/faults", c.with(inject))
	mux.HandleFunc("DELETE /bases/{identity}/faults", c.with(func(w http.ResponseWriter, _ *http.Request, b *fakebase.Base) {
		answer(w, http.StatusOK, map[string]int{"cleared": b.Clear()})
	}))
	mux.HandleFunc("DELETE /bases/{identity}/faults/{id}", c.with(func(w http.ResponseWriter, r *http.Request, b *fakebase.Base) {
		if b.Clear(r.PathValue("id")) == 0 {
			refuse(w, http.StatusNotFound, fmt.Sprintf("there is no fault %q", r.PathValue("id")))
			return
		}
		answer(w, http.StatusOK, map[string]int{"cleared": 1})
	}))
	mux.HandleFunc("POST /bases/{identity}/crash", c.with(func(w http.ResponseWriter, _ *http.Request, b *fakebase.Base) {
		b.Crash()
		answer(w, http.StatusOK, struct{}{})
	}))
	mux.HandleFunc("POST /bases/{identity}/restart", c.with(func(w http.ResponseWriter, r *http.Request, b *fakebase.Base) {
		if err := b.Restart(r.URL.Query().Get("identity")); err != nil {
			refuse(w, http.StatusBadRequest, err.Error())
			return
		}
		answer(w, http.StatusOK, struct{}{})
	}))
	mux.HandleFunc("POST /bases/{identity}/web", c.with(func(w http.ResponseWriter, r *http.Request, b *fakebase.Base) {
		addr, err := b.WebAddr(r.Context())
		if err != nil {
			refuse(w, http.StatusInternalServerError, err.Error())
			return
		}
		answer(w, http.StatusOK, map[string]string{"addr": addr})
	}))
	return mux
}

func inject(w http.ResponseWriter, r *http.Request, b *fakebase.Base) {
	d := json.NewDecoder(http.MaxBytesReader(w, r.Body, maxFault))
	d.DisallowUnknownFields()
	var f fakebase.Fault
	if err := d.Decode(&f); err != nil {
		refuse(w, http.StatusBadRequest, "the body is not a fault: "+err.Error())
		return
	}
	id, err := b.Inject(f)
	if err != nil {
		refuse(w, http.StatusBadRequest, err.Error())
		return
	}
	answer(w, http.StatusOK, map[string]string{"id": id})
}

// with finds the base of the path.
func (c *control) with(do func(http.ResponseWriter, *http.Request, *fakebase.Base)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		identity := r.PathValue("identity")
		for _, b := range c.bases {
			if b.Identity() == identity {
				do(w, r, b)
				return
			}
		}
		refuse(w, http.StatusNotFound, fmt.Sprintf("there is no base %q; GET /bases lists them", identity))
	}
}

func refuse(w http.ResponseWriter, status int, why string) {
	answer(w, status, map[string]string{"error": why})
}

func answer(w http.ResponseWriter, status int, v any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(v) // the client may be gone
}
