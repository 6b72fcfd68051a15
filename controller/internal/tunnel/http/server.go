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
	"github.com/koupleless/koupsandbox/controller/internal/connlimit"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// kindHeartbeat and kindQueryBaseline are the paths of requests (protocol 4.1), and also the kinds of rejected
// messages. kindConnection is the kind that is reported for a connection that is closed because a limit is exceeded.
const (
	kindHeartbeat     = "heartbeat"
	kindQueryBaseline = "queryBaseline"
	kindConnection    = "connection"
)

func (t *Tunnel) routes() http.Handler {
	mux := http.NewServeMux() // responds to other methods with status 405
	mux.HandleFunc("POST /"+kindHeartbeat, t.heartbeat)
	mux.HandleFunc("POST /"+kindQueryBaseline, t.queryBaseline)
	if t.opts.Token == "" {
		return mux
	}
	return t.withToken(mux)
}

// withToken returns a handler that requires the token. Clients send the token in a header, or as the first segment of
// the path, because arklet cannot send a header.
func (t *Tunnel) withToken(next http.Handler) http.Handler {
	isToken := func(token string) bool { return subtle.ConstantTimeCompare([]byte(token), []byte(t.opts.Token)) == 1 }
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); bearer && isToken(given) {
			next.ServeHTTP(w, r)
			return
		}
		if first, _, deeper := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); deeper && isToken(first) {
			http.StripPrefix("/"+first, next).ServeHTTP(w, r)
			return
		}
		kind := path.Base(r.URL.Path)
		if kind != kindHeartbeat && kind != kindQueryBaseline {
			kind = "other"
		}
		t.refuse(w, tunnel.Origin{Tunnel: tunnel.HTTP, At: time.Now()}, kind, tunnel.Unauthorized,
			errors.New("the request does not contain the expected token; "+
				"set HTTP_TUNNEL_TOKEN to the token of the bases"))
	})
}

func (t *Tunnel) heartbeat(w http.ResponseWriter, r *http.Request) {
	h, ok, err := receive(t, w, r, kindHeartbeat, arklet.DecodeHeartbeat)
	if !ok {
		return
	}
	from, reason, err := t.origin(r, h.Identity, kindHeartbeat, err)
	if err == nil {
		h.IP, err = t.opts.Networks.Check(h.IP, peer(r))
		if err != nil {
			reason, err = tunnel.ReasonOf(err), fmt.Errorf("heartbeat of base %q: %w", h.Identity, err)
		}
	}
	if err != nil {
		t.refuse(w, from, kindHeartbeat, reason, err)
		return
	}
	from.IP = h.IP
	t.handler.Heartbeat(from, h)
	_, _ = io.WriteString(w, "SUCCESS") // if the write fails, the base sends another heartbeat
}

func (t *Tunnel) queryBaseline(w http.ResponseWriter, r *http.Request) {
	m, ok, err := receive(t, w, r, kindQueryBaseline, arklet.DecodeMetadata)
	if !ok {
		return
	}
	from, reason, err := t.origin(r, m.Identity, kindQueryBaseline, err)
	if err != nil {
		t.refuse(w, from, kindQueryBaseline, reason, err)
		return
	}
	if len(t.opts.Networks) == 0 { // with networks, the peer can be a proxy
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
		http.Error(w, "could not encode the baseline", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "application/json")
	_, _ = w.Write(answer) //nolint:gosec // JSON, not HTML. If the write fails, the base sends the query again
}

// origin determines the origin of a message from the identity and the certificate of the sender. err is the error
// from decoding the message. If the message must be rejected, origin returns the reason and an error.
func (t *Tunnel) origin(r *http.Request, identity, kind string, err error) (tunnel.Origin, tunnel.Rejection, error) {
	from := tunnel.Origin{Tunnel: tunnel.HTTP, Identity: identity, At: time.Now()}
	if a := peer(r); a.IsValid() {
		from.Peer = a.String()
	}
	switch {
	case err != nil:
		return from, tunnel.ReasonOf(err), err
	case identity == "":
		// In generations A and B, only the MQTT topic has the identity.
		return from, tunnel.Malformed, fmt.Errorf("%s %w", kind, errNoIdentity)
	}
	if r.TLS != nil && len(r.TLS.VerifiedChains) > 0 {
		if !isCertificateOf(r.TLS.VerifiedChains[0][0], identity) {
			return from, tunnel.Unauthorized,
				fmt.Errorf("%s from base %q: the client certificate is not valid for this base", kind, identity)
		}
		from.Certified = true
	}
	return from, "", nil
}

// isCertificateOf reports whether a certificate is valid for an identity: its common name, a DNS name or an IP
// address must be the identity.
func isCertificateOf(c *x509.Certificate, identity string) bool {
	return c.Subject.CommonName == identity || slices.Contains(c.DNSNames, identity) ||
		slices.ContainsFunc(c.IPAddresses, func(ip net.IP) bool { return ip.String() == identity })
}

// peer returns the remote address of a request. If the address is invalid, it returns the zero Addr.
func peer(r *http.Request) netip.Addr {
	a, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return netip.Addr{}
	}
	return a.Addr().Unmap().WithZone("")
}

