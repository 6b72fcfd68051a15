package daemon

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/http"
	"slices"
	"sync"
	"time"
)

// heartTimeout is how long a controller may take for a heartbeat; one that is
// paused never answers.
const heartTimeout = 5 * time.Second

// hearts takes heartbeats over HTTP to every module controller, as the broker does
// over MQTT: each of them must know of every base to take it over. It answers as
// soon as one has answered.
type hearts struct {
	transport *http.Transport

	mu    sync.Mutex
	addrs map[string]string // by controller
	posts sync.WaitGroup
}

func newHearts() *hearts {
	return &hearts{addrs: map[string]string{}, transport: &http.Transport{
		MaxIdleConnsPerHost: 8, IdleConnTimeout: time.Minute, DisableCompression: true,
	}}
}

// set notes where a controller receives heartbeats; empty = nowhere.
func (h *hearts) set(controller, addr string) {
	h.mu.Lock()
	defer h.mu.Unlock()
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
// than the controllers live.
func (h *hearts) wait() {
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
