package apiwait

import (
	"errors"
	"net"
	"net/http"
	"time"
)

// pause between two attempts to connect.
const pause = time.Second

// Watches returns a transport that sends watches through next, again every second as long as nobody
// accepts the connection. It blocks until the context of the request ends. Other requests, and all
// other errors, pass as they are. Use it with rest.Config.Wrap.
func Watches(next http.RoundTripper) http.RoundTripper { return transport{next} }

type transport struct{ next http.RoundTripper }

func (t transport) RoundTrip(r *http.Request) (*http.Response, error) {
	for {
		answer, err := t.next.RoundTrip(r)
		if err == nil || r.Method != http.MethodGet || !r.URL.Query().Has("watch") || !unconnected(err) {
			return answer, err
		}
		select {
		case <-time.After(pause):
		case <-r.Context().Done():
			return nil, err
		}
	}
}

// unconnected tells whether a request never reached anybody.
func unconnected(err error) bool {
	var op *net.OpError
	return errors.As(err, &op) && op.Op == "dial"
}
