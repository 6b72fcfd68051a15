package recording_test

import (
	"archive/zip"
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/iotest"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	mqtt "github.com/mochi-mqtt/server/v2"
	"github.com/mochi-mqtt/server/v2/packets"

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

// TestLoadErrors checks that the error of an unreadable recording contains the name of its file.
func TestLoadErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		dir     string // relative to the directory of the test
		prepare func(file string) error
		want    string
	}{
		"invalid directory": {"[", func(string) error { return nil }, "finding recordings in"},
		"directory instead of a file": {"", func(file string) error { return os.Mkdir(file, 0o700) },
			"reading a recording: read"},
		"invalid JSON": {"", func(file string) error { return os.WriteFile(file, []byte("{"), 0o600) },
			"decoding recording"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), tt.dir, "http", "one.json")
			if err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), tt.prepare(file)); err != nil {
				t.Fatal(err)
			}
			names, _, err := recording.Load(filepath.Dir(filepath.Dir(file)))
			want := file
			if tt.dir != "" {
				want = tt.dir
			}
			if err == nil || !strings.Contains(err.Error(), tt.want) || !strings.Contains(err.Error(), want) {
				t.Errorf("Load() = %q, %v; want the error %q with %s", names, err, tt.want, want)
			}
		})
	}
}

// TestSaveErrors checks that Save returns an error with the name of the file and the failed operation if it cannot
// create the directory or the file.
func TestSaveErrors(t *testing.T) {
	for name, tt := range map[string]struct {
		prepare   func(dir string) error
		operation string
	}{
		"file instead of the directory": {func(dir string) error {
			return os.WriteFile(filepath.Join(dir, "http"), nil, 0o600)
		}, "mkdir"},
		"directory instead of the file": {func(dir string) error {
			return os.MkdirAll(filepath.Join(dir, "http", "one.json"), 0o700)
		}, "open"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := tt.prepare(dir); err != nil {
				t.Fatal(err)
			}
			r := recording.Recording{Tunnel: recording.HTTP}
			want := "saving recording " + filepath.Join(dir, "http", "one.json") + ": " + tt.operation + " "
			if err := r.Save(dir, "one"); err == nil || !strings.HasPrefix(err.Error(), want) {
				t.Errorf("Save() = %v, want the error %q", err, want)
			}
		})
	}
}

func TestWriteJar(t *testing.T) {
	dir := t.TempDir()
	from, to := filepath.Join(dir, "from.jar"), filepath.Join(dir, "to.jar")
	var buf bytes.Buffer
	w := zip.NewWriter(&buf)
	for _, file := range []struct{ name, content string }{
		{"META-INF/MANIFEST.MF", "Manifest-Version: 1.0\r\nOld: yes\r\n"}, {"com/", ""}, {"com/A.class", "class A"},
	} {
		out, err := w.Create(file.name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(out, file.content); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(w.Close(), os.WriteFile(from, buf.Bytes(), 0o600)); err != nil {
		t.Fatal(err)
	}
	manifest := recording.Manifest{"Manifest-Version": "2.0", "B": strings.Repeat("b", 100), "A": "a"}
	if err := recording.WriteJar(to, manifest, from); err != nil {
		t.Fatal(err)
	}
	jar, err := zip.OpenReader(to)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = jar.Close() }()
	var got [][2]string
	for _, file := range jar.File {
		in, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
		got = append(got, [2]string{file.Name, string(content)})
	}
	want := [][2]string{
		{"META-INF/MANIFEST.MF", "Manifest-Version: 1.0\r\nA: a\r\nB: " + strings.Repeat("b", 67) + "\r\n " +
			strings.Repeat("b", 33) + "\r\n"},
		{"com/", ""}, {"com/A.class", "class A"},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("files of the jar (-want +got):\n%s", d)
	}
}

// TestWriteJarWithoutSource checks that WriteJar writes no file if it cannot read the jar to copy.
func TestWriteJarWithoutSource(t *testing.T) {
	to, missing := filepath.Join(t.TempDir(), "to.jar"), filepath.Join(t.TempDir(), "missing.jar")
	err := recording.WriteJar(to, recording.Manifest{}, missing)
	if !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "writing the jar "+to) {
		t.Errorf("WriteJar() = %v, want an error with %s", err, to)
	}
	if _, err := os.Stat(to); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("Stat(%s) = %v, want %v", to, err, os.ErrNotExist)
	}
}

