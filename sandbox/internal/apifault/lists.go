package apifault

import (
	"context"
	"fmt"
	"io"
	"net/http"
)

const (
	// maxLists is the maximum number of list requests that are recorded per controller. A controller sends a few
	// dozen different list requests.
	maxLists = 500
	// maxListBytes is the maximum total size of the list responses that are saved for one fault.
	maxListBytes = 64 << 20
)

// listResponse is a saved response to a list request.
type listResponse struct {
	header http.Header
	body   []byte
}

// listKey returns the key of a list request. List requests with the same resource, parameters and encoding have the
// same key.
func listKey(r *http.Request) string {
	return r.URL.RequestURI() + "\n" + r.Header.Get("Accept")
}

// allowsStale reports whether r is a list request that accepts data of any age (resourceVersion=0). q contains the
// attributes of r.
func allowsStale(r *http.Request, q *request) bool {
	return q.verb == "list" && r.URL.Query().Get("resourceVersion") == "0" &&
		r.URL.Query().Get("resourceVersionMatch") != "Exact"
}

// fetch repeats a recorded list request and returns the response.
func fetch(ctx context.Context, to http.RoundTripper, original *http.Request) (*listResponse, error) {
	response, err := to.RoundTrip(original.Clone(ctx))
	if err != nil {
		return nil, fmt.Errorf("requesting the list %s: %w", original.URL.Path, err)
	}
	defer func() { _ = response.Body.Close() }() // the body has been read
	body, err := io.ReadAll(io.LimitReader(response.Body, maxListBytes+1))
	switch {
	case err != nil:
		return nil, fmt.Errorf("reading the list %s: %w", original.URL.Path, err)
	case response.StatusCode != http.StatusOK:
		return nil, fmt.Errorf("requesting the list %s: %s", original.URL.Path, response.Status)
	case len(body) > maxListBytes:
		return nil, fmt.Errorf("the list %s is larger than %d MB", original.URL.Path, maxListBytes>>20)
	}
	return &listResponse{response.Header, body}, nil
}
