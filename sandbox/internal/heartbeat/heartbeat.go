package heartbeat

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"
)

// timeout is the timeout of a request to a controller. Without it, a request to a paused controller would block
// indefinitely.
const timeout = 5 * time.Second

// maxBody is the maximum size of a heartbeat in bytes.
const maxBody = 64 << 10

// Relay forwards HTTP heartbeats to every module controller, because a controller must know a base before it can take
// over the base. (Over MQTT, every controller receives every heartbeat.) It responds to the base when one controller
// has responded with 200. Its methods may be called concurrently.
type Relay struct {
	transport *http.Transport
	// baseTransport returns the transport for the heartbeats of a base that runs in a Pod.
	baseTransport func(hostName string) (http.RoundTripper, error)

	mu        sync.Mutex
	addrs     map[string]string // addresses by controller
	posts     sync.WaitGroup
	listeners sync.WaitGroup
}

// New returns a relay without controllers. baseTransport returns the transport for the heartbeats of a base that runs
// in a Pod.
func New(baseTransport func(hostName string) (http.RoundTripper, error)) *Relay {
	return &Relay{baseTransport: baseTransport, addrs: map[string]string{}, transport: &http.Transport{
		MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, DisableCompression: true,
	}}
}

// Open listens on host for heartbeats of bases in other processes until ctx ends. host is an address of this machine
// in the network of the bases. Open returns the value of koupleless.arklet.http.heartbeat.endpoint for these bases: a
// plain HTTP endpoint, as arklet requires, with a secret in the path.
func (h *Relay) Open(ctx context.Context, host string) (endpoint string, err error) {
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", fmt.Errorf("opening the port for heartbeats: %w", err)
	}
	secret := "/" + rand.Text()
	server := &http.Server{Handler: http.StripPrefix(secret, h), ReadHeaderTimeout: time.Minute,
		IdleTimeout: time.Minute}
	h.listeners.Go(func() { _ = server.Serve(l) }) // ends with the listener
	h.listeners.Go(func() {
		<-ctx.Done()
		_ = server.Close() // a base repeats its heartbeat
	})
	return "http://" + l.Addr().String() + secret, nil
}

// ServeHTTP forwards a heartbeat of a base to the controllers and responds with the response of one controller. For a
// base that runs in a Pod, the path begins with the host name of the base.
func (h *Relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var to http.RoundTripper = h
	if hostName, _, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); found {
		base, err := h.baseTransport(hostName)
		if err != nil {
			http.Error(w, err.Error(), http.StatusNotFound)
			return
		}
		to = base
		r.URL.Path = strings.TrimPrefix(r.URL.Path, "/"+hostName)
	}
	switch {
	case r.URL.Path != "/heartbeat" && r.URL.Path != "/queryBaseline":
		http.NotFound(w, r)
		return
	case r.Method != http.MethodPost:
		http.Error(w, "method must be POST", http.StatusMethodNotAllowed)
		return
	}
	out := r.Clone(r.Context())
	out.URL.Scheme = "http" // server requests have no scheme
	out.Body = http.MaxBytesReader(w, r.Body, maxBody)
	response, err := to.RoundTrip(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = response.Body.Close() }()
	w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body) // the base may have disconnected
}

// SetAddr sets the address at which a controller receives heartbeats: host:port, or host:port/token if the controller
// requires a token in the path. An empty addr removes the controller. SetAddr closes idle connections if the address
// has changed.
func (h *Relay) SetAddr(controller, addr string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.addrs[controller] != addr {
		h.transport.CloseIdleConnections()
	}
	if addr == "" {
		delete(h.addrs, controller)
		return
	}
	h.addrs[controller] = addr
}

func (h *Relay) controllerAddrs() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.addrs))
}

// Wait blocks until all heartbeats have been forwarded. Call it after the contexts of all Open calls have ended.
func (h *Relay) Wait() {
	h.listeners.Wait()
	h.posts.Wait()
	h.transport.CloseIdleConnections()
}

// RoundTrip sends a heartbeat to all controllers. It returns the first response with status 200. If no response has
// status 200, it returns the last response, or the last error if no controller has responded.
func (h *Relay) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close() // required of a RoundTripper; the body has been read
	if err != nil {
		return nil, fmt.Errorf("reading a heartbeat: %w", err)
	}
	ctx := r.Context()
	addrs := h.controllerAddrs()
	results := make(chan postResult, len(addrs))
	for _, addr := range addrs {
		h.posts.Go(func() {
			response, err := h.post(ctx, r, addr, body)
			results <- postResult{response, err}
		})
	}
	return firstOK(ctx, results)
}

// postResult is the result of a request to one controller: a response or an error.
type postResult struct {
	response *http.Response
	err      error
}

// firstOK receives the results of all controllers and returns the response or error that RoundTrip must return. The
// capacity of results is the number of controllers.
func firstOK(ctx context.Context, results <-chan postResult) (*http.Response, error) {
	last := postResult{err: errors.New("no module controller receives heartbeats")}
	for range cap(results) {
		select {
		case o := <-results:
			if o.err == nil && o.response.StatusCode == http.StatusOK {
				return o.response, nil
			}
			if o.err == nil || last.response == nil {
				last = o
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return last.response, last.err
}

// post sends a heartbeat to one controller. It continues after ctx has ended, so that every controller gets the
// heartbeat, even after another controller has responded.
func (h *Relay) post(ctx context.Context, r *http.Request, addr string, body []byte) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	url := *r.URL
	var token string
	url.Host, token, _ = strings.Cut(addr, "/")
	if token != "" {
		url.Path = "/" + token + url.Path
	}
	//nolint:gosec // the sandbox sets the address
	request, err := http.NewRequestWithContext(ctx, r.Method, url.String(), bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	request.Header = r.Header.Clone()
	response, err := h.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	_ = response.Body.Close() // the body has been read
	if err != nil {
		return nil, fmt.Errorf("reading the response to a heartbeat: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(answer))
	return response, nil
}
