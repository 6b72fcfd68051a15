package v1alpha1_test

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

func TestParseBrokerURL(t *testing.T) {
	for text, want := range map[string]v1alpha1.BrokerAddress{
		"mqtt://h":              {Addr: "h:1883"},
		"TCP://h:1/":            {Addr: "h:1"},
		"mqtts://h":             {Addr: "h:8883", TLS: true},
		"ssl://127.0.0.1:9":     {Addr: "127.0.0.1:9", TLS: true},
		"tls://me@[fd00::1]:99": {Addr: "[fd00::1]:99", TLS: true, Username: "me"},
	} {
		got, err := v1alpha1.ParseBrokerURL(text)
		if err != nil {
			t.Errorf("%s: %v", text, err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", text, diff)
		}
	}
	for _, text := range []string{"", "h:1883", "http://h", "mqtt://", "mqtt://h:0", "mqtt://h/topic", "mqtt://h?x=y",
		"mqtt://u:p@h", "mqtt://h:port", "%"} {
		if got, err := v1alpha1.ParseBrokerURL(text); err == nil {
			t.Errorf("ParseBrokerURL(%q) = %+v, want an error", text, got)
		}
	}
}

// TestDefaultsWithExternalBroker checks that the environment name has no default if an external broker is used, and
// that the user name is moved from the broker URL to the field Username.
func TestDefaultsWithExternalBroker(t *testing.T) {
	s := &v1alpha1.Sandbox{}
	s.Spec.Broker.URL = "mqtts://me@broker.example"
	if err := v1alpha1.Complete(s, &v1alpha1.Origins{}, nil); err != nil {
		t.Fatal(err)
	}
	if s.Spec.Env != "" {
		t.Errorf("environment = %q, want none", s.Spec.Env)
	}
	if diff := cmp.Diff(v1alpha1.Broker{URL: "mqtts://broker.example", Username: "me"}, s.Spec.Broker); diff != "" {
		t.Errorf("broker (-want +got):\n%s", diff)
	}
}
