package httptunnel

import (
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// The paths that bases post to (protocol 4.1), which are also the kinds of rejected messages.
const (
	kindHeartbeat     = "heartbeat"
	kindQueryBaseline = "queryBaseline"
)

func (t *Tunnel) routes() http.Handler {
	mux := http.NewServeMux() // answers other methods with 405
	mux.HandleFunc("POST /"+kindHeartbeat, t.heartbeat)
	mux.HandleFunc("POST /"+kindQueryBaseline, t.queryBaseline)
	return mux
}

func (t *Tunnel) heartbeat(w http.ResponseWriter, r *http.Request) {
	body, ok := t.read(w, r, kindHeartbeat)
	if !ok {
		return
	}
	h, err := arklet.DecodeHeartbeat(body)
	from := tunnel.Origin{Tunnel: tunnel.HTTP, Identity: h.Identity, At: time.Now()}
	switch {
	case err != nil:
	case h.Identity == "":
		// Generations A and B: over MQTT the topic says it, here nothing does.
		err = errors.New("heartbeat without baseMetadata.identity: over HTTP nothing else tells which base it is from")
	case net.ParseIP(h.IP) == nil:
		err = fmt.Errorf("heartbeat of base %q with localIP %q, which is no IP address: no command could reach the base", h.Identity, h.IP)
	}
	if err != nil {
		t.refuse(w, from, kindHeartbeat, err)
		return
	}
	t.handler.Heartbeat(from, h)
	_, _ = io.WriteString(w, "SUCCESS") // a base that is gone sends another
}

func (t *Tunnel) queryBaseline(w http.ResponseWriter, r *http.Request) {
	body, ok := t.read(w, r, kindQueryBaseline)
	if !ok {
		return
	}
	m, err := arklet.DecodeMetadata(body)
	from := tunnel.Origin{Tunnel: tunnel.HTTP, Identity: m.Identity, At: time.Now()}
	if err == nil && m.Identity == "" {
		err = errors.New("baseline query without an identity: over HTTP nothing else tells which base it is from")
	}
	if err != nil {
		t.refuse(w, from, kindQueryBaseline, err)
		return
	}
	answer, err := arklet.BaselineBody(t.handler.BaselineQuery(from, m))
	if err != nil {
		t.opts.Logger.Warn("could not answer a baseline query", "base", m.Identity, "err", err)
		http.Error(w, "the baseline could not be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) // a base that is gone asks again
}

// read returns the body of a request, or has answered with what is wrong with it.
func (t *Tunnel) read(w http.ResponseWriter, r *http.Request, kind string) (body []byte, ok bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, arklet.MaxPayload))
	if err == nil {
		return body, true
	}
	from := tunnel.Origin{Tunnel: tunnel.HTTP, At: time.Now()}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		t.handler.Rejected(from, kind, tunnel.Oversized, arklet.ErrTooLarge)
		http.Error(w, arklet.ErrTooLarge.Error(), http.StatusRequestEntityTooLarge)
		return nil, false
	}
	t.refuse(w, from, kind, fmt.Errorf("reading the body: %w", err))
	return nil, false
}

func (t *Tunnel) refuse(w http.ResponseWriter, from tunnel.Origin, kind string, err error) {
	t.handler.Rejected(from, kind, tunnel.Malformed, err)
	http.Error(w, err.Error(), http.StatusBadRequest)
}
