package control

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// Who is neither the owner nor root, or of whom nothing is known, is not served.
func TestOwnersOnly(t *testing.T) {
	const owner = 1000
	for name, tc := range map[string]struct {
		who  any
		want int
	}{
		"the owner":                  {known{uid: owner}, http.StatusOK},
		"root":                       {known{uid: 0}, http.StatusOK},
		"another":                    {known{uid: 1001}, http.StatusForbidden},
		"root, or nobody: unknown":   {known{err: errors.New("unknown")}, http.StatusForbidden},
		"not asked about, a mistake": {nil, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(context.WithValue(t.Context(), callerKey{}, tc.who), http.MethodPost,
				"/", nil)
			ownersOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), owner).ServeHTTP(w, r)
			if w.Code != tc.want {
				t.Errorf("answered with %d, not %d: %s", w.Code, tc.want, w.Body)
			}
		})
	}
}
