package fakebase

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// webFixture consists of a base without tunnels, the address of its listener for module traffic, and an HTTP client
// without keep-alive.
type webFixture struct {
	t      *testing.T
	b      *Base
	addr   string
	client *http.Client
}

func newWebFixture(t *testing.T, opts Options) *webFixture {
	t.Helper()
	if opts.Catalogue == nil {
		opts.Catalogue = &Catalogue{Fetch: FetchNever}
	}
	opts.Identity, opts.HostName = "b1", "base-1"
	b := start(t, opts)
	waitForStatus(t, b, func(s Status) bool { return s.Running })
	addr, err := b.WebAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return &webFixture{t, b, addr,
		&http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 20 * time.Second}}
}

// waitForStatus waits until the status of the base fulfils a condition.
func waitForStatus(t *testing.T, b *Base, condition func(Status) bool) {
	t.Helper()
	deadline := time.After(time.Minute)
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	for !condition(b.Status()) {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("timeout waiting for a status; last status = %+v", b.Status())
		}
	}
}

func (r *webFixture) incarnation() *incarnation {
	r.b.mu.Lock()
	defer r.b.mu.Unlock()
	return r.b.current
}

// install executes installBiz directly, without a tunnel.
func (r *webFixture) install(version string) commandResult {
	req := bizRequest{BizName: jsonString{"biz1", true}, BizVersion: jsonString{version, true},
		BizURL: jsonString{"http://h/x.jar", true}}
	return r.incarnation().installCommand(&req)
}

func (r *webFixture) uninstall(version string) commandResult {
	req := bizRequest{BizName: jsonString{"biz1", true}, BizVersion: jsonString{version, true}}
	return r.incarnation().uninstallCommand(&req)
}

func (r *webFixture) get(path string) (int, string, error) {
	resp, err := r.client.Get("http://" + r.addr + path)
	if err != nil {
		return 0, "", err
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	return resp.StatusCode, string(body), err
}

// expect compares a response with the expected status and body. body is the complete body if it is JSON, otherwise a
// part of the body.
func (r *webFixture) expect(path string, status int, body string) {
	r.t.Helper()
	gotStatus, gotBody, err := r.get(path)
	if err != nil {
		r.t.Errorf("GET %s: %v", path, err)
		return
	}
	if !strings.HasPrefix(body, "{") && strings.Contains(gotBody, body) {
		gotBody = body
	}
	if d := cmp.Diff(fmt.Sprint(status, " ", body), fmt.Sprint(gotStatus, " ", gotBody)); d != "" {
		r.t.Errorf("GET %s (-want +got):\n%s", path, d)
	}
}

func TestModuleTraffic(t *testing.T) {
	r := newWebFixture(t, Options{Activation: ActivateNewModule})
	r.expect("/biz1/hello", 404, "/biz1")
	r.install("1")
	r.expect("/biz1/hello", 200, `{"base":"b1","hostName":"base-1","biz":"biz1","version":"1","request":1}`)
	r.install("2")
	r.expect("/biz1", 200, `{"base":"b1","hostName":"base-1","biz":"biz1","version":"2","request":2}`)
	r.uninstall("1")
	r.expect("/biz1/a/b?x=1", 200, `{"base":"b1","hostName":"base-1","biz":"biz1","version":"2","request":3}`)
	r.expect("/biz1?duration=1ms", 200, `{"base":"b1","hostName":"base-1","biz":"biz1","version":"2","request":4}`)
	r.expect("/biz1?duration=long", 400, "duration")
	r.uninstall("2")
	r.expect("/biz1/hello", 404, "/biz1")
}

func TestRootModuleServesOtherPaths(t *testing.T) {
	r := newWebFixture(t, Options{
		Catalogue: &Catalogue{Fetch: FetchNever, Modules: []Module{{Name: "biz1", WebContextPath: "/"}}}})
	r.install("1")
	r.expect("/anything", 200, `{"base":"b1","hostName":"base-1","biz":"biz1","version":"1","request":1}`)
}

func TestStartingBaseRejectsTraffic(t *testing.T) {
	r := newWebFixture(t, Options{StartupTime: time.Hour})
	r.install("1")
	r.expect("/biz1", 503, `{"error":"the base is starting"}`)
}

// startRequest sends a request, and waits until the module is processing the request. The returned channel receives
// the result.
func (r *webFixture) startRequest() <-chan error {
	done := make(chan error, 1)
	go func() {
		_, _, err := r.get("/biz1")
		done <- err
	}()
	waitForStatus(r.t, r.b, func(s Status) bool {
		select {
		case err := <-done:
			r.t.Fatalf("request completed too early: %v", err)
		default:
		}
		return s.Requests == 1
	})
	return done
}

// isReset reports whether an error means that the peer closed the connection.
func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF)
}

