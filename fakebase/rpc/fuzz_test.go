package rpc_test

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/rpc"
)

// FuzzRequest: whatever a client sends, there is an answer, or a refusal that says why.
func FuzzRequest(f *testing.F) {
	mux := http.NewServeMux()
	echo.Handle(mux, func(_ context.Context, q question) ([]string, error) { return []string{q.Text}, nil })
	f.Fuzz(func(t *testing.T, body []byte) {
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, httptest.NewRequest("POST", "/Echo", strings.NewReader(string(body))))
		var answer []string
		var refusal rpc.Error
		switch w.Code {
		case http.StatusOK:
			if err := json.Unmarshal(w.Body.Bytes(), &answer); err != nil || len(answer) != 1 {
				t.Errorf("answered %s: %v", w.Body, err)
			}
		default:
			if err := json.Unmarshal(w.Body.Bytes(), &refusal); err != nil || refusal.Code != w.Code || refusal.Message == "" {
				t.Errorf("refused with %d %s: %v", w.Code, w.Body, err)
			}
		}
	})
}

// answers is a transport whose server says the same to everything.
type answers struct {
	status int
	body   []byte
}

func (a answers) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: a.status, Status: http.StatusText(a.status), Body: io.NopCloser(strings.NewReader(string(a.body)))}, nil
}

// FuzzAnswer: whatever a server says, a call has an output or an error, and the error is what the
// server reports, or that it cannot be reached. A stream gives no item beyond an error.
func FuzzAnswer(f *testing.F) {
	f.Fuzz(func(t *testing.T, ok bool, body []byte) {
		a := answers{http.StatusInternalServerError, body}
		if ok {
			a.status = http.StatusOK
		}
		c := &rpc.Client{Transport: a, Unreachable: errAway}
		out, err := echo.Call(t.Context(), c, question{})
		check := func(err error) {
			if refused := (*rpc.Error)(nil); err != nil && !errors.Is(err, errAway) && (!errors.As(err, &refused) || refused.Message == "" && !ok) {
				t.Errorf("error %#v", err)
			}
		}
		if check(err); !ok && err == nil || err != nil && out != nil {
			t.Errorf("status %d: %v, error %v", a.status, out, err)
		}
		var items [][]string
		first := count.Call(t.Context(), c, 1, func(item []string) { items = append(items, item) })
		check(first)
		var again [][]string
		second := count.Call(t.Context(), c, 1, func(item []string) { again = append(again, item) })
		if diff := cmp.Diff(items, again); diff != "" || (first == nil) != (second == nil) {
			t.Errorf("read again: %v, then %v (-first +second):\n%s", first, second, diff)
		}
	})
}
