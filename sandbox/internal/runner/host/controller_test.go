package host

import (
	"net"
	"os"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

type noBroker struct{}

func (noBroker) Addr() string             { return "127.0.0.1:1883" }
func (noBroker) CAFile() string           { return "" }
func (noBroker) Controller() broker.Login { return broker.Login{} }

// The API server calls the first controller, at an address that stays, by names that its certificate
// has. The others say on Nodes what that one tells. Without the option there is nothing of this.
func TestMetricsAPI(t *testing.T) {
	two := 2
	for name, c := range map[string]struct {
		ca     string
		on     bool
		hosts  []string
		served bool
	}{
		"on":                             {"ca.crt", true, []string{"127.0.0.1", "module-controller-metrics.kube-system.svc", "module-controller-metrics.koupleless-system.svc"}, true},
		"off":                            {"ca.crt", false, []string{"127.0.0.1"}, false},
		"the API server is out of reach": {"", true, nil, false},
	} {
		t.Run(name, func(t *testing.T) {
			dir := state.Home(t.TempDir()).Dir("test")
			if err := os.MkdirAll(string(dir), 0o700); err != nil {
				t.Fatal(err)
			}
			var hosts []string
			p := &Controller{
				Sandbox: Sandbox{Dir: dir, Broker: noBroker{}}, Host: "127.0.0.1", KubeletClientCA: c.ca, Token: "t",
				Serving: func(h ...string) (cert, key []byte, ca string, err error) {
					hosts = append(hosts, h...)
					return []byte("cert"), []byte("key"), "ca.crt", nil
				},
			}
			settings := func(index int) string {
				env, err := p.Settings(Instance{Index: index, Config: v1alpha1.Controller{Replicas: &two, MetricsAPI: c.on}})
				if err != nil {
					t.Fatal(err)
				}
				if env["HTTP_TUNNEL_TOKEN"] != "t" {
					t.Errorf("the token of heartbeats is %q", env["HTTP_TUNNEL_TOKEN"])
				}
				return env["METRICS_API_ADDR"]
			}
			first, again, second := settings(1), settings(1), settings(2)
			if diff := cmp.Diff(c.hosts, hosts); diff != "" {
				t.Errorf("the certificate is for (-want +got):\n%s", diff)
			}
			want := []string{"", "", "", ""}
			if c.served {
				host, port, err := net.SplitHostPort(first)
				if err != nil || host != "127.0.0.1" || port == "0" {
					t.Fatalf("the first one serves at %q", first)
				}
				want = []string{first, first, first, "127.0.0.1:0"}
			}
			if diff := cmp.Diff(want, []string{p.MetricsAPI(), first, again, second}); diff != "" {
				t.Errorf("addresses (-want +got):\n%s", diff)
			}
		})
	}
}
