package controller

import (
	"crypto/tls"
	"reflect"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/koupleless/koupsandbox/controller/api"
)

func TestNewReportsAllInvalidOptions(t *testing.T) {
	_, err := New(Options{
		FailedPods:       "sometimes",
		UnreachableAfter: time.Minute, DeadAfter: time.Second,
	})
	if err == nil {
		t.Fatal("invalid options are accepted")
	}
	for _, want := range []string{
		"ENABLE_MQTT_TUNNEL or ENABLE_HTTP_TUNNEL", `FAILED_PODS is "sometimes"`, "BASE_DEAD_AFTER is 1s",
		"BASE_UNREACHABLE_AFTER, which is 1m0s",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not contain %q:\n%v", want, err)
		}
	}
	if _, err := New(Options{Config: &rest.Config{}, ClientID: "c", MQTT: &MQTTOptions{}}); err == nil ||
		!strings.Contains(err.Error(), "MQTT_BROKER") {
		t.Errorf("a tunnel without a broker: %v", err)
	}
}

func TestInvalidOptions(t *testing.T) {
	for want, change := range map[string]func(*Options){
		`ENV is "Dev"`:        func(o *Options) { o.Env = "Dev" },
		`ENV is "a/../b"`:     func(o *Options) { o.Env = "a/../b" },
		`ENV is "+"`:          func(o *Options) { o.Env = "+" },
		`ENV is "a#"`:         func(o *Options) { o.Env = "a#" },
		`ENV is "a.b"`:        func(o *Options) { o.Env = "a.b" },
		`ENV is "xxxxx`:       func(o *Options) { o.Env = strings.Repeat("x", 64) },
		`BASE_NETWORKS: "10"`: func(o *Options) { o.BaseNetworks = "10" },
		`HTTP_TUNNEL_TOKEN`:   func(o *Options) { o.HTTP = &HTTPOptions{Token: "a/b"} },
		``:                    func(o *Options) { o.Env, o.BaseNetworks, o.MaxBases = "dev-1", "10.0.0.0/8,::/0", 3 },
	} {
		o := Options{Config: &rest.Config{}, ClientID: "c", MQTT: &MQTTOptions{Broker: "b"}}
		change(&o)
		switch err := o.complete(); {
		case want == "" && err != nil:
			t.Errorf("valid options are rejected: %v", err)
		case want != "" && (err == nil || !strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")):
			t.Errorf("error %v, want one line with %q", err, want)
		}
	}
}

func TestBrokerURL(t *testing.T) {
	secure := func() *tls.Config { return &tls.Config{MinVersion: tls.VersionTLS12} }
	for _, c := range []struct {
		options MQTTOptions
		want    string
	}{
		{MQTTOptions{Broker: "mqtt.example.com"}, "tcp://mqtt.example.com:1883"},
		{MQTTOptions{Broker: "mqtt.example.com", TLS: secure}, "ssl://mqtt.example.com:8883"},
		{MQTTOptions{Broker: "127.0.0.1", Port: 4000}, "tcp://127.0.0.1:4000"},
		{MQTTOptions{Broker: "127.0.0.1:5000", Port: 4000}, "tcp://127.0.0.1:5000"},
		{MQTTOptions{Broker: "mqtt://broker"}, "tcp://broker:1883"},
		{MQTTOptions{Broker: "mqtts://broker:1"}, "ssl://broker:1"},
		{MQTTOptions{Broker: "[::1]"}, "tcp://[::1]:1883"},
		{MQTTOptions{Broker: "http://broker"}, ""},
	} {
		got, err := c.options.url()
		if (err != nil) != (c.want == "") || got != c.want {
			t.Errorf("broker %q, port %d: %q, error %v, want %q", c.options.Broker, c.options.Port, got, err, c.want)
		}
	}
}

// TestTimeScaleDividesEveryDuration checks that every duration in the options has a default, and is divided by the
// time scale.
func TestTimeScaleDividesEveryDuration(t *testing.T) {
	complete := func(o Options) Options {
		o.Config, o.ClientID, o.MQTT = &rest.Config{}, "c", &MQTTOptions{Broker: "b"}
		if err := o.complete(); err != nil {
			t.Fatal(err)
		}
		return o
	}
	one, ten := complete(Options{}), complete(Options{TimeScale: 10})
	n := 0
	var compare func(path string, a, b reflect.Value)
	compare = func(path string, a, b reflect.Value) {
		for i := range a.NumField() {
			f, name := a.Type().Field(i), path+a.Type().Field(i).Name
			switch {
			case f.Type == reflect.TypeFor[time.Duration]():
				n++
				want := time.Duration(a.Field(i).Int()) / 10
				if name == "LeaseDuration" {
					want = api.MinControllerLease // 1.5 s is too short for renewals
				}
				if got := time.Duration(b.Field(i).Int()); a.Field(i).Int() <= 0 || got != want {
					t.Errorf("%s is %s with time scale 1 and %s with 10, want %s", name,
						time.Duration(a.Field(i).Int()), got, want)
				}
			case f.Type.Kind() == reflect.Struct:
				compare(name+".", a.Field(i), b.Field(i))
			}
		}
	}
	compare("", reflect.ValueOf(one), reflect.ValueOf(ten))
	if n < 11 {
		t.Errorf("only %d durations were compared", n)
	}
	given := complete(Options{TimeScale: 4, LeaseDuration: 30 * time.Second, Drain: -1, ReconnectGrace: -1,
		DeadAfter: 2 * time.Minute})
	if given.LeaseDuration != 8*time.Second || given.Drain != -1 || given.ReconnectGrace != -1 ||
		given.DeadAfter != 30*time.Second {
		t.Errorf("explicit durations with time scale 4: lease %s, drain %s, grace %s, dead after %s",
			given.LeaseDuration, given.Drain,
			given.ReconnectGrace, given.DeadAfter)
	}
}