func TestUninstallAbortsRequests(t *testing.T) {
	r := newWebFixture(t, Options{Web: &WebOptions{RequestDuration: time.Hour}})
	r.install("1")
	done := r.startRequest()
	r.uninstall("1")
	if err := <-done; !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("error of the request = %v, want a reset", err)
	}
}

func TestSwitchDoesNotAbortRequests(t *testing.T) {
	r := newWebFixture(t, Options{Activation: ActivateNewModule,
		Web: &WebOptions{RequestDuration: 50 * time.Millisecond}})
	r.install("1")
	done := make(chan string, 1)
	go func() {
		_, body, err := r.get("/biz1")
		done <- fmt.Sprint(body, err)
	}()
	waitForStatus(t, r.b, func(s Status) bool { return s.Requests == 1 })
	r.install("2")
	if got, want := <-done, `{"base":"b1","hostName":"base-1","biz":"biz1","version":"1","request":1}<nil>`; got != want {
		t.Errorf("response = %s, want %s", got, want)
	}
}

func TestCrashAbortsRequestsAndRestartKeepsAddress(t *testing.T) {
	r := newWebFixture(t, Options{Web: &WebOptions{RequestDuration: time.Hour}})
	r.install("1")
	done := r.startRequest()
	r.b.Crash()
	if err := <-done; !isReset(err) {
		t.Errorf("error of the request = %v, want a reset", err)
	}
	waitForStatus(t, r.b, func(s Status) bool {
		_, _, err := r.get("/biz1")
		return !s.Running && errors.Is(err, syscall.ECONNREFUSED)
	})
	if err := r.b.Restart(""); err != nil {
		t.Fatal(err)
	}
	waitForStatus(t, r.b, func(s Status) bool { return s.Ready })
	r.expect("/biz1", 404, "/biz1")
}

func TestWebRefuse(t *testing.T) {
	r := newWebFixture(t, Options{})
	id := inject(t, r.b, fault.Fault{Kind: fault.KindWebRefuse})
	if _, _, err := r.get("/actuator/health"); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("error during the fault = %v, want connection refused", err)
	}
	r.b.Clear(id)
	if status, _, err := r.get("/actuator/health"); err != nil || status != 200 {
		t.Errorf("status after the fault = %d, error = %v", status, err)
	}
}

