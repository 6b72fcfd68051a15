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

// timeout is how long a controller may take for a heartbeat; one that is
// paused never answers.
const timeout = 5 * time.Second

// limit is more than anything that a base says of itself.
const limit = 64 << 10

// Relay forwards heartbeats over HTTP to every module controller, because each of them must know every base. It responds
// when one controller has responded with 200. Its methods may be called concurrently.
type Relay struct {
	transport *http.Transport
	// bases finds who takes the heartbeats of a base in a Pod.
	bases func(hostName string) (http.RoundTripper, error)

	mu        sync.Mutex
	addrs     map[string]string // by controller
	posts     sync.WaitGroup
	listeners sync.WaitGroup
}

// New returns a relay to nobody. bases finds who takes the heartbeats of a base that posts under
// its host name, as one in a Pod does.
func New(bases func(hostName string) (http.RoundTripper, error)) *Relay {
	return &Relay{bases: bases, addrs: map[string]string{}, transport: &http.Transport{
		MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, DisableCompression: true,
	}}
}

// Open listens for bases of other processes, at an address of this machine in their network, until ctx ends. It returns
// their koupleless.arklet.http.heartbeat.endpoint: plain HTTP, as arklet requires, with a secret in the path.
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
		_ = server.Close() // a base sends its heartbeat again
	})
	return "http://" + l.Addr().String() + secret, nil
}

// ServeHTTP takes what a base posts to the controllers, and answers what they do. A base in a
// Pod posts under its host name.
func (h *Relay) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	var to http.RoundTripper = h
	if hostName, _, found := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/"); found {
		base, err := h.bases(hostName)
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
		http.Error(w, "bases post", http.StatusMethodNotAllowed)
		return
	}
	out := r.Clone(r.Context())
	out.URL.Scheme = "http" // of a server's request only the path is known
	out.Body = http.MaxBytesReader(w, r.Body, limit)
	response, err := to.RoundTrip(out)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	defer func() { _ = response.Body.Close() }()
	w.Header().Set("Content-Type", response.Header.Get("Content-Type"))
	w.WriteHeader(response.StatusCode)
	_, _ = io.Copy(w, response.Body) // a base that is gone sends another
}

// Set sets the address at which a controller receives heartbeats: host:port, or host:port/token if it needs a token in the
// path; empty = none. Connections to the previous address are closed.
func (h *Relay) Set(controller, addr string) {
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

func (h *Relay) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.addrs))
}

// Wait blocks until no post is in progress. The context of every Open must have ended.
func (h *Relay) Wait() {
	h.listeners.Wait()
	h.posts.Wait()
	h.transport.CloseIdleConnections()
}

// RoundTrip posts a heartbeat. The answer is the first 200, else the last one, else the last error.
func (h *Relay) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close() // a RoundTripper has to, and it has been read
	if err != nil {
		return nil, fmt.Errorf("reading a heartbeat: %w", err)
	}
	ctx := r.Context()
	addrs := h.list()
	outcomes := make(chan outcome, len(addrs))
	for _, addr := range addrs {
		h.posts.Go(func() {
			response, err := h.post(ctx, r, addr, body)
			outcomes <- outcome{response, err}
		})
	}
	return choose(ctx, outcomes)
}

// outcome is what a post to one controller has led to: a response or an error.
type outcome struct {
	response *http.Response
	err      error
}

// choose is the answer of RoundTrip: outcomes has room for as many as there will be.
func choose(ctx context.Context, outcomes <-chan outcome) (*http.Response, error) {
	last := outcome{err: errors.New("no module controller receives heartbeats")}
	for range cap(outcomes) {
		select {
		case o := <-outcomes:
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

// post goes on when nobody waits for it any more: another controller has answered.
func (h *Relay) post(ctx context.Context, r *http.Request, addr string, body []byte) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	url := *r.URL
	var token string
	url.Host, token, _ = strings.Cut(addr, "/")
	if token != "" {
		url.Path = "/" + token + url.Path
	}
	request, err := http.NewRequestWithContext(ctx, r.Method, url.String(),
		bytes.NewReader(body)) //nolint:gosec // of the controllers that the sandbox runs
	if err != nil {
		return nil, err
	}
	request.Header = r.Header.Clone()
	response, err := h.transport.RoundTrip(request)
	if err != nil {
		return nil, err
	}
	answer, err := io.ReadAll(io.LimitReader(response.Body, 4<<10))
	_ = response.Body.Close() // what counts has been read
	if err != nil {
		return nil, fmt.Errorf("reading the answer to a heartbeat: %w", err)
	}
	response.Body = io.NopCloser(bytes.NewReader(answer))
	return response, nil
}
