package fakebase

import (
	"strings"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/mqtt"
)

func TestSpeedDividesHeartbeatsAndFaults(t *testing.T) {
	for _, c := range []struct {
		name    string
		options Options
		http    bool
		want    time.Duration
	}{
		{"as they are", Options{}, false, 10 * time.Second},
		{"over MQTT", Options{Speed: 10}, false, time.Second},
		{"over HTTP", Options{Speed: 10}, true, 1200 * time.Millisecond},
		{"of generation A", Options{Speed: 20, Generation: GenerationA}, false, 6 * time.Second},
		{"as set", Options{Speed: 4, HeartbeatInterval: time.Second}, true, 250 * time.Millisecond},
	} {
		if got := c.options.heartbeatInterval(c.http); got != c.want {
			t.Errorf("heartbeats %s come every %s, want %s", c.name, got, c.want)
		}
	}
	b, err := New(Options{Identity: "b", Speed: 10,
		Faults: []fault.Fault{
			{ID: "late", Kind: fault.KindDelay, Delay: fault.Delay{Min: fault.Duration(time.Minute)}}}})
	if err != nil {
		t.Fatal(err)
	}
	if f, hit := b.faults.trigger(fault.KindDelay, subject{message: "heart"}); !hit || f.wait != 6*time.Second {
		t.Errorf("a delay of a minute is %s at speed 10", f.wait)
	}
	if _, err := New(Options{Identity: "b", Speed: 21}); err == nil ||
		!strings.Contains(err.Error(), "option Speed 21") {
		t.Errorf("a speed of 21: %v", err)
	}
	if mqtt.LastPause/maxSpeed < time.Second || mqtt.KeepAlive/maxSpeed < time.Second {
		t.Error("a keep-alive holds whole seconds")
	}
}