func TestWebAddrBeforeStart(t *testing.T) {
	b, err := New(Options{Identity: "b1"})
	if err != nil {
		t.Fatal(err)
	}
	addr, err := b.WebAddr(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	if conn, err := net.Dial("tcp", addr); err == nil {
		_ = conn.Close()
		t.Error("listener is open before Start")
	}
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- b.Start(ctx) }()
	waitForStatus(t, b, func(s Status) bool {
		resp, err := http.Get("http://" + addr + "/actuator/health")
		if err != nil {
			return false
		}
		_ = resp.Body.Close()
		return resp.StatusCode == 200 && s.WebAddr == addr
	})
	cancel()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestActuatorDocuments(t *testing.T) {
	disk := `"diskSpace":{"status":"UP","details":{"total":494384795648,"free":272435396608,"threshold":10485760,"exists":true}}`
	figures := `"total":494384795648,"free":272435396608,"threshold":10485760,"path":"/app/.","exists":true`
	nested := `"diskSpace":{"details":{` + figures + `},"status":{"status":"UP"}}`
	tests := []struct {
		name   string
		opts   Options
		faults []fault.Fault
		path   string
		status int
		want   string
	}{
		{
			name: "health", path: "/actuator/health", status: 200,
			want: `{"status":"UP","components":{"arkBizAggregate":{"status":"UP","details":{"biz1:1":{"status":"UP","details":{` + disk + `,"pingHe":{"status":"UP","details":{}}}}}},"masterBizStartUp":{"status":"UP","details":{"base:1.0.0":{"status":"UP"},"biz1:1":{"status":"UP"}}}}}`,
		}, {
			name: "health of a faithful base", opts: Options{Faithful: true}, path: "/actuator/health", status: 200,
			want: `{"status":"UP","components":{"baseStartUp":{"status":"UP","details":{"base:1.0.0":{"status":"UP"},"biz1:1":{"status":"UP"}}},"compositeAllBiz":{"status":"UP","details":{"biz1:1":{"status":"UP","details":{` + nested + `,"pingHe":{"details":{},"status":{"status":"UP"}}}}}},"diskSpace":{"status":"UP","details":{` + figures + `}},"livenessState":{"status":"UP"},"ping":{"status":"UP"},"readinessState":{"status":"UP"}},"groups":["liveness","readiness"]}`,
		}, {
			name: "liveness", path: "/actuator/health/liveness", status: 200, want: `{"status":"UP"}`,
		}, {
			name:   "readiness without modules",
			faults: []fault.Fault{{Kind: fault.KindActuatorDown, Match: fault.Match{Biz: "biz1"}}},
			path:   "/actuator/health/readiness", status: 200, want: `{"status":"UP"}`,
		}, {
			name: "module down", faults: []fault.Fault{{Kind: fault.KindActuatorDown, Match: fault.Match{Biz: "biz1"}}},
			path: "/actuator/health", status: 503,
			want: `{"status":"DOWN","components":{"arkBizAggregate":{"status":"DOWN","details":{"biz1:1":{"status":"DOWN","details":{` + disk + `,"pingHe":{"status":"DOWN","details":{}}}}}},"masterBizStartUp":{"status":"UP","details":{"base:1.0.0":{"status":"UP"},"biz1:1":{"status":"UP"}}}}}`,
		}, {
			name: "base down", faults: []fault.Fault{{Kind: fault.KindActuatorDown}}, path: "/actuator/health",
			status: 503,
			want:   `{"status":"DOWN","components":{"arkBizAggregate":{"status":"UP","details":{"biz1:1":{"status":"UP","details":{` + disk + `,"pingHe":{"status":"UP","details":{}}}}}},"diskSpace":{"status":"DOWN","details":{"total":494384795648,"free":272435396608,"threshold":10485760,"exists":true}},"masterBizStartUp":{"status":"UP","details":{"base:1.0.0":{"status":"UP"},"biz1:1":{"status":"UP"}}}}}`,
		}, {
			name: "one module", path: "/biz1/actuator/health", status: 200,
			want: `{"status":"UP","components":{` + disk + `,"ping":{"status":"UP"}}}`,
		}, {
			name: "one module, path of the documentation", path: "/biz1/actuator/info", status: 200,
			want: `{"status":"UP","components":{` + disk + `,"ping":{"status":"UP"}}}`,
		}, {
			name:   "one module down",
			faults: []fault.Fault{{Kind: fault.KindActuatorDown, Match: fault.Match{Biz: "biz1"}}},
			path:   "/biz1/actuator/health", status: 503,
			want: `{"status":"DOWN","components":{` + disk + `,"ping":{"status":"DOWN"}}}`,
		}, {
			name: "info", path: "/actuator/info", status: 200,
			want: `{"arkBizInfo":[{"bizName":"biz1","bizState":"ACTIVATED","bizVersion":"1","webContextPath":"biz1"},{"bizName":"base","bizState":"ACTIVATED","bizVersion":"1.0.0","webContextPath":"/"}],"arkPluginInfo":[{"artifactId":"koupleless-base-plugin","groupId":"com.alipay.sofa.koupleless","pluginActivator":"com.alipay.sofa.koupleless.plugin.ServerlessRuntimeActivator","pluginName":"koupleless-base-plugin","pluginUrl":"file:/app/lib/koupleless-base-plugin-2.1.11.jar!/","pluginVersion":"2.1.11"}]}`,
		},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			tt.opts.Faults = tt.faults
			r := newWebFixture(t, tt.opts)
			r.install("1")
			r.expect(tt.path, tt.status, tt.want)
			r.expect("/biz2/actuator/health", 404, "/biz2")
		})
	}
}

func TestHealthWhileStarting(t *testing.T) {
	r := newWebFixture(t, Options{StartupTime: time.Hour})
	status, body, err := r.get("/actuator/health")
	var doc healthDoc
	if err != nil || status != 200 || json.Unmarshal([]byte(body), &doc) != nil || doc.Status != statusUnknown {
		t.Errorf("response = %d %s, error = %v; want 200 UNKNOWN", status, body, err)
	}
	r.expect("/actuator/health/liveness", 200, `{"status":"UP"}`)
	r.expect("/actuator/health/readiness", 503, `{"status":"OUT_OF_SERVICE"}`)
}
