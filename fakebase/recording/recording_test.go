package recording_test

import (
	"context"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/recording"
)

func TestNormalize(t *testing.T) {
	for _, c := range []struct{ name, in, want string }{
		{"times", `{"publishTimestamp":1732096800000,"endTimestamp":0}`, `{"publishTimestamp":1,"endTimestamp":0}`},
		{"sizes", `{"elapsedSpace":-12,"java max metaspace":268435456,"free (%)":-1.2E-7}`,
			`{"elapsedSpace":1,"java max metaspace":1,"free (%)":1}`},
		{"durations", `cost: 812 ms, started at: 10:15:30,123`, `cost: 1 ms, started at: 00:00:00,000`},
		{"directories", `"/tmp/sofa-ark/plain-1.0.0-20261120150439221-unpack"`, `"{temp}/plain-1.0.0-1-unpack"`},
		{"stack frames as JSON", `{"message":"m","stackTrace":[{"className":"a"},{"className":"b"}]}`,
			`{"message":"m","stackTrace":[]}`},
		{"disk", `{"total":5,"free":4,"threshold":3,"path":"/home/x/.","exists":true}`,
			`{"total":1,"free":1,"threshold":1,"path":"","exists":true}`},
		{"actuator metrics", `{"metrics":{"timestamp":"2026-11-21","a":{"b":1},"gcmetrics":{"c":2}}}`,
			`{"metrics":{}}`},
		{"stack frames without causes",
			`"a.E: \"x\"\n\tat a.b(C.java:1)\n\tat c.d(E.java)\nCaused by: a.F\n\t... 3 more\n"`,
			`"a.E: \"x\"\nCaused by: a.F\n"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			if d := cmp.Diff(c.want, recording.Normalize(c.in)); d != "" {
				t.Errorf("Normalize() (-want +got):\n%s", d)
			}
		})
	}
}

func TestSaveAndLoad(t *testing.T) {
	dir := t.TempDir()
	want := recording.Recording{
		Condition: "c", Tunnel: recording.MQTT, Base: recording.Settings{Activation: "new"},
		Jars: map[string]recording.Manifest{"x.jar": {"Ark-Biz-Name": "x"}, "no.jar": nil},
		Exchanges: []recording.Exchange{
			{Command: "health", Body: "<{}>", Messages: []recording.Message{{Topic: "base/health", Payload: "{}"}}}},
		Phases: []recording.Phase{{Event: recording.Kill, Seconds: 3, Sent: []recording.Sent{}}},
	}
	if err := want.Save(dir, "one"); err != nil {
		t.Fatal(err)
	}
	names, all, err := recording.Load(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(map[string]recording.Recording{"mqtt/one": want}, all); d != "" || len(names) != 1 {
		t.Errorf("names = %v; recordings (-want +got):\n%s", names, d)
	}
}

func TestController(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := recording.Controller{Tap: recording.NewTap()}
		first := c.Tap.Reset()
		sendHeartbeat := func(mode recording.Event) *httptest.ResponseRecorder {
			c.Set(mode)
			ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
			defer cancel()
			r := httptest.NewRequestWithContext(ctx, http.MethodPost, "/heartbeat", strings.NewReader(`{"port":7}`))
			r.Header.Set("Content-Type", "application/json")
			w := httptest.NewRecorder()
			c.ServeHTTP(w, r)
			return w
		}
		if w := sendHeartbeat(recording.ControllerReturns); w.Code != 200 || w.Body.String() != "SUCCESS" {
			t.Errorf("response = %d %s, want 200 SUCCESS", w.Code, w.Body)
		}
		<-first
		if w := sendHeartbeat(recording.ControllerFails); w.Code != 500 {
			t.Errorf("status = %d, want 500", w.Code)
		}
		begun := time.Now()
		if w := sendHeartbeat(recording.ControllerHangs); w.Body.Len() > 0 || time.Since(begun) != 10*time.Second {
			t.Errorf("response = %q after %s, want none for 10s", w.Body, time.Since(begun))
		}
		want := recording.Sent{What: "POST /heartbeat application/json", Payload: `{"port":1}`}
		if d := cmp.Diff([]recording.Sent{want, want, want}, c.Tap.Sent()); d != "" {
			t.Errorf("Sent() (-want +got):\n%s", d)
		}
	})
}