// Limits for request bodies. A heartbeat from a real base is smaller than 1 KiB.
const (
	maxBody   = 64 << 10
	allBodies = 32 << 20
)

var (
	errTooLarge   = fmt.Errorf("the request body is larger than %d KiB", maxBody>>10)
	errNoIdentity = errors.New("without an identity, which is required over HTTP")
)

// receive reads and decodes the body of a request. The bytes of the body count toward the limit of its connection
// until receive returns. If the body cannot be read, receive sends the error response, and ok is false. err is the
// error from decode.
func receive[M any](t *Tunnel, w http.ResponseWriter, r *http.Request, kind string,
	decode func([]byte) (M, error)) (m M, ok bool, err error) {
	body := &heldBody{Reader: http.MaxBytesReader(w, r.Body, maxBody)}
	body.conn, _ = r.Context().Value(connKey{}).(net.Conn)
	defer func() { connlimit.AddBytes(body.conn, -body.size) }()
	data, err := io.ReadAll(body)
	if err != nil {
		from := tunnel.Origin{Tunnel: tunnel.HTTP, At: time.Now()}
		switch _, large := errors.AsType[*http.MaxBytesError](err); {
		case large:
			t.refuse(w, from, kind, tunnel.Oversized, errTooLarge)
		case errors.Is(err, net.ErrClosed): // the tunnel is stopping, or evicted has reported the connection
		default:
			t.refuse(w, from, kind, tunnel.Malformed, fmt.Errorf("reading the body: %w", err))
		}
		return m, false, nil
	}
	// The response may take longer. httptest.ResponseRecorder does not support deadlines.
	_ = http.NewResponseController(w).SetReadDeadline(time.Time{})
	m, err = decode(data)
	return m, true, err
}

// heldBody is a request body. The bytes read from it count toward the limit of its connection.
type heldBody struct {
	io.Reader
	conn net.Conn // nil in tests without a server
	size int
}

func (b *heldBody) Read(into []byte) (int, error) {
	n, err := b.Reader.Read(into)
	b.size += n
	connlimit.AddBytes(b.conn, n)
	return n, err
}

// connKey is the context key for the connection of a request.
type connKey struct{}

// evicted returns a callback for connlimit.Limits.OnEvict that reports a closed connection to the handler. limit is
// the name of the exceeded limit.
func (t *Tunnel) evicted(limit string) func(address netip.Prefix, connections, bytes int) {
	return func(address netip.Prefix, connections, bytes int) {
		from := tunnel.Origin{Tunnel: tunnel.HTTP, IP: address.Addr().String(), At: time.Now()}
		t.handler.Rejected(from, kindConnection, tunnel.TooMany, fmt.Errorf(
			"closed a connection from %[2]s, the largest user (%[3]d connections, %[4]d bytes), because the limit of "+
				"%[1]s was exceeded",
			limit, address, connections, bytes))
	}
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
