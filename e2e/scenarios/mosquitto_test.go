package scenarios

import (
	"strings"
	"testing"
	"time"

	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/mosquitto"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// TestBrokerRejected checks that up reports why it cannot use an external broker, and that down then succeeds.
func TestBrokerRejected(t *testing.T) {
	if externalBroker == nil {
		t.Skip("needs an external broker; run it with: make e2e-mosquitto")
	}
	status, err := up.Status(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	client, err := externalBroker.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(0)
	const topic = "koupleless_left/base-1/installBiz"
	retain := func(text string) {
		t.Helper()
		if token := client.Publish(topic, 1, true, text); !token.WaitTimeout(time.Minute) || token.Error() != nil {
			t.Fatal(token.Error())
		}
	}
	retain("{}")
	defer retain("") // an empty message deletes the retained message
	for _, tc := range []struct {
		name, want string
		change     func(*v1alpha1.Spec)
	}{
		{"wrong password", `"koup"`,
			func(s *v1alpha1.Spec) { s.Broker.PasswordFile = externalBroker.Passwords[mosquitto.Guest] }},
		{"unknown CA", "spec.broker.caFile", func(s *v1alpha1.Spec) { s.Broker.CAFile = "" }},
		{"no TLS", "mqtts://", func(s *v1alpha1.Spec) {
			s.Broker.URL, s.Broker.CAFile = strings.Replace(s.Broker.URL, "mqtts:", "mqtt:", 1), ""
		}},
		{"no permission for the environment", `"guest"`, func(s *v1alpha1.Spec) {
			s.Broker.Username, s.Broker.PasswordFile = mosquitto.Guest, externalBroker.Passwords[mosquitto.Guest]
		}},
		{"environment of another sandbox", " koupleless_" + status.Env + "/",
			func(s *v1alpha1.Spec) { s.Env = status.Env }},
		{"environment with a retained message", topic, func(s *v1alpha1.Spec) { s.Env = "left" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := &box.Box{Bin: binDir, Home: home, Name: envconf.RandomName("refused", 12)}
			s := spec()
			tc.change(&s)
			err := b.Up(t.Context(), s)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error of up: %v, want %q", err, tc.want)
			}
			if err := b.Down(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
