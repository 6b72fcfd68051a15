package controller

import (
	"crypto/tls"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"
)

func TestOptionsReportEveryProblemAtOnce(t *testing.T) {
	_, err := New(Options{
		FailedPods:       "sometimes",
		UnreachableAfter: time.Minute, DeadAfter: time.Second,
		InstallTimeout: -1,
	})
	if err == nil {
		t.Fatal("options with five mistakes are accepted")
	}
	for _, want := range []string{
		"no Kubernetes API", "CLIENT_ID is empty", "ENABLE_MQTT_TUNNEL or ENABLE_HTTP_TUNNEL",
		`FAILED_PODS is "sometimes"`, "InstallTimeout is negative", "unreachable (1m0s) before it is gone (1s)",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not say %q:\n%v", want, err)
		}
	}
	if _, err := New(Options{Config: &rest.Config{}, ClientID: "c", MQTT: &MQTTOptions{}}); err == nil || !strings.Contains(err.Error(), "MQTT_BROKER is empty") {
		t.Errorf("a tunnel without a broker: %v", err)
	}
}

func TestBrokerURL(t *testing.T) {
	secure := &tls.Config{MinVersion: tls.VersionTLS12}
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
