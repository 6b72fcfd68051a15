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

const testTimeout = check.WaitTimeout

// TestRelayForwardsToAllControllers checks that the relay responds to a heartbeat without delay while one controller
// is unreachable and another controller does not respond.
func TestRelayForwardsToAllControllers(t *testing.T) {
	h := New(nil)
	var mu sync.Mutex
	received := map[string]string{}
	hanging := make(chan struct{})
	controller := func(name string, respond func(w http.ResponseWriter)) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			body, err := io.ReadAll(r.Body)
			if err != nil {
				t.Error(err)
			}
			mu.Lock()
			received[name] = fmt.Sprintf("%s %s %s", r.URL.Path, r.Header.Get("Content-Type"), body)
			mu.Unlock()
			respond(w)
		}))
		t.Cleanup(s.Close)
		return strings.TrimPrefix(s.URL, "http://")
	}
	defer func() { close(hanging); h.Wait() }() // before the servers are closed, which waits for their requests
	sendHeartbeat := func() (int, error) {
		client := &http.Client{Transport: h, Timeout: testTimeout}
		response, err := client.Post("http://module-controller/heartbeat", "application/json", strings.NewReader("{}"))
		if err != nil {
			return 0, err
		}
		return response.StatusCode, response.Body.Close()
	}
	if _, err := sendHeartbeat(); err == nil {
		t.Error("RoundTrip without a controller succeeded, want an error")
	}
	h.SetAddr("refusing", controller("refusing",
		func(w http.ResponseWriter) { http.Error(w, "no", http.StatusBadRequest) }))
	if status, err := sendHeartbeat(); err != nil || status != http.StatusBadRequest {
		t.Errorf("status = %d, error = %v; want 400", status, err)
	}
	ok := func(http.ResponseWriter) {}
	h.SetAddr("first", controller("first", ok))
	h.SetAddr("second", controller("second", ok))
	h.SetAddr("hanging", controller("hanging", func(http.ResponseWriter) { <-hanging }))
	h.SetAddr("unreachable", "127.0.0.1:1")
	if status, err := sendHeartbeat(); err != nil || status != http.StatusOK {
		t.Errorf("status = %d, error = %v; want 200", status, err)
	}
	check.Eventually(t, testTimeout, func() error {
		mu.Lock()
		defer mu.Unlock()
		want := map[string]string{}
		for _, name := range []string{"refusing", "first", "second", "hanging"} {
			want[name] = "/heartbeat application/json {}"
		}
		if diff := cmp.Diff(want, received); diff != "" {
			return fmt.Errorf("received requests (-want +got):\n%s", diff)
		}
		return nil
	})
	h.SetAddr("first", "")
	h.SetAddr("second", "")
	short, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	request, err := http.NewRequestWithContext(short, http.MethodPost, "http://module-controller/heartbeat",
		strings.NewReader("{}"))
	check.Must(t, err)
	if response, err := h.RoundTrip(request); err == nil {
		_ = response.Body.Close()
		t.Error("RoundTrip succeeded although no controller responds, want an error")
	}
}

func TestControllerAddressWithToken(t *testing.T) {
	h := New(nil)
	defer h.Wait()
	paths := make(chan string, 1)
	s := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { paths <- r.URL.Path }))
	defer s.Close()
	h.SetAddr("module-controller", strings.TrimPrefix(s.URL, "http://")+"/secret")
	response, err := (&http.Client{Transport: h, Timeout: testTimeout}).Post("http://module-controller/heartbeat",
		"application/json", strings.NewReader("{}"))
	check.Must(t, err)
	if err := response.Body.Close(); err != nil {
		t.Error(err)
	}
	if got := <-paths; got != "/secret/heartbeat" {
		t.Errorf("path = %q, want /secret/heartbeat", got)
	}
}

// TestOpen checks that bases in other processes can send heartbeats to the endpoint only with the secret path.
func TestOpen(t *testing.T) {
	h := New(nil)
	ctx, end := context.WithCancel(t.Context())
	defer func() { end(); h.Wait() }()
	var mu sync.Mutex
	var received []string
	controller := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err != nil {
			t.Error(err)
		}
		mu.Lock()
		received = append(received, r.Method+" "+r.URL.Path+" "+r.Header.Get("Content-Type")+" "+string(body))
		mu.Unlock()
		w.Header().Set("Content-Type", "text/plain")
		_, _ = io.WriteString(w, "SUCCESS")
	}))
	defer controller.Close()
	h.SetAddr("module-controller", strings.TrimPrefix(controller.URL, "http://"))
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
		t.Errorf("responses (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"POST /heartbeat application/json {}", "POST /queryBaseline application/json {}"},
		received); diff != "" {
		t.Errorf("received requests (-want +got):\n%s", diff)
	}
	h.SetAddr("module-controller", "")
	response, err := http.Post(endpoint+"/heartbeat", "application/json", strings.NewReader("{}"))
	if err != nil || response.StatusCode != http.StatusBadGateway {
		t.Errorf("response without a controller = %v, error = %v; want 502", response, err)
	}
	_ = response.Body.Close()
	end()
	h.listeners.Wait()
	if _, err := http.Post(endpoint+"/heartbeat", "application/json", strings.NewReader("{}")); err == nil {
		t.Error("endpoint is still open after the end of the context")
	}
}

// TestFirstOK checks the result of firstOK if no controller responds with status 200: the last response, or the last
// error if there is no response, but never both.
func TestFirstOK(t *testing.T) {
	response := func(status int) postResult { return postResult{response: &http.Response{StatusCode: status}} }
	refused := postResult{err: errors.New("refused")}
	for name, tc := range map[string]struct {
		results []postResult
		want    string
	}{
		"first 200":             {[]postResult{response(400), response(200), response(503)}, "200 <nil>"},
		"last response":         {[]postResult{response(400), refused, response(503)}, "503 <nil>"},
		"response and an error": {[]postResult{response(400), refused}, "400 <nil>"},
		"last error":            {[]postResult{{err: errors.New("reset")}, refused}, "0 refused"},
		"no controller":         {nil, "0 no module controller receives heartbeats"},
	} {
		t.Run(name, func(t *testing.T) {
			results := make(chan postResult, len(tc.results))
			for _, o := range tc.results {
				results <- o
			}
			got, err := firstOK(t.Context(), results)
			status := 0
			if got != nil {
				status = got.StatusCode
			}
			if text := fmt.Sprint(status, " ", err); text != tc.want {
				t.Errorf("status and error = %q, want %q", text, tc.want)
			}
		})
	}
}

func TestIncompleteResponseIsAnError(t *testing.T) {
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "10")
		_, _ = io.WriteString(w, "half")
	}))
	defer s.Close()
	h := New(nil)
	h.SetAddr("module-controller", strings.TrimPrefix(s.URL, "http://"))
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "http://module-controller/heartbeat",
		strings.NewReader("{}"))
	check.Must(t, err)
	response, err := h.RoundTrip(request)
	if response != nil || err == nil || !strings.Contains(err.Error(), "reading the response to a heartbeat") {
		t.Errorf("response = %v, error = %v; want only an error", response, err)
	}
}