// TestTapRecordsPackets checks the descriptions of MQTT packets, and that a Tap omits acknowledgements, pings and the
// packets of other clients.
func TestTapRecordsPackets(t *testing.T) {
	const topic = "koupleless_dev/b1/base/health"
	packet := func(kind byte, pk packets.Packet) packets.Packet {
		pk.FixedHeader.Type = kind
		return pk
	}
	for name, tt := range map[string]struct {
		client string
		packet packets.Packet
		want   []recording.Sent
	}{
		"connect": {"", packet(packets.Connect, packets.Packet{ProtocolVersion: 4, Connect: packets.ConnectParams{
			ClientIdentifier: "koupleless@@@b1", Keepalive: 60, Clean: true, WillFlag: true}}),
			[]recording.Sent{{What: "CONNECT koupleless@@@b1 level 4 keep alive 60 s, clean session, will"}}},
		"subscribe": {"koupleless@@@b1", packet(packets.Subscribe, packets.Packet{Filters: packets.Subscriptions{
			{Filter: "koupleless_dev/b1/+", Qos: 1}, {Filter: "other", Qos: 0}}}),
			[]recording.Sent{{What: "SUBSCRIBE + QoS 1"}, {What: "SUBSCRIBE other QoS 0"}}},
		"publish": {"koupleless@@@b1", packets.Packet{FixedHeader: packets.FixedHeader{Type: packets.Publish, Qos: 1},
			TopicName: topic, Payload: []byte(`{"port":7}`)},
			[]recording.Sent{{What: "PUBLISH base/health QoS 1", Payload: `{"port":1}`}}},
		"retained publish": {"koupleless@@@b1", packets.Packet{TopicName: topic,
			FixedHeader: packets.FixedHeader{Type: packets.Publish, Retain: true}},
			[]recording.Sent{{What: "PUBLISH base/health QoS 0, retained"}}},
		"disconnect": {"koupleless@@@b1", packet(packets.Disconnect, packets.Packet{}),
			[]recording.Sent{{What: "Disconnect"}}},
		"acknowledgement": {"koupleless@@@b1", packet(packets.Puback, packets.Packet{}), []recording.Sent{}},
		"ping":            {"koupleless@@@b1", packet(packets.Pingreq, packets.Packet{}), []recording.Sent{}},
		"other client":    {"koupleless@@@b2", packet(packets.Disconnect, packets.Packet{}), []recording.Sent{}},
	} {
		t.Run(name, func(t *testing.T) {
			tap := recording.NewTap()
			if _, err := tap.OnPacketRead(&mqtt.Client{ID: tt.client}, tt.packet); err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(tt.want, tap.Sent()); d != "" {
				t.Errorf("Sent() (-want +got):\n%s", d)
			}
		})
	}
}

// TestControllerRecordsReadErrors checks that the recording contains the error if a heartbeat cannot be read.
func TestControllerRecordsReadErrors(t *testing.T) {
	c := recording.Controller{Tap: recording.NewTap()}
	body := io.MultiReader(strings.NewReader("{"), iotest.ErrReader(errors.New("connection reset")))
	c.ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodPost, "/heartbeat", body))
	want := []recording.Sent{{What: "POST /heartbeat", Payload: "connection reset"}}
	if d := cmp.Diff(want, c.Tap.Sent()); d != "" {
		t.Errorf("Sent() (-want +got):\n%s", d)
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
