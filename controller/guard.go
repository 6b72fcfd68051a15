package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/internal/vnode"
)

// guarded is a tunnel that carries operations for bases only that this controller serves, and none while
// it may not act: another one may serve the base by then. Questions do no harm.
type guarded struct {
	tunnel interface {
		Key() tunnel.Key
		Send(ctx context.Context, to tunnel.Address, r arklet.Request) error
	}
	// mayOperate says why nothing may be sent to a base; nil if it may. It must not block.
	mayOperate func(identity string) error
}

// mayOperate is asked at the last moment: whoever decided to send an operation may have waited since.
func (c *Controller) mayOperate(identity string) error {
	switch {
	case !c.nodeReconciler.Acting():
		return vnode.ErrNotActing
	case !c.nodeReconciler.Owns(identity):
		return errNotServed
	}
	return nil
}

var errNotServed = errors.New("this controller does not serve the base, and another one may")

func (g guarded) Key() tunnel.Key { return g.tunnel.Key() }

func (g guarded) Send(ctx context.Context, to tunnel.Address, r arklet.Request) error {
	if !r.Command.IsQuestion() {
		if err := g.mayOperate(to.Identity); err != nil {
			return err
		}
	}
	return g.tunnel.Send(ctx, to, r)
}

// requestTimeout bounds every call to the Kubernetes API but watches and logs: one that hangs without
// an answer must not hold anything up.
const requestTimeout = 10 * time.Second

// guardRequests gives every call a deadline, and refuses writes of Nodes and Pods while this
// controller may not act.
func (c *Controller) guardRequests(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet && actsOn(r.URL.Path) && !c.nodeReconciler.Acting() {
			return nil, fmt.Errorf("%s %s: %w", r.Method, r.URL.Path, vnode.ErrNotActing)
		}
		if r.URL.Query().Has("watch") || strings.HasSuffix(r.URL.Path, "/log") {
			return next.RoundTrip(r)
		}
		ctx, cancel := context.WithTimeout(r.Context(), requestTimeout)
		answer, err := next.RoundTrip(r.WithContext(ctx))
		if err != nil {
			cancel()
			return nil, err
		}
		answer.Body = &body{answer.Body, cancel}
		return answer, nil
	})
}

// latest has the API answer by what is now. A client that begins asks for a list of any age, which an
// API server that is behind may give: one from before a release that this controller has led, and a
// restarted controller would install the old version on all bases and uninstall the new one.
func latest(next http.RoundTripper) http.RoundTripper {
	return roundTripper(func(r *http.Request) (*http.Response, error) {
		query := r.URL.Query()
		if r.Method != http.MethodGet || query.Get("resourceVersion") != "0" {
			return next.RoundTrip(r)
		}
		query.Del("resourceVersion")
		query.Del("resourceVersionMatch") // of no meaning without
		r = r.Clone(r.Context())
		r.URL.RawQuery = query.Encode()
		return next.RoundTrip(r)
	})
}

// actsOn says whether a path of the Kubernetes API is that of what only the controller that serves a
// base may write.
func actsOn(path string) bool {
	rest, ok := strings.CutPrefix(path, "/api/v1/")
	if !ok {
		return false
	}
	if within, ok := strings.CutPrefix(rest, "namespaces/"); ok {
		_, rest, _ = strings.Cut(within, "/")
	}
	kind, _, _ := strings.Cut(rest, "/")
	return kind == "nodes" || kind == "pods"
}

type roundTripper func(*http.Request) (*http.Response, error)

func (f roundTripper) RoundTrip(r *http.Request) (*http.Response, error) { return f(r) }

// body ends the deadline of a request when its answer was read.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
