package fakebase

import (
	"encoding/json"
	"io"
	"maps"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

// currentProcess returns the process of a base that has started.
func currentProcess(b *Base) *incarnation {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.current
}

// TestBizModelVersion checks that a base of generation D rejects an uninstallation for another Pod than the one for
// which the module was installed, and that bases of generation C ignore the Pod (protocol 4.10).
func TestBizModelVersion(t *testing.T) {
	forPod := func(pod string) *bizRequest {
		r := request("1")
		r.BizModelVersion = jsonString{pod, pod != ""}
		return r
	}
	for _, tt := range []struct {
		name               string
		generation         Generation
		install, uninstall string
		rejected           bool
	}{
		{"same Pod", GenerationD, "default/a", "default/a", false},
		{"another Pod", GenerationD, "default/a", "default/b", true},
		{"uninstallation without a Pod", GenerationD, "default/a", "", false},
		{"installation without a Pod", GenerationD, "", "default/b", false},
		{"generation C", GenerationC, "default/a", "default/b", false},
	} {
		runInBubble(t, tt.name, func(t *testing.T) {
			b := start(t, Options{Identity: "b1", Generation: tt.generation})
			synctest.Wait()
			l := currentProcess(b)
			if out := l.installCommand(forPod(tt.install)); out.failed || out.exception != nil {
				t.Fatalf("install: %+v", out)
			}
			out := l.uninstallCommand(forPod(tt.uninstall))
			if out.failed != tt.rejected || len(b.Status().Biz) == 1 != tt.rejected {
				t.Fatalf("uninstall: %+v, modules %+v; want rejected = %t", out, b.Status().Biz, tt.rejected)
			}
			if again := l.uninstallCommand(forPod(tt.install)); tt.rejected && again.failed {
				t.Errorf("uninstall for the installing Pod: %+v", again)
			}
		})
	}
}

// TestBizModelVersionInResponse checks that a base of generation D returns the bizModelVersion of a command over MQTT.
func TestBizModelVersionInResponse(t *testing.T) {
	for generation, want := range map[Generation]string{GenerationC: "", GenerationD: "default/a"} {
		runInBubble(t, string(generation), func(t *testing.T) {
			w := newTestBroker(t)
			start(t, Options{Identity: "b1", Generation: generation, MQTT: &MQTTOptions{Dial: w.dial}})
			w.next("/heart")
			w.send("koupleless_dev/b1/installBiz",
				`{"bizName":"biz1","bizVersion":"1","bizUrl":"http://h/x.jar","bizModelVersion":"default/a"}`)
			var answer struct {
				Data struct{ BizModelVersion string }
			}
			if err := json.Unmarshal(w.next("/bizOperation"), &answer); err != nil {
				t.Fatal(err)
			}
			if got := answer.Data.BizModelVersion; got != want {
				t.Errorf("bizModelVersion %q, want %q", got, want)
			}
		})
	}
}

// TestLabelsInHeartbeat checks that a base reports its labels in its heartbeats, and sends no labels by default.
func TestLabelsInHeartbeat(t *testing.T) {
	for _, labels := range []map[string]string{nil, {"rack": "7"}} {
		runInBubble(t, strings.Join(slices.Sorted(maps.Keys(labels)), ","), func(t *testing.T) {
			w := newTestBroker(t)
			start(t, Options{Identity: "b1", Labels: labels, MQTT: &MQTTOptions{Dial: w.dial}})
			var heartbeat struct {
				Data struct{ BaseMetadata map[string]any }
			}
			if err := json.Unmarshal(w.next("/heart"), &heartbeat); err != nil {
				t.Fatal(err)
			}
			reported, sent := heartbeat.Data.BaseMetadata["labels"].(map[string]any)
			if sent != (labels != nil) || sent && reported["rack"] != "7" {
				t.Errorf("metadata %v, want labels %v", heartbeat.Data.BaseMetadata, labels)
			}
		})
	}
}

// get sends a request to the web port of a base, without a connection.
func get(b *Base, path string) (status int, body string) {
	recorder := httptest.NewRecorder()
	b.web.ServeHTTP(recorder, httptest.NewRequest(http.MethodGet, path, nil))
	text, _ := io.ReadAll(recorder.Result().Body)
	return recorder.Code, strings.TrimSpace(string(text))
}

// TestReadinessDuringOperations checks that modules change the readiness of a base only with WithAllBizReadiness: the
// base then refuses traffic while a module starts and stops, and after a module has failed to start, until another
// module has started. The uninstallation of an unknown module does not change the readiness. The base waits
// SilenceBeforeUninstall before it uninstalls a module.
func TestReadinessDuringOperations(t *testing.T) {
	tenSeconds := Delay{Min: Duration(10 * time.Second)}
	for _, withAll := range []bool{false, true} {
		runInBubble(t, map[bool]string{false: "default", true: "withAllBizReadiness"}[withAll], func(t *testing.T) {
			b := start(t, Options{Identity: "b1", WithAllBizReadiness: withAll,
				SilenceBeforeUninstall: 20 * time.Second,
				Catalogue:              &Catalogue{InstallTime: tenSeconds, UninstallTime: tenSeconds}})
			synctest.Wait()
			l := currentProcess(b)
			var got []int
			after := func(d time.Duration) {
				sleep(d)
				synctest.Wait()
				status, _ := get(b, "/actuator/health/readiness")
				got = append(got, status)
			}
			l.spawn(func() { l.installCommand(request("1")) })
			after(time.Second)
			after(10 * time.Second)
			l.spawn(func() { l.uninstallCommand(request("1")) })
			after(time.Second)
			if len(b.Status().Biz) != 1 {
				t.Error("the module was uninstalled without a silence")
			}
			after(21 * time.Second)
			after(10 * time.Second)
			l.uninstallCommand(request("1")) // no module and no waiting period
			after(0)
			busy := http.StatusOK
			if withAll {
				busy = http.StatusServiceUnavailable
			}
			if want := []int{busy, 200, busy, busy, 200, 200}; !slices.Equal(got, want) {
				t.Errorf("readiness %v, want %v", got, want)
			}
		})
	}
}

// TestActuatorSettings checks which endpoints and which parts of the health a base exposes.
func TestActuatorSettings(t *testing.T) {
	for _, tt := range []struct {
		name, path string
		settings   ActuatorOptions
		status     int
		want       string
	}{
		{"status only", "/actuator/health", ActuatorOptions{Show: ShowStatus}, 200, `{"status":"UP"}`},
		{"components", "/actuator/health", ActuatorOptions{Show: ShowComponents}, 200,
			`{"status":"UP","components":{"arkBizAggregate":{"status":"UP"},"masterBizStartUp":{"status":"UP"}}}`},
		{"info is not exposed", "/actuator/info", ActuatorOptions{Expose: []string{"health"}}, 404,
			"404 page not found"},
		{"health is exposed", "/actuator/health", ActuatorOptions{Expose: []string{"health"}, Show: ShowStatus}, 200,
			`{"status":"UP"}`},
	} {
		runInBubble(t, tt.name, func(t *testing.T) {
			b := start(t, Options{Identity: "b1", Actuator: tt.settings})
			synctest.Wait()
			if status, body := get(b, tt.path); status != tt.status || body != tt.want {
				t.Errorf("%d %s, want %d %s", status, body, tt.status, tt.want)
			}
		})
	}
}

// TestWebByDefault checks that modules that the catalogue does not describe are web applications if Catalogue.Web is
// set: the second version with the same context path fails as on a real base.
func TestWebByDefault(t *testing.T) {
	for _, web := range []bool{false, true} {
		runInBubble(t, map[bool]string{false: "default", true: "web"}[web], func(t *testing.T) {
			b := start(t, Options{Identity: "b1", Catalogue: &Catalogue{Web: web}})
			synctest.Wait()
			l := currentProcess(b)
			l.installCommand(request("1"))
			out := l.installCommand(request("2"))
			if (out.exception != nil) != web || len(b.Status().Biz) == 1 != web {
				t.Fatalf("second version: %+v, modules %+v", out, b.Status().Biz)
			}
			if web && !strings.Contains(strings.Join(out.exception.causes, "\n"), "Child name [biz1] is not unique") {
				t.Errorf("causes %q", out.exception.causes)
			}
		})
	}
}
