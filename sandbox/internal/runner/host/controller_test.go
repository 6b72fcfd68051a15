package host

import (
	"maps"
	"os"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

type noBroker struct{}

func (noBroker) Addr() string             { return "127.0.0.1:1883" }
func (noBroker) CAFile() string           { return "" }
func (noBroker) Controller() broker.Login { return broker.Login{} }

// TestSettings checks that all controllers have the same heartbeat token, and that they share one serving certificate
// for the address at which the API server connects to them.
func TestSettings(t *testing.T) {
	dir := state.Home(t.TempDir()).Dir("test")
	check.Must(t, os.MkdirAll(string(dir), 0o700))
	var hosts []string
	p := &Controller{
		Sandbox: Sandbox{Dir: dir, Broker: noBroker{}}, Host: "127.0.0.1", KubeletClientCA: "ca.crt", Token: "t",
		IssueServingCert: func(h ...string) (cert, key []byte, ca string, err error) {
			hosts = append(hosts, h...)
			return []byte("cert"), []byte("key"), "ca.crt", nil
		},
	}
	two := 2
	for index := range 2 {
		env, err := p.settings(Instance{Index: index + 1, Config: v1alpha1.Controller{Replicas: &two}})
		check.Must(t, err)
		want := map[string]string{"HTTP_TUNNEL_TOKEN": "t", "KUBELET_HOST": "127.0.0.1", "KUBELET_CLIENT_CA": "ca.crt"}
		maps.DeleteFunc(env, func(name, _ string) bool { return want[name] == "" })
		if diff := cmp.Diff(want, env); diff != "" {
			t.Errorf("controller %d (-want +got):\n%s", index+1, diff)
		}
	}
	if diff := cmp.Diff([]string{"127.0.0.1"}, hosts); diff != "" {
		t.Errorf("hosts of certificates (-want +got):\n%s", diff)
	}
}
