package fakebase

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// webPort is the listener for module traffic and the actuator. The first call of WebAddr opens it. After that, every
// new process of the base opens it.
type webPort struct {
	b        *Base
	endpoint endpoint

	mu             sync.Mutex
	startRequested bool
	inFlight       map[*moduleRequest]string // biz identities of in-flight requests
}

// moduleRequest is an in-flight request to a module.
type moduleRequest struct {
	conn   net.Conn
	cancel context.CancelFunc
}

func (w *webPort) init(b *Base) {
	w.b, w.inFlight = b, map[*moduleRequest]string{}
	w.endpoint = endpoint{handler: w, log: b.log, listen: listenOn(b.opts.Web.Addr)}
}

// WebAddr returns the address (host:port) of the listener for module traffic and the actuator. The first call opens
// the listener. The address stays the same after crashes and restarts, unless another program uses the port. While no
// process of the base runs, connections are refused.
func (b *Base) WebAddr(ctx context.Context) (string, error) {
	w := &b.web
	w.mu.Lock()
	defer w.mu.Unlock()
	w.startRequested = true
	if addr := w.endpoint.address(); addr != "" {
		return addr, nil
	}
	b.mu.Lock()
	l := b.current
	b.mu.Unlock()
	if l == nil {
		// The listener is closed until a process runs, but the address must be known.
		if err := w.endpoint.open(ctx, func(func()) bool { return false }); err != nil {
			return "", fmt.Errorf("opening the web listener of base %q: %w", b.opts.Identity, err)
		}
		return w.endpoint.address(), nil
	}
	if err := w.endpoint.open(ctx, l.spawn); err != nil {
		return "", fmt.Errorf("opening the web listener of base %q: %w", l.identity, err)
	}
	if _, refuse := b.faults.inEffectFor(fault.KindWebRefuse, subject{}); refuse {
		w.endpoint.close()
	}
	return w.endpoint.address(), nil
}

// reopenWeb opens the listener for a new process if WebAddr was called before the process started.
func (b *Base) reopenWeb(l *incarnation) {
	b.web.mu.Lock()
	wanted := b.web.startRequested
	b.web.mu.Unlock()
	if _, refuse := b.faults.inEffectFor(fault.KindWebRefuse, subject{}); refuse || !wanted {
		return
	}
	if err := b.web.endpoint.open(l.ctx, l.spawn); err != nil {
		l.log.Warn("could not open the web listener", "err", err)
	}
}

// applyWebRefuse closes the listener while a webRefuse fault is in effect. Otherwise, it opens the listener.
func (b *Base) applyWebRefuse(l *incarnation) {
	if _, refuse := b.faults.inEffectFor(fault.KindWebRefuse, subject{}); refuse {
		b.web.endpoint.close()
		return
	}
	b.reopenWeb(l)
}

func (b *Base) closeWeb() { b.web.endpoint.close() }

// abortRequests aborts the in-flight requests to a biz.
func (b *Base) abortRequests(id string) {
	b.web.mu.Lock()
	defer b.web.mu.Unlock()
	for f, biz := range b.web.inFlight {
		if biz == id {
			reset(f.conn)
			f.cancel()
		}
	}
}

// HostNameHeader is the HTTP header that contains the host name of the base. Every response of the listener for
// module traffic has it. Behind a load balancer, it identifies the base that served the request.
const HostNameHeader = "X-Base-Host-Name"

// ServeHTTP handles requests to the actuator and to modules.
func (w *webPort) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.b.mu.Lock()
	l := w.b.current
	w.b.mu.Unlock()
	if l == nil || l.ctx.Err() != nil {
		panic(http.ErrAbortHandler) // the process has ended
	}
	rw.Header().Set(HostNameHeader, l.hostName())
	first, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case first == "actuator" && !l.b.opts.exposes(rest):
		http.NotFound(rw, r)
	case first == "actuator" && rest == "health":
		l.serveHealth(rw)
	case first == "actuator" && rest == "health/liveness":
		serveProbe(rw, statusUp)
	case first == "actuator" && rest == "health/readiness":
		serveProbe(rw, l.readiness())
	case first == "actuator" && rest == "info":
		l.serveInfo(rw)
		// the Koupleless documentation names the path info, but shows health
	case rest == "actuator/health", rest == "actuator/info":
		l.serveModuleHealth(rw, first)
	default:
		l.serveModule(rw, r, first)
	}
}

type moduleResponse struct {
	Base     string `json:"base"`
	HostName string `json:"hostName"`
	Biz      string `json:"biz"`
	Version  string `json:"version"`
	Request  uint64 `json:"request"`
}

func (l *incarnation) serveModule(rw http.ResponseWriter, r *http.Request, path string) {
	if !l.isUp() {
		writeJSON(rw, http.StatusServiceUnavailable, map[string]string{"error": "the base is starting"})
		return
	}
	w := &l.b.web
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	f := &moduleRequest{conn: conn, cancel: cancel}
	biz, ok := l.startRequest(path, f)
	if !ok {
		noModule(rw, path)
		return
	}
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.inFlight, f)
	}()
	n := l.b.requests.Add(1)
	d := l.b.opts.Web.RequestDuration
	if q := r.URL.Query().Get("duration"); q != "" {
		var err error
		d, err = time.ParseDuration(q)
		if err != nil || d < 0 {
			writeJSON(rw, http.StatusBadRequest,
				map[string]string{"error": "invalid duration; use a value such as 200ms"})
			return
		}
	}
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			panic(http.ErrAbortHandler) // the module was uninstalled, or the client has disconnected
		case <-l.ctx.Done():
			panic(http.ErrAbortHandler)
		}
	}
	writeJSON(rw, http.StatusOK, moduleResponse{
		Base: l.identity, HostName: l.hostName(), Biz: biz.Name, Version: biz.Version, Request: n,
	})
}

// startRequest returns the biz that serves a path, and records the request. It does both in one step, so that an
// uninstallation either finishes before the request starts, or aborts the request. It returns false if no biz serves
// the path.
func (l *incarnation) startRequest(path string, f *moduleRequest) (Biz, bool) {
	w := &l.b.web
	w.mu.Lock()
	defer w.mu.Unlock()
	l.b.mu.Lock()
	biz, ok := l.container.Serving(path)
	if !ok {
		biz, ok = l.container.Serving(rootPath)
	}
	l.b.mu.Unlock()
	if !ok {
		return Biz{}, false
	}
	w.inFlight[f] = biz.ID()
	return biz, true
}

// isUp reports whether the application of the base has started successfully.
func (l *incarnation) isUp() bool {
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.upLocked()
}

// upLocked is like isUp, but the caller holds b.mu.
func (l *incarnation) upLocked() bool {
	_, failed := l.b.faults.inEffectFor(fault.KindStartFailed, subject{})
	return l.booted && !failed
}

// noModule writes the response to a request whose path no active module serves.
func noModule(rw http.ResponseWriter, path string) {
	writeJSON(rw, http.StatusNotFound, map[string]string{"error": "no active module serves /" + path})
}

func writeJSON(rw http.ResponseWriter, status int, v any) {
	body, err := json.Marshal(v)
	if err != nil {
		http.Error(rw, err.Error(), http.StatusInternalServerError)
		return
	}
	if rw.Header().Get("Content-Type") == "" {
		rw.Header().Set("Content-Type", "application/json")
	}
	rw.WriteHeader(status)
	_, _ = rw.Write(body) // the client may have disconnected
}
