package controller

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// No list may be from before what this controller has done; all else is asked as it was.
func TestNoOldLists(t *testing.T) {
	for asked, want := range map[string]string{
		"/api/v1/pods?labelSelector=a%3Db&limit=500&resourceVersion=0":      "/api/v1/pods?labelSelector=a%3Db&limit=500",
		"/api/v1/nodes?resourceVersion=0&resourceVersionMatch=NotOlderThan": "/api/v1/nodes",
		"/api/v1/pods?resourceVersion=17":                                   "/api/v1/pods?resourceVersion=17",
		"/api/v1/pods?watch=true&resourceVersion=17":                        "/api/v1/pods?watch=true&resourceVersion=17",
		"/api/v1/pods": "/api/v1/pods",
	} {
		var got string
		by := latest(roundTripper(func(r *http.Request) (*http.Response, error) {
			got = r.URL.Path
			if r.URL.RawQuery != "" {
				got += "?" + r.URL.RawQuery
			}
			return &http.Response{}, nil
		}))
		r := httptest.NewRequest(http.MethodGet, asked, nil)
		before := r.URL.String()
		response, err := by.RoundTrip(r)
		if err != nil || response == nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", asked, diff)
		}
		if r.URL.String() != before {
			t.Errorf("%s: the request itself was changed to %s", asked, r.URL)
		}
	}
}
