package apifault

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

const (
	// mostLists is how many different lists of a controller are known; it has some dozens.
	mostLists = 500
	// mostKept is how large the lists of one fault may be in all.
	mostKept = 64 << 20
)

// list is an answer to a list, as it came.
type list struct {
	header http.Header
	body   []byte
}

// listKey tells lists apart: what is asked, and in which form.
func listKey(r *http.Request) string {
	return r.URL.RequestURI() + "\n" + r.Header.Get("Accept") + "\n" + r.Header.Get("Accept-Encoding")
}

// old reports whether a client has asked for any state of a list, however old.
func old(r *http.Request, q *request) bool {
	return q.verb == "list" && r.URL.Query().Get("resourceVersion") == "0" &&
		r.URL.Query().Get("resourceVersionMatch") != "Exact"
}

// fetch asks for a list again.
func fetch(ctx context.Context, to http.RoundTripper, as *http.Request) (*list, error) {
	response, err := to.RoundTrip(as.Clone(ctx))
	if err != nil {
		return nil, fmt.Errorf("reading %s: %w", as.URL.Path, err)
	}
	defer func() { _ = response.Body.Close() }() // what counts has been read
	body, err := io.ReadAll(io.LimitReader(response.Body, mostKept+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", as.URL.Path, err)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("reading %s: %s", as.URL.Path, response.Status)
	case len(body) > mostKept:
		return nil, fmt.Errorf("%s has more than %d MB: too much to keep", as.URL.Path, mostKept>>20)
	}
	return &list{response.Header, body}, nil
}
