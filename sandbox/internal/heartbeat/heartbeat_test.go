package heartbeat

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

const patience = check.Patience

// Each controller gets each heartbeat; one that is away or hangs keeps nobody.
func TestEachControllerGetsEachHeartbeat(t *testing.T) {
	h := New(nil)
	var mu sync.Mutex
	heard := map[string]string{}
	hanging := make(chan struct{})
	controller := func(name string, answer func(w http.ResponseWriter)) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			heard[name] = fmt.Sprintf("%s %s %s", r.URL.Path, r.Header.Get("Content-Type"), body)
			mu.Unlock()
			answer(w)
		}))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	defer func() { close(hanging); h.Wait() }() // before the servers wait for those that hang
	beat := func() (int, error) {
		client := &http.Client{Transport: h, Timeout: patience}
		response, err := client.Post("http://module-controller/heartbeat", "application/json", strings.NewReader("{}"))
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	if _, err := beat(); err == nil {
		t.Error("without a controller a heartbeat was answered")
	}
	h.Set("refusing", controller("refusing",
		func(w http.ResponseWriter) { http.Error(w, "no", http.StatusBadRequest) }))
	if status, err := beat(); err != nil || status != http.StatusBadRequest {
		t.Errorf("a refusal came as %d, %v", status, err)
	}
	fine := func(http.ResponseWriter) {}
	h.Set("first", controller("first", fine))
	h.Set("second", controller("second", fine))
	h.Set("hanging", controller("hanging", func(http.ResponseWriter) { <-hanging }))
	h.Set("away", "127.0.0.1:1")
	if status, err := beat(); err != nil || status != http.StatusOK {
		t.Errorf("a heartbeat gave %d, %v", status, err)
	}
	check.Eventually(t, patience, func() error {
		mu.Lock()
		defer mu.Unlock()
		want := map[string]string{}
		for _, name := range []string{"refusing", "first", "second", "hanging"} {
			want[name] = "/heartbeat application/json {}"
		}
		if diff := cmp.Diff(want, heard); diff != "" {
			return fmt.Errorf("heard (-want +got):\n%s", diff)
		}
		return nil
	})
	h.Set("first", "")
	h.Set("second", "")
	short, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	request, err := http.NewRequestWithContext(short, http.MethodPost, "http://module-controller/heartbeat",
		strings.NewReader("{}"))
	check.Must(t, err)
	if response, err := h.RoundTrip(request); err == nil {
		_ = response.Body.Close()
		t.Error("a heartbeat that nobody takes was answered")
	}
}

// A controller may ask for a token in the path.
func TestATokenInThePath(t *testing.T) {
	h := New(nil)
	defer h.Wait()
	asked := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { asked <- r.URL.Path }))
	defer s.Close()
	h.Set("module-controller", strings.TrimPrefix(s.URL, "http://")+"/secret")
	response, err := (&http.Client{Transport: h, Timeout: patience}).Post("http://module-controller/heartbeat",
		"application/json", strings.NewReader("{}"))
	check.Must(t, err)
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	if got := <-asked; got != "/secret/heartbeat" {
		t.Errorf("posted to %s", got)
	}
}

// Bases of other processes post to an endpoint of their own network, which nobody finds by chance.
func TestFromOutside(t *testing.T) {
	h := New(nil)
	ctx, end := context.WithCancel(t.Context())
	defer func() { end(); h.Wait() }()
	var mu sync.Mutex
	var heard []string
	controller := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		heard = append(heard, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+string(body))
		mu.Unlock()
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "SUCCESS")
	}))
	defer controller.Close()
	h.Set("module-controller", strings.TrimPrefix(controller.URL, "http://"))
	endpoint, err := h.Open(ctx, "127.0.0.1")
	check.Must(t, err)
	check.Must(t, err)
	root := endpoint[:strings.LastIndex(endpoint, "/")]
	got := map[string]string{}
	for _, url := range []string{endpoint + "/heartbeat", endpoint + "/queryBaseline", endpoint + "/readyz",
		root + "/heartbeat", root + "/wrong/heartbeat"} {
		response, err := http.Post(url, "application/json", strings.NewReader("{}"))
		check.Must(t, err)
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			t.Error(err)
		}
		got[strings.Replace(strings.TrimPrefix(url, root), strings.TrimPrefix(endpoint, root), "/SECRET",
			1)] = fmt.Sprintf("%d %s", response.StatusCode, strings.TrimSpace(string(body)))
	}
	want := map[string]string{
		"/SECRET/heartbeat": "200 SUCCESS", "/SECRET/queryBaseline": "200 SUCCESS",
		"/SECRET/readyz": "404 404 page not found",
		"/heartbeat":     "404 404 page not found", "/wrong/heartbeat": "404 404 page not found",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"POST /heartbeat application/json {}", "POST /queryBaseline application/json {}"},
		heard); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
	h.Set("module-controller", "")
	response, err := http.Post(endpoint+"/heartbeat", "application/json", strings.NewReader("{}"))
	if err != nil || response.StatusCode != http.StatusBadGateway {
		t.Errorf("without a controller: %v, %v", response, err)
	}
	_ = response.Body.Close()
	end()
	h.listeners.Wait()
	if _, err := http.Post(endpoint+"/heartbeat", "application/json", strings.NewReader("{}")); err == nil {
		t.Error("the endpoint has outlived its sandbox")
	}
}

// Of answers that are not 200 the last counts, whatever else failed, and there is never an answer
// and an error.
func TestWhichAnswerCounts(t *testing.T) {
	answer := func(status int) outcome { return outcome{response: &http.Response{StatusCode: status}} }
	refused := outcome{err: errors.New("refused")}
	for name, tc := range map[string]struct {
		outcomes []outcome
		want     string
	}{
		"the first 200":             {[]outcome{answer(400), answer(200), answer(503)}, "200 <nil>"},
		"the last of others":        {[]outcome{answer(400), refused, answer(503)}, "503 <nil>"},
		"an answer before an error": {[]outcome{answer(400), refused}, "400 <nil>"},
		"the last error":            {[]outcome{{err: errors.New("reset")}, refused}, "0 refused"},
		"nobody":                    {nil, "0 no module controller receives heartbeats"},
	} {
		t.Run(name, func(t *testing.T) {
			outcomes := make(chan outcome, len(tc.outcomes))
			for _, o := range tc.outcomes {
				outcomes <- o
			}
			response, err := choose(t.Context(), outcomes)
			status := 0
			if response != nil {
				status = response.StatusCode
			}
			if got := fmt.Sprint(status, " ", err); got != tc.want {
				t.Errorf("got %q, want %q", got, tc.want)
			}
		})
	}
}

// An answer that breaks off is an error alone.
func TestAnAnswerThatBreaksOff(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "half")
	}))
	defer s.Close()
	h := New(nil)
	h.Set("module-controller", strings.TrimPrefix(s.URL, "http://"))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://module-controller/heartbeat",
		strings.NewReader("{}"))
	check.Must(t, err)
	response, err := h.RoundTrip(request)
	if response != nil || err == nil || !strings.Contains(err.Error(), "reading the answer to a heartbeat") {
		t.Errorf("got %v, %v", response, err)
	}
}
