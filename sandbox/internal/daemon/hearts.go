package daemon

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

// heartTimeout is how long a controller may take for a heartbeat; one that is
// paused never answers.
const heartTimeout = 5 * time.Second

// heartLimit is more than anything that a base says of itself.
const heartLimit = 64 << 10

// hearts takes heartbeats over HTTP to every module controller, as the broker does
// over MQTT: each of them must know of every base to take it over. It answers as
// soon as one has answered.
type hearts struct {
	transport *http.Transport
	// bases finds who takes the heartbeats of a base in a container.
	bases func(hostName string) (http.RoundTripper, error)

	mu        sync.Mutex
	addrs     map[string]string // by controller
	endpoints map[string]string // of listeners, by their host
	posts     sync.WaitGroup
	listeners sync.WaitGroup
}

func newHearts(bases func(hostName string) (http.RoundTripper, error)) *hearts {
	return &hearts{bases: bases, addrs: map[string]string{}, endpoints: map[string]string{}, transport: &http.Transport{
		MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, DisableCompression: true,
	}}
}

// open listens for bases that are no part of this process, at an address of this machine in their
// network, until ctx ends. It returns their koupleless.arklet.http.heartbeat.endpoint: plain HTTP, which
// is all that arklet speaks, with a secret in the path, since others can reach that port too. A host has
// one endpoint, however often it is asked for.
func (h *hearts) open(ctx context.Context, host string) (endpoint string, err error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if endpoint := h.endpoints[host]; endpoint != "" {
		return endpoint, nil
	}
	l, err := net.Listen("tcp", net.JoinHostPort(host, "0"))
	if err != nil {
		return "", fmt.Errorf("opening the port for heartbeats: %w", err)
	}
	secret := "/" + rand.Text()
	server := &http.Server{Handler: http.StripPrefix(secret, h), ReadHeaderTimeout: time.Minute, IdleTimeout: time.Minute}
	h.listeners.Go(func() { _ = server.Serve(l) }) // ends with the listener
	h.listeners.Go(func() {
		<-ctx.Done()
		_ = server.Close() // a base sends its heartbeat again
	})
	endpoint = "http://" + l.Addr().String() + secret
	h.endpoints[host] = endpoint
	return endpoint, nil
}

// ServeHTTP takes what a base posts to the controllers, and answers what they do. A base in a container
// posts under its host name.
func (h *hearts) ServeHTTP(w http.ResponseWriter, r *http.Request) {
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
	out.Body = http.MaxBytesReader(w, r.Body, heartLimit)
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

// set notes where a controller receives heartbeats; empty = nowhere. Connections to where it did are not
// used again: they may lead to a Pod that is gone.
func (h *hearts) set(controller, addr string) {
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

func (h *hearts) list() []string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Collect(maps.Values(h.addrs))
}

// wait blocks until no post is under way: for heartTimeout at most, and no longer
// than the controllers live. The context of every open has ended.
func (h *hearts) wait() {
	h.listeners.Wait()
	h.posts.Wait()
	h.transport.CloseIdleConnections()
}

// RoundTrip posts a heartbeat. The answer is the first 200, else the last one, else
// an error.
func (h *hearts) RoundTrip(r *http.Request) (*http.Response, error) {
	body, err := io.ReadAll(r.Body)
	_ = r.Body.Close() // a RoundTripper has to, and it has been read
	if err != nil {
		return nil, fmt.Errorf("reading a heartbeat: %w", err)
	}
	ctx := r.Context()
	type outcome struct {
		response *http.Response
		err      error
	}
	addrs := h.list()
	outcomes := make(chan outcome, len(addrs))
	for _, addr := range addrs {
		h.posts.Go(func() {
			response, err := h.post(ctx, r, addr, body)
			outcomes <- outcome{response, err}
		})
	}
	last := outcome{err: errors.New("no module controller receives heartbeats")}
	for range addrs {
		select {
		case o := <-outcomes:
			if o.err == nil && o.response.StatusCode == http.StatusOK {
				return o.response, nil
			}
			if last.response == nil {
				last = o
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
	return last.response, last.err
}

// post goes on when nobody waits for it any more: another controller has answered.
func (h *hearts) post(ctx context.Context, r *http.Request, addr string, body []byte) (*http.Response, error) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), heartTimeout)
	defer cancel()
	url := *r.URL
	url.Host = addr
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
	_ = response.Body.Close() // what counts has been read
	response.Body = io.NopCloser(bytes.NewReader(answer))
	return response, err
}
