// Package apiwait retries watches of the Kubernetes API every second during an outage of the API server. A reflector of
// client-go waits up to a minute between two attempts (30 s plus jitter), and its informer misses changes for that time
// after an outage.
package apiwait

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"time"
)

// retryInterval is the time between two attempts to start a watch.
const retryInterval = time.Second

// maxForbidden is the maximum number of retries if the API server rejects a resumed watch as forbidden.
const maxForbidden = 15

// RetryWatches returns a transport that sends requests through next. It retries a watch every second until the API
// server accepts the connection or the context of the request is done. It also retries a resumed watch that is
// forbidden, up to 15 times, because an API server that has just started may not have loaded its roles. It does not
// retry after other errors, and does not retry other requests. Use it with rest.Config.Wrap.
func RetryWatches(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	for forbidden := 0; ; {
		answer, err := t.next.RoundTrip(r)
		switch {
		case r.Method != http.MethodGet || !r.URL.Query().Has("watch"):
			return answer, err
		case err != nil && isDialError(err):
		case err == nil && answer.StatusCode == http.StatusForbidden && isResumed(r) && forbidden < maxForbidden:
			forbidden++
			_ = answer.Body.Close()
		default:
			return answer, err
		}
		select {
		case <-time.After(retryInterval):
		case <-r.Context().Done():
			return nil, cmp.Or(err, r.Context().Err())
		}
	}
}

// isResumed reports whether a watch request starts at a resource version from a list or from an earlier watch.
func isResumed(r *http.Request) bool {
	version := r.URL.Query().Get("resourceVersion")
	return version != "" && version != "0"
}

// isDialError reports whether a request failed because no connection could be established.
func isDialError(err error) bool {
	var opErr *net.OpError
	return errors.As(err, &opErr) && opErr.Op == "dial"
}
