package daemon

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
)

func proxyTo(t *testing.T, addr string) func(*http.Request) (*url.URL, error) {
	t.Helper()
	u, err := url.Parse("http://" + addr)
	if err != nil {
		t.Fatal(err)
	}
	return http.ProxyURL(u)
}

// pids are the processes of the controllers that are ready.
func (b *bench) controllers() map[string]int {
	b.t.Helper()
	status, err := b.Status(b.t.Context(), false)
	if err != nil {
		b.t.Fatal(err)
	}
	pids := map[string]int{}
	for _, c := range status.Components {
		if strings.HasPrefix(c.Name, controllerName) && c.Ready {
			pids[c.Name] = c.PID
		}
	}
	return pids
}

func TestSetController(t *testing.T) {
	b := newBench(t)
	r := request("good", 1)
	two := 2
	r.Config.Spec.Controller.Replicas = &two
	b.up(r)
	first := b.controllers()
	if len(first) != 2 || first["module-controller-2"] == 0 {
		t.Fatalf("after the up there are %v", first)
	}
	set := func(r control.ControllerRequest) control.ControllerRequest {
		t.Helper()
		before, err := b.SetController(t.Context(), r)
		if err != nil {
			t.Fatal(err)
		}
		return before
	}
	if before := set(control.ControllerRequest{Replicas: 3}); before.Replicas != 0 || before.Env != nil {
		t.Errorf("before was %+v", before)
	}
	third := b.controllers()
	if len(third) != 3 || third["module-controller"] != first["module-controller"] || third["module-controller-2"] != first["module-controller-2"] {
		t.Errorf("of %v has become %v: those that differ in nothing go on", first, third)
	}
	if err := b.Act(t.Context(), "module-controller-3", control.Kill); err != nil {
		t.Error(err)
	}
	env := control.ControllerRequest{Replicas: 1, Env: map[string]string{"MODULE_DRAIN": "0s"}}
	if diff := cmp.Diff(control.ControllerRequest{Replicas: 3}, set(env)); diff != "" {
		t.Errorf("before (-want +got):\n%s", diff)
	}
	one := b.controllers()
	if len(one) != 1 || one["module-controller"] == first["module-controller"] {
		t.Errorf("with other variables there are %v, before %v", one, first)
	}
	if status, err := b.Status(t.Context(), false); err != nil || !status.Healthy {
		t.Errorf("a controller that is too many is missed: %+v, %v", status, err)
	}

	for want, r := range map[string]control.ControllerRequest{
		"must be between 1 and 9":   {Replicas: 99},
		"is set by the sandbox":     {Env: map[string]string{"MQTT_PORT": "1"}},
		"exit status 3":             {Env: map[string]string{roleVariable: "broken"}},
		"is not the name of an env": {Env: map[string]string{"a b": "1"}},
	} {
		if _, err := b.SetController(t.Context(), r); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v gave %v", r, err)
		}
		if got := b.controllers(); len(got) != 1 {
			t.Errorf("after %+v there are %v", r, got)
		}
	}
	if diff := cmp.Diff(env, set(control.ControllerRequest{})); diff != "" {
		t.Errorf("what failed was put back to (-want +got):\n%s", diff)
	}
	if last := b.controllers(); len(last) != 2 {
		t.Errorf("as the configuration says there are %v", last)
	}
}

// Each controller gets each heartbeat; one that is away or hangs keeps nobody.
func TestHearts(t *testing.T) {
	h := newHearts(nil)
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
	defer func() { close(hanging); h.wait() }() // before the servers wait for those that hang
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
	h.set("refusing", controller("refusing", func(w http.ResponseWriter) { http.Error(w, "no", http.StatusBadRequest) }))
	if status, err := beat(); err != nil || status != http.StatusBadRequest {
		t.Errorf("a refusal came as %d, %v", status, err)
	}
	fine := func(http.ResponseWriter) {}
	h.set("first", controller("first", fine))
	h.set("second", controller("second", fine))
	h.set("hanging", controller("hanging", func(http.ResponseWriter) { <-hanging }))
	h.set("away", "127.0.0.1:1")
	if status, err := beat(); err != nil || status != http.StatusOK {
		t.Errorf("a heartbeat gave %d, %v", status, err)
	}
	b := &bench{t: t}
	b.eventually(func() error {
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
	h.set("first", "")
	h.set("second", "")
	short, end := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer end()
	request, err := http.NewRequestWithContext(short, http.MethodPost, "http://module-controller/heartbeat", strings.NewReader("{}"))
	if err != nil {
		t.Fatal(err)
	}
	if response, err := h.RoundTrip(request); err == nil {
		_ = response.Body.Close()
		t.Error("a heartbeat that nobody takes was answered")
	}
}

// Bases of other processes post to an endpoint of their own network, which nobody finds by chance.
func TestHeartsFromOutside(t *testing.T) {
	h := newHearts(nil)
	ctx, end := context.WithCancel(t.Context())
	defer func() { end(); h.wait() }()
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
	h.set("module-controller", strings.TrimPrefix(controller.URL, "http://"))
	endpoint, err := h.open(ctx, loopback)
	if err != nil {
		t.Fatal(err)
	}
	if again, err := h.open(ctx, loopback); again != endpoint || err != nil {
		t.Errorf("asked again, the endpoint is %s (%v), was %s", again, err, endpoint)
	}
	root := endpoint[:strings.LastIndex(endpoint, "/")]
	got := map[string]string{}
	for _, url := range []string{endpoint + "/heartbeat", endpoint + "/queryBaseline", endpoint + "/readyz", root + "/heartbeat", root + "/wrong/heartbeat"} {
		response, err := http.Post(url, "application/json", strings.NewReader("{}"))
		if err != nil {
			t.Fatal(err)
		}
		body, err := io.ReadAll(response.Body)
		if err := errors.Join(err, response.Body.Close()); err != nil {
			t.Error(err)
		}
		got[strings.Replace(strings.TrimPrefix(url, root), strings.TrimPrefix(endpoint, root), "/SECRET", 1)] = fmt.Sprintf("%d %s", response.StatusCode, strings.TrimSpace(string(body)))
	}
	want := map[string]string{
		"/SECRET/heartbeat": "200 SUCCESS", "/SECRET/queryBaseline": "200 SUCCESS", "/SECRET/readyz": "404 404 page not found",
		"/heartbeat": "404 404 page not found", "/wrong/heartbeat": "404 404 page not found",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"POST /heartbeat application/json {}", "POST /queryBaseline application/json {}"}, heard); diff != "" {
		t.Errorf("heard (-want +got):\n%s", diff)
	}
	h.set("module-controller", "")
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
