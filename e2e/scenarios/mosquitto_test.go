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

// What is wrong with the user's broker, or would be wrong to do there, up says in one
// sentence; then it leaves nothing.
func TestBrokerThatCannotBeUsed(t *testing.T) {
	if theirs == nil {
		t.Skip("it is about a broker of the user's: make e2e-mosquitto")
	}
	status, err := up.Status(t.Context(), false)
	if err != nil {
		t.Fatal(err)
	}
	client, err := theirs.Connect()
	if err != nil {
		t.Fatal(err)
	}
	defer client.Disconnect(0)
	const left = "koupleless_left/base-1/installBiz"
	retain := func(text string) {
		t.Helper()
		if token := client.Publish(left, 1, true, text); !token.WaitTimeout(time.Minute) || token.Error() != nil {
			t.Fatal(token.Error())
		}
	}
	retain("{}")
	defer retain("") // which takes it away
	for _, tc := range []struct {
		name, want string
		change     func(*v1alpha1.Spec)
	}{
		{"another's password", `"koup"`,
			func(s *v1alpha1.Spec) { s.Broker.PasswordFile = theirs.Passwords[mosquitto.Guest] }},
		{"unknown authority", "spec.broker.caFile", func(s *v1alpha1.Spec) { s.Broker.CAFile = "" }},
		{"no TLS", "mqtts://", func(s *v1alpha1.Spec) {
			s.Broker.URL, s.Broker.CAFile = strings.Replace(s.Broker.URL, "mqtts:", "mqtt:", 1), ""
		}},
		{"an environment without rights", `"guest"`, func(s *v1alpha1.Spec) {
			s.Broker.Username, s.Broker.PasswordFile = mosquitto.Guest, theirs.Passwords[mosquitto.Guest]
		}},
		{"somebody's environment", " koupleless_" + status.Env + "/", func(s *v1alpha1.Spec) { s.Env = status.Env }},
		{"an environment in which something is left", left, func(s *v1alpha1.Spec) { s.Env = "left" }},
	} {
		t.Run(tc.name, func(t *testing.T) {
			b := &box.Box{Bin: programs, Home: home, Name: envconf.RandomName("refused", 12)}
			s := spec()
			tc.change(&s)
			err := b.Up(t.Context(), s)
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("up gave %v, want %q", err, tc.want)
			}
			if err := b.Down(t.Context()); err != nil {
				t.Error(err)
			}
		})
	}
}
