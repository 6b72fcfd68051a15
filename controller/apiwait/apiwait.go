// Package apiwait has watches of the Kubernetes API wait for an API server that is away. A reflector
// of client-go alone pauses up to a minute between two attempts (30 s, and as much again by
// chance), so that whoever relies on it would not see for as long what happens after
// an outage.
package apiwait

import (
	"cmp"
	"errors"
	"net"
	"net/http"
	"time"
)

// pause between two attempts.
const pause = time.Second

// forbidden is how often a watch that goes on is refused before that is believed.
const forbidden = 15

// RetryWatches returns a transport that sends watches through next, again every second as long as nobody
// accepts the connection. It blocks until the context of the request ends. A watch that goes on where
// another one ended is sent again, too, when it is forbidden, fifteen times: an API server that has just
// started does not know its roles yet. Other requests, and all other errors, pass as they are. Use it
// with rest.Config.Wrap.
func RetryWatches(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	for refused := 0; ; {
		answer, err := t.next.RoundTrip(r)
		switch {
		case r.Method != http.MethodGet || !r.URL.Query().Has("watch"):
			return answer, err
		case err != nil && unconnected(err):
		case err == nil && answer.StatusCode == http.StatusForbidden && goesOn(r) && refused < forbidden:
			refused++
			_ = answer.Body.Close() // nobody reads why
		default:
			return answer, err
		}
		select {
		case <-time.After(pause):
		case <-r.Context().Done():
			return nil, cmp.Or(err, r.Context().Err())
		}
	}
}

// goesOn tells whether a watch begins at a version that was seen.
func goesOn(r *http.Request) bool {
	version := r.URL.Query().Get("resourceVersion")
	return version != "" && version != "0"
}

// unconnected tells whether a request never reached anybody.
func unconnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
