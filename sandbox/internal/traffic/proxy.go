package traffic

import (
	"context"
	"crypto/subtle"
	"encoding/base64"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httputil"
	"net/netip"
	"net/url"
	"strings"
	"sync"
	"syscall"
)

type hostKey struct{}

// newProxy returns the reverse proxy for all requests except CONNECT. It opens a new connection for each request, so
// that an endpoint is selected for each request.
func (g *Gateway) newProxy() *httputil.ReverseProxy {
	return &httputil.ReverseProxy{
		Transport: &http.Transport{
			DisableKeepAlives: true, DisableCompression: true,
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				host, _ := ctx.Value(hostKey{}).(string)
				return g.dialHost(ctx, host)
			},
		},
		FlushInterval: -1,
		Rewrite:       func(*httputil.ProxyRequest) {},
		ErrorHandler:  proxyFailed,
	}
}

// ServeHTTP implements an HTTP proxy to Services (http://SERVICE.NAMESPACE[:PORT]/…) and bases (http://IP[:PORT]/…).
// The port of a base is its module port (the default) or its command port. CONNECT can also connect to the command
// port of a base that runs on this machine outside the sandbox. All other addresses are forbidden. The response has a
// 4xx status if the host is neither a Service nor a base, status 503 if the Service has no endpoints, and status 502
// if the base refuses the connection. If the connection to the base fails later, ServeHTTP closes the connection to
// the client.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method == http.MethodConnect:
		g.tunnel(w, r, g.dialTunnel)
	case r.URL.Host == "":
		http.Error(w, fmt.Sprintf("This is an HTTP proxy: http_proxy=http://%s curl http://SERVICE.NAMESPACE/MODULE",
			r.Host), http.StatusBadRequest)
	case r.URL.Scheme != "http":
		http.Error(w, fmt.Sprintf("This proxy supports http:// only, not %s://; use CONNECT for TLS.",
			r.URL.Scheme), http.StatusBadRequest)
	default:
		g.proxy.ServeHTTP(w, r.WithContext(context.WithValue(r.Context(), hostKey{}, r.URL.Host)))
	}
}

// Commands returns an HTTP proxy for controllers on other machines. It supports only CONNECT to the command ports of
// bases, and requires the given user name and password.
func (g *Gateway) Commands(user, password string) http.Handler {
	want := "Basic " + base64.StdEncoding.EncodeToString([]byte(user+":"+password))
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		switch {
		case subtle.ConstantTimeCompare([]byte(r.Header.Get("Proxy-Authorization")), []byte(want)) != 1:
			w.Header().Set("Proxy-Authenticate", `Basic realm="bases"`)
			http.Error(w, "This proxy is for the module controllers of a sandbox.", http.StatusProxyAuthRequired)
		case r.Method != http.MethodConnect:
			http.Error(w, "This proxy supports only CONNECT.", http.StatusMethodNotAllowed)
		default:
			g.tunnel(w, r, g.dialArklet)
		}
	})
}

func (g *Gateway) dialArklet(ctx context.Context, authority string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(authority)
	if err != nil {
		return nil, fmt.Errorf("%w: %q is not the address of a base", ErrNoEndpoint, authority)
	}
	t, ours := g.o.Targets.ByIP(host)
	if !ours || t.ArkletPort != port {
		return nil, &DialError{Target: Target{IP: host}, Err: errNoBase}
	}
	return connect(ctx, t, t.Arklet)
}

// forbiddenError is the error for a host to which the gateway does not connect. It contains the HTTP status of the
// response.
type forbiddenError struct {
	status int
	text   string
}

func (e *forbiddenError) Error() string { return e.text }

func (g *Gateway) dialTunnel(ctx context.Context, authority string) (net.Conn, error) {
	host, port, err := net.SplitHostPort(authority)
	if err != nil || port == "" {
		return nil, &forbiddenError{http.StatusBadRequest,
			fmt.Sprintf("CONNECT %s has no port; use HOST:PORT", authority)}
	}
	if ip := net.ParseIP(host); ip != nil && ip.IsLoopback() && g.o.External(authority) {
		return connect(ctx, Target{IP: host}, authority)
	}
	return g.dialHost(ctx, authority)
}

