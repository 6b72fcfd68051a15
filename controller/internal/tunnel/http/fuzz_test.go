package httptunnel

import (
	"bytes"
	"errors"
	"net/http/httptest"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// FuzzServer holds the server to its promise for any body: it answers, acts on what says who it is
// from, and counts everything else once.
func FuzzServer(f *testing.F) {
	f.Fuzz(func(t *testing.T, baseline bool, body []byte) {
		h := newHandler()
		path := "/heartbeat"
		if baseline {
			path = "/queryBaseline"
		}
		w := httptest.NewRecorder()
		New(Options{}, h).routes().ServeHTTP(w, httptest.NewRequest("POST", path, bytes.NewReader(body)))
		told := h.all()
		if len(told) != 1 {
			t.Fatalf("told %d times, want once", len(told))
		}
		e := told[0]
		switch rejected := e.Reason != ""; {
		case rejected && (e.Err == nil || w.Code != 400 && w.Code != 403 && w.Code != 413 || w.Body.Len() == 0 || w.Body.Len() > arklet.MaxText):
			t.Errorf("rejected with %v and answered %d %q", e.Err, w.Code, w.Body)
		case !rejected && (w.Code != 200 || e.From.Identity == ""):
			t.Errorf("base %q was answered %d", e.From.Identity, w.Code)
		case !rejected && !baseline && (e.Heartbeat.Identity != e.From.Identity || e.Heartbeat.IP == "" || e.From.IP != e.Heartbeat.IP):
			t.Errorf("a heartbeat of base %q was told as %+v", e.From.Identity, e.Heartbeat)
		}
	})
}

// FuzzDeliver holds the client to its promise for any answer: whoever asked hears of it, once, and one
// that is not taken is counted once.
func FuzzDeliver(f *testing.F) {
	requests := []arklet.Request{install, health, list, {Command: arklet.CommandSwitchBiz, Module: biz1}}
	f.Add(uint8(2), []byte(`{"code":"SUCCESS","data":[{"bizName":"bad","bizVersion":1},{"bizName":"biz1","bizVersion":"1"}]}`))
	f.Fuzz(func(t *testing.T, which uint8, body []byte) {
		h := newHandler()
		c := &call{to: at, request: requests[int(which)%len(requests)]}
		New(Options{}, h).deliver(c, time.UnixMilli(1), body, nil)
		told := h.all()
		switch {
		case len(told) == 1:
			e := told[0]
			if e.Err != nil || e.Reason != "" || e.From.Identity != at.Identity {
				t.Errorf("told %+v", e)
			}
		case len(told) == 2 && errors.Is(told[0].Err, arklet.ErrDropped): // then the rest of the list
			if e := told[1]; e.Err != nil || e.From.Identity != at.Identity {
				t.Errorf("reported %+v", e)
			}
		case len(told) == 2:
			rejected, unanswered := told[0], told[1]
			if rejected.Reason == "" || rejected.Kind != string(c.request.Command) || unanswered.Request != c.request || !errors.Is(unanswered.Err, rejected.Err) {
				t.Errorf("told %+v, then %+v", rejected, unanswered)
			}
			if text := unanswered.Err.Error(); text == "" || len(text) > arklet.MaxText+500 || !utf8.ValidString(text) {
				t.Errorf("an error of %d bytes: %.500q", len(text), text)
			}
		default:
			t.Errorf("told %d times", len(told))
		}
	})
}
