package httptunnel

import (
	"crypto/subtle"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/netip"
	"path"
	"slices"
	"strings"
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
	if t.opts.Token == "" {
		return mux
	}
	return t.withToken(mux)
}

// withToken lets those pass that bear the token: in a header, or, as arklet can send no header of its
// own, as the first part of the path.
func (t *Tunnel) withToken(next http.Handler) http.Handler {
	is := func(given string) bool { return subtle.ConstantTimeCompare([]byte(given), []byte(t.opts.Token)) == 1 }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); bearer && is(given) {
			next.ServeHTTP(w, r)
			return
		}
		if first, _, deeper := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); deeper && is(first) {
			http.StripPrefix("/"+first, next).ServeHTTP(w, r)
			return
		}
		kind := path.Base(r.URL.Path)
		if kind != kindHeartbeat && kind != kindQueryBaseline {
			kind = "other"
		}
		t.refuse(w, tunnel.Origin{Tunnel: tunnel.HTTP, At: time.Now()}, kind, tunnel.Unauthorized, errors.New("without the token of HTTP_TUNNEL_TOKEN"))
	})
}

func (t *Tunnel) heartbeat(w http.ResponseWriter, r *http.Request) {
	body, ok := t.read(w, r, kindHeartbeat)
	if !ok {
		return
	}
	h, err := arklet.DecodeHeartbeat(body)
	from, reason, err := t.origin(r, h.Identity, kindHeartbeat, err)
	if err == nil {
		if h.IP, err = t.opts.Networks.Check(h.IP, peer(r)); err != nil {
			reason, err = tunnel.ReasonOf(err), fmt.Errorf("heartbeat of base %q: %w", h.Identity, err)
		}
	}
	if err != nil {
		t.refuse(w, from, kindHeartbeat, reason, err)
		return
	}
	from.IP = h.IP
	t.handler.Heartbeat(from, h)
	_, _ = io.WriteString(w, "SUCCESS") // a base that is gone sends another
}

func (t *Tunnel) queryBaseline(w http.ResponseWriter, r *http.Request) {
	body, ok := t.read(w, r, kindQueryBaseline)
	if !ok {
		return
	}
	m, err := arklet.DecodeMetadata(body)
	from, reason, err := t.origin(r, m.Identity, kindQueryBaseline, err)
	if err != nil {
		t.refuse(w, from, kindQueryBaseline, reason, err)
		return
	}
	if len(t.opts.Networks) == 0 { // else it may have come through a proxy
		from.IP = peer(r).String()
	}
	select {
	case t.baselines <- struct{}{}:
		defer func() { <-t.baselines }()
	case <-r.Context().Done():
		return
	}
	answer, err := arklet.BaselineBody(t.handler.BaselineQuery(from, m))
	if err != nil {
		t.opts.Logger.Warn("could not answer a baseline query", "base", m.Identity, "err", err)
		http.Error(w, "the baseline could not be written", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) //nolint:gosec // JSON, no HTML; a base that is gone asks again
}

// origin says whom a message is from: what it says of itself, and what its certificate proves, if
// certificates are asked for. err is why it could not be read.
func (t *Tunnel) origin(r *http.Request, identity, kind string, err error) (tunnel.Origin, tunnel.Rejection, error) {
	from := tunnel.Origin{Tunnel: tunnel.HTTP, Identity: identity, At: time.Now()}
	if a := peer(r); a.IsValid() {
		from.Peer = a.String()
	}
	switch {
	case err != nil:
		return from, tunnel.ReasonOf(err), err
	case identity == "":
		// Generations A and B: over MQTT the topic says it, here nothing does.
		return from, tunnel.Malformed, fmt.Errorf("%s without an identity: over HTTP nothing else tells which base it is from", kind)
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		if !names(r.TLS.VerifiedChains[0][0], identity) {
			return from, tunnel.Unauthorized, fmt.Errorf("%s of base %q with a certificate of another name", kind, identity)
		}
		from.Certified = true
	}
	return from, "", nil
}

// names says whether a certificate is that of a base: its common name, or one of its host names and
// addresses, is the identity.
func names(c *x509.Certificate, identity string) bool {
	return c.Subject.CommonName == identity || slices.Contains(c.DNSNames, identity) ||
		slices.ContainsFunc(c.IPAddresses, func(ip net.IP) bool { return ip.String() == identity })
}

// peer is the address that a request came from.
func peer(r *http.Request) netip.Addr {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap().WithZone("")
}

// read returns the body of a request, or has answered with what is wrong with it.
func (t *Tunnel) read(w http.ResponseWriter, r *http.Request, kind string) (body []byte, ok bool) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, arklet.MaxPayload))
	if err == nil {
		// The time for reading is over, and the answer may take longer. What cannot be told so, as in
		// tests, has no such time.
		_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
		return body, true
	}
	from := tunnel.Origin{Tunnel: tunnel.HTTP, At: time.Now()}
	if _, large := errors.AsType[*http.MaxBytesError](err); large {
		t.refuse(w, from, kind, tunnel.Oversized, arklet.ErrTooLarge)
		return nil, false
	}
	t.refuse(w, from, kind, tunnel.Malformed, fmt.Errorf("reading the body: %w", err))
	return nil, false
}

func (t *Tunnel) refuse(w http.ResponseWriter, from tunnel.Origin, kind string, reason tunnel.Rejection, err error) {
	t.handler.Rejected(from, kind, reason, err)
	status := http.StatusBadRequest
	switch reason {
	case tunnel.Oversized:
		status = http.StatusRequestEntityTooLarge
	case tunnel.Unauthorized:
		status = http.StatusUnauthorized
	case tunnel.WrongAddress:
		status = http.StatusForbidden
	}
	http.Error(w, err.Error(), status)
}
