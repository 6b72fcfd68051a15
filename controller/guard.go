package controller

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/metrics"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/internal/vnode"
)

// guardedTunnel is a tunnel that sends operations only to bases that this controller serves, and only while this
// controller may act. Otherwise, another controller may already serve the base. It sends all queries.
type guardedTunnel struct {
	base.Tunnel
	// checkOperation returns an error if this controller must not send operations to a base at the moment. It must
	// not block.
	checkOperation func(identity string) error
}

func (c *Controller) checkOperation(identity string) error {
	switch {
	case !c.nodeReconciler.MayAct():
		return vnode.ErrNotActing
	case !c.nodeReconciler.Owns(identity):
		return errNotServed
	}
	return nil
}

var errNotServed = errors.New("this controller does not serve the base; another controller may serve it")

func (g guardedTunnel) Send(ctx context.Context, to tunnel.Address, r arklet.Request) error {
	if !r.Command.IsQuery() {
		if err := g.checkOperation(to.Identity); err != nil {
			return err
		}
	}
	return g.Tunnel.Send(ctx, to, r)
}

// requestTimeout is the timeout of requests to the Kubernetes API. It does not apply to watches and logs.
const requestTimeout = 10 * time.Second

// guardRequests sets a timeout for requests to the Kubernetes API, and rejects writes of Nodes and Pods while this
// controller may not act.
func (c *Controller) guardRequests(next http.RoundTripper) http.RoundTripper {
	return promhttp.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
		if r.Method != http.MethodGet && requiresActing(r.URL.Path) && !c.nodeReconciler.MayAct() {
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

// withoutStaleReads removes resourceVersion=0 from requests. With this parameter, an API server with an outdated
// cache may return a list from before a release. A restarted controller would then install the old version.
func withoutStaleReads(next http.RoundTripper) http.RoundTripper {
	return promhttp.RoundTripperFunc(func(r *http.Request) (*http.Response, error) {
		query := r.URL.Query()
		if r.Method != http.MethodGet || query.Get("resourceVersion") != "0" {
			return next.RoundTrip(r)
		}
		query.Del("resourceVersion")
		query.Del("resourceVersionMatch") // invalid without resourceVersion
		r = r.Clone(r.Context())
		r.URL.RawQuery = query.Encode()
		return next.RoundTrip(r)
	})
}

// requiresActing reports whether path is the Kubernetes API path of a Node or a Pod. Only the controller that serves
// the base may write these objects.
func requiresActing(path string) bool {
	kind, _, _ := strings.Cut(metrics.Resource(path), "/")
	return kind == "nodes" || kind == "pods"
}

// body is a response body that cancels the timeout of the request when it is closed.
type body struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *body) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
