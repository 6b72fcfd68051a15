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

// webPort is the listener for module traffic and actuator. It opens with the first call of WebAddr, and from then on
// with every process.
type webPort struct {
	b        *Base
	endpoint endpoint

	mu     sync.Mutex
	wanted bool
	flying map[*flight]string // the biz identities of the requests in work
}

// flight is a request that a module works on.
type flight struct {
	conn net.Conn
	cut  context.CancelFunc
}

func (w *webPort) init(b *Base) {
	w.b, w.flying = b, map[*flight]string{}
	w.endpoint = endpoint{handler: w, log: b.log, listen: listenOn(b.opts.Web.Addr)}
}

// WebAddr returns host:port of the listener for module traffic and actuator, which the first call opens. The address
// stays the same through crashes and restarts, unless another process takes the port. While no process of the base
// runs, connections are refused.
func (b *Base) WebAddr(ctx context.Context) (string, error) {
	w := &b.web
	w.mu.Lock()
	defer w.mu.Unlock()
	w.wanted = true
	if addr := w.endpoint.address(); addr != "" {
		return addr, nil
	}
	b.mu.Lock()
	l := b.life
	b.mu.Unlock()
	if l == nil {
		// Nobody may answer, but the address must be known.
		if err := w.endpoint.open(ctx, func(func()) bool { return false }); err != nil {
			return "", fmt.Errorf("opening web listener of base %q: %w", b.opts.Identity, err)
		}
		return w.endpoint.address(), nil
	}
	if err := w.endpoint.open(ctx, l.spawn); err != nil {
		return "", fmt.Errorf("opening web listener of base %q: %w", l.identity, err)
	}
	if _, refuse := b.faults.holds(fault.KindWebRefuse, subject{}); refuse {
		w.endpoint.close()
	}
	return w.endpoint.address(), nil
}

// reopenWeb opens the listener with a new process if it was open before.
func (b *Base) reopenWeb(l *life) {
	b.web.mu.Lock()
	wanted := b.web.wanted
	b.web.mu.Unlock()
	if _, refuse := b.faults.holds(fault.KindWebRefuse, subject{}); refuse || !wanted {
		return
	}
	if err := b.web.endpoint.open(l.ctx, l.spawn); err != nil {
		l.log.Warn("web listener cannot be opened", "err", err)
	}
}

// applyWebRefuse closes or opens the listener as the faults say.
func (b *Base) applyWebRefuse(l *life) {
	if _, refuse := b.faults.holds(fault.KindWebRefuse, subject{}); refuse {
		b.web.endpoint.close()
		return
	}
	b.reopenWeb(l)
}

func (b *Base) closeWeb() { b.web.endpoint.close() }

func (b *Base) cutRequests(id string) {
	b.web.mu.Lock()
	defer b.web.mu.Unlock()
	for f, biz := range b.web.flying {
		if biz == id {
			reset(f.conn)
			f.cut()
		}
	}
}

// HostNameHeader is in every answer of the listener for module traffic, also in errors. Behind a load balancer, it shows
// which base has answered.
const HostNameHeader = "X-Base-Host-Name"

// ServeHTTP answers actuator and module requests.
func (w *webPort) ServeHTTP(rw http.ResponseWriter, r *http.Request) {
	w.b.mu.Lock()
	l := w.b.life
	w.b.mu.Unlock()
	if l == nil || l.ctx.Err() != nil {
		panic(http.ErrAbortHandler) // the process is dead
	}
	rw.Header().Set(HostNameHeader, l.hostName())
	first, rest, _ := strings.Cut(strings.TrimPrefix(r.URL.Path, "/"), "/")
	switch {
	case first == "actuator" && rest == "health":
		l.serveHealth(rw)
	case first == "actuator" && rest == "health/liveness":
		serveProbe(rw, statusUp)
	case first == "actuator" && rest == "health/readiness":
		serveProbe(rw, l.readiness())
	case first == "actuator" && rest == "info":
		l.serveInfo(rw)
	case rest == "actuator/health", rest == "actuator/info": // the documents say info and show health
		l.serveModuleHealth(rw, first)
	default:
		l.serveModule(rw, r, first)
	}
}

type moduleAnswer struct {
	Base     string `json:"base"`
	HostName string `json:"hostName"`
	Biz      string `json:"biz"`
	Version  string `json:"version"`
	Request  uint64 `json:"request"`
}

func (l *life) serveModule(rw http.ResponseWriter, r *http.Request, path string) {
	if !l.up() {
		writeJSON(rw, http.StatusServiceUnavailable, map[string]string{"error": "the base is starting"})
		return
	}
	w := &l.b.web
	ctx, cut := context.WithCancel(r.Context())
	defer cut()
	conn, _ := ctx.Value(connKey{}).(net.Conn)
	f := &flight{conn: conn, cut: cut}
	biz, ok := l.take(path, f)
	if !ok {
		noModule(rw, path)
		return
	}
	defer func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		delete(w.flying, f)
	}()
	n := l.b.requests.Add(1)
	d := l.b.opts.Web.RequestDuration
	if q := r.URL.Query().Get("duration"); q != "" {
		var err error
		d, err = time.ParseDuration(q)
		if err != nil || d < 0 {
			writeJSON(rw, http.StatusBadRequest, map[string]string{"error": "duration must be a time such as 200ms"})
			return
		}
	}
	if d > 0 {
		t := time.NewTimer(d)
		defer t.Stop()
		select {
		case <-t.C:
		case <-ctx.Done():
			panic(http.ErrAbortHandler) // the module is gone, or the client
		case <-l.ctx.Done():
			panic(http.ErrAbortHandler)
		}
	}
	writeJSON(rw, http.StatusOK, moduleAnswer{
		Base: l.identity, HostName: l.hostName(), Biz: biz.Name, Version: biz.Version, Request: n,
	})
}

// take finds the biz that serves a path and notes that it works on a request,
// in one step: an uninstall either comes first or cuts the request.
func (l *life) take(path string, f *flight) (Biz, bool) {
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
	w.flying[f] = biz.ID()
	return biz, true
}

// up reports whether the application is ready.
func (l *life) up() bool {
	_, broken := l.b.faults.holds(fault.KindStartFailed, subject{})
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	return l.booted && !broken
}

// noModule answers a request to a path that no active module serves.
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
	_, _ = rw.Write(body) // the client may be gone
}
