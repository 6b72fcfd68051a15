package app

import (
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestControlRejectsWebPages checks that the control API rejects cross-origin requests and host names that resolve to
// this machine.
func TestControlRejectsWebPages(t *testing.T) {
	routes := (&control{}).guard((&control{}).routes())
	for name, tc := range map[string]struct {
		host, origin string
		want         int
	}{
		"loopback":                {"127.0.0.1:99", "", http.StatusOK},
		"IPv6":                    {"[::1]:99", "", http.StatusOK},
		"localhost":               {"localhost", "", http.StatusOK},
		"address of this machine": {"192.0.2.1:99", "", http.StatusOK},
		"other origin":            {"127.0.0.1:99", "http://evil.example", http.StatusForbidden},
		"null origin":             {"127.0.0.1:99", "null", http.StatusForbidden},
		"DNS rebinding":           {"evil.example:99", "", http.StatusForbidden},
		"no host":                 {"", "", http.StatusForbidden},
	} {
		r := httptest.NewRequestWithContext(t.Context(), http.MethodGet, "/bases", nil)
		r.Host = tc.host
		if tc.origin != "" {
			r.Header.Set("Origin", tc.origin)
		}
		w := httptest.NewRecorder()
		routes.ServeHTTP(w, r)
		if w.Code != tc.want {
			t.Errorf("%s: %d, want %d: %s", name, w.Code, tc.want, w.Body)
		}
	}
}
