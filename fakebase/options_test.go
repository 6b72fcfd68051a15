package fakebase

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

func TestNewReportsAllErrors(t *testing.T) {
	_, err := New(Options{
		Identity: "a/b", Env: "x+", Generation: "E", Activation: 9, StartupTime: -1, HeartbeatJitter: -1,
		MQTT:      &MQTTOptions{Broker: "broker:1883"},
		HTTP:      &HTTPOptions{HeartbeatEndpoint: "controller:7777"},
		Metaspace: Metaspace{Used: 10, Max: 5, Leak: 2, Threshold: 101},
		Faults:    []fault.Fault{{Kind: "gremlin"}},
	})
	if err == nil {
		t.Fatal("New() accepted invalid options")
	}
	for _, want := range []string{
		`Identity "a/b"`, `Env "x+"`, `Generation "E"`, "Activation 9", "A, B, C or D", "StartupTime -1ns",
		"HeartbeatJitter -1ns",
		`MQTT.Broker "broker:1883"`, "tcp://host:port", "ssl://host:port", `HTTP.HeartbeatEndpoint "controller:7777"`,
		"http://host:port",
		"Metaspace.Used 10", "Metaspace.Max, which is 5", "Metaspace.Leak 2", "Metaspace.Threshold 101",
		`Faults[0]: kind "gremlin"`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error does not have the text %q:\n%v", want, err)
		}
	}
	for broker, want := range map[string]string{
		"":                   "tcp://host:port",
		"http://broker:1883": `"http://broker:1883"`,
		"tcp://broker":       `"tcp://broker"`,
	} {
		if _, err := New(Options{MQTT: &MQTTOptions{Broker: broker}}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("error of broker %q = %v, want %q", broker, err, want)
		}
	}
	if _, err := New(Options{}); err != nil {
		t.Errorf("New() with the zero value = %v", err)
	}
}

func TestJavaDoubles(t *testing.T) {
	for v, want := range map[javaDouble]string{
		0: "0.0", 64: "64.0", 174.5: "174.5", 131749: "131749.0", -9.5367431640625e-7: "-9.5367431640625E-7",
		0.001: "0.001", 1e7: "1.0E7", 12345678.9: "1.23456789E7", 34.432: "34.432",
	} {
		if got, err := v.MarshalJSON(); err != nil || string(got) != want {
			t.Errorf("JSON of %v = %s, error = %v; want %s", float64(v), got, err, want)
		}
	}
}

// TestHealthMetricsAfterRestart checks that a new process has a new run time and an initial metaspace usage.
func TestHealthMetricsAfterRestart(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, b := newConnectedBase(t, Options{})
		jvm := func() (runTime, used float64) {
			w.send(topic+"health", "{}")
			data := w.data("base/health")["data"].(map[string]any)
			data = data["healthData"].(map[string]any)["jvm"].(map[string]any)
			return data["run time(s)"].(float64), data["java used metaspace"].(float64)
		}
		sleep(34432 * time.Millisecond)
		w.send(topic+"installBiz", install1)
		w.next("base/bizOperation")
		if runTime, used := jvm(); runTime != 34.432 || used != 56*mib {
			t.Errorf("run time = %v, metaspace = %v", runTime, used)
		}
		if err := b.Restart(""); err != nil {
			t.Fatal(err)
		}
		w.next("base/queryBaseline")
		sleep(time.Second)
		if runTime, used := jvm(); runTime != 1 || used != 53*mib {
			t.Errorf("after a restart: run time = %v, metaspace = %v", runTime, used)
		}
	})
}

func TestMetaspaceModel(t *testing.T) {
	m := newMetaspace(Metaspace{Used: 100 << 10, Max: mib, Leak: 0.25, Threshold: 50}.withDefaults())
	steps := []struct {
		name string
		do   func()
		want MetaspaceStatus
	}{
		{"at first", func() {}, MetaspaceStatus{100 << 10, 128 << 10, mib}},
		{"a module", func() { m.add(100 << 10) }, MetaspaceStatus{200 << 10, 256 << 10, mib}},
		{"it leaks a quarter, and what is committed stays", func() { m.free(100 << 10) },
			MetaspaceStatus{125 << 10, 256 << 10, mib}},
		{"another fits into what is committed", func() { m.add(25 << 10) }, MetaspaceStatus{150 << 10, 256 << 10, mib}},
		{"committed ends at the maximum", func() { m.add(mib - 150<<10) }, MetaspaceStatus{mib, mib, mib}},
	}
	for _, s := range steps {
		s.do()
		if d := cmp.Diff(s.want, m.status(false)); d != "" {
			t.Errorf("%s (-want +got):\n%s", s.name, d)
		}
	}
	if m.fits(1) {
		t.Error("fits(1) = true for a full metaspace")
	}
	m = newMetaspace(Metaspace{Used: 100, Max: 1000, Threshold: 50}.withDefaults())
	if !m.passesThreshold(400) || m.passesThreshold(401) {
		t.Error("threshold of 50 % of 1000 bytes does not reject 501 bytes, or rejects 500 bytes")
	}
	m = newMetaspace(Metaspace{Max: -1, Threshold: 1}.withDefaults())
	if !m.fits(1<<40) || !m.passesThreshold(1<<40) || m.status(true).Max != -1 {
		t.Error("unlimited metaspace has a limit")
	}
}