// dialHost connects to the Service or the base in authority, the host and port of a URL.
func (g *Gateway) dialHost(ctx context.Context, authority string) (net.Conn, error) {
	at := url.URL{Host: authority}
	host, port := at.Hostname(), at.Port()
	if net.ParseIP(host) != nil {
		t, ours := g.o.Targets.ByIP(host)
		if addr, err := netip.ParseAddr(host); !ours && (err != nil || !g.o.Network.Contains(addr)) {
			return nil, &forbiddenError{http.StatusForbidden,
				fmt.Sprintf("no base has the address %s; use the address of a base, or SERVICE.NAMESPACE", host)}
		}
		t.IP = host
		t = t.WithPort(port)
		return connect(ctx, t, t.Web)
	}
	name, rest, _ := strings.Cut(strings.ToLower(host), ".") // host names are case-insensitive
	namespace, _, _ := strings.Cut(rest, ".")                // the rest may be .svc.cluster.local
	if name == "" || namespace == "" {
		return nil, &forbiddenError{http.StatusForbidden,
			fmt.Sprintf("%q is neither SERVICE.NAMESPACE nor the address of a base", host)}
	}
	route := Route{Namespace: namespace, Service: name, Port: port, Client: "proxy"}
	if err := g.Ready(ctx); err != nil {
		return nil, err
	}
	g.mu.Lock()
	known := g.backends[route.key()] != nil
	g.mu.Unlock()
	if !known {
		return nil, &forbiddenError{http.StatusNotFound,
			fmt.Sprintf("Service %s does not exist; use an existing SERVICE.NAMESPACE, or the address of a base",
				route.key())}
	}
	return g.Dial(ctx, route)
}

func proxyFailed(w http.ResponseWriter, r *http.Request, err error) {
	var failed *DialError
	var no *forbiddenError
	switch {
	case r.Context().Err() != nil:
		panic(http.ErrAbortHandler) // the client has disconnected
	case errors.As(err, &no):
		http.Error(w, err.Error(), no.status)
	case errors.Is(err, ErrNoEndpoint):
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
	case errors.As(err, &failed):
		http.Error(w, err.Error(), http.StatusBadGateway)
	default:
		panic(http.ErrAbortHandler) // closes the client's connection, since the base has closed its connection
	}
}

// tunnel handles a CONNECT request: it copies data between the client and the target in both directions until both
// connections have ended.
func (g *Gateway) tunnel(w http.ResponseWriter, r *http.Request, dial func(context.Context, string) (net.Conn, error)) {
	far, err := dial(r.Context(), r.Host)
	if err != nil {
		proxyFailed(w, r, err)
		return
	}
	defer func() { _ = far.Close() }()
	near, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		http.Error(w, err.Error(), http.StatusInternalServerError)
		return
	}
	defer func() { _ = near.Close() }()
	if _, err := io.WriteString(near, "HTTP/1.1 200 Connection established\r\n\r\n"); err != nil {
		return
	}
	var wg sync.WaitGroup
	wg.Go(func() { copyAndClose(far, buffered) })
	copyAndClose(near, far)
	_ = near.Close() // close the client's side when the base closes its side
	wg.Wait()
}

// copyAndClose copies data until the source connection ends. It then ends the destination connection in the same way:
// with a reset or a close.
func copyAndClose(to net.Conn, from io.Reader) {
	_, err := io.Copy(to, from)
	if c, ok := to.(*conn); ok {
		to = c.Conn
	}
	tcp, ok := to.(*net.TCPConn)
	if !ok {
		_ = to.Close()
		return
	}
	if errors.Is(err, syscall.ECONNRESET) {
		_ = tcp.SetLinger(0)
		_ = tcp.Close()
		return
	}
	_ = tcp.CloseWrite()
}
