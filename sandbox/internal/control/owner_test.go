package control

import (
	"context"
	"errors"
	"net/http"
	"net/http/httptest"
	"testing"
)

// TestOwnersOnly checks that only the owner and root are trusted, and that a caller whose user is unknown is
// rejected.
func TestOwnersOnly(t *testing.T) {
	const owner = 1000
	for name, tc := range map[string]struct {
		who  any
		want int
	}{
		"the owner":    {peerUser{uid: owner}, http.StatusOK},
		"root":         {peerUser{uid: 0}, http.StatusOK},
		"another user": {peerUser{uid: 1001}, http.StatusForbidden},
		"unknown":      {peerUser{err: errors.New("unknown")}, http.StatusForbidden},
		"missing":      {nil, http.StatusForbidden},
	} {
		t.Run(name, func(t *testing.T) {
			w := httptest.NewRecorder()
			r := httptest.NewRequestWithContext(context.WithValue(t.Context(), callerKey{}, tc.who), http.MethodPost,
				"/", nil)
			ownersOnly(http.HandlerFunc(func(http.ResponseWriter, *http.Request) {}), owner).ServeHTTP(w, r)
			if w.Code != tc.want {
				t.Errorf("status %d, want %d: %s", w.Code, tc.want, w.Body)
			}
		})
	}
}
