package incluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
)

type theBroker struct{ ca string }

func (theBroker) Addr() string             { return "172.18.0.1:8883" }
func (b theBroker) CAFile() string         { return b.ca }
func (theBroker) Controller() broker.Login { return broker.Login{} }

// The Pods serve the metrics API at the port of the manifests, with a certificate for the name by which
// the API server calls it, and what the user has set stays as it was.
func TestMetricsAPI(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	if err := os.WriteFile(ca, []byte("ca"), 0o600); err != nil {
		t.Fatal(err)
	}
	one, own := 1, map[string]string{"MODULE_DRAIN": "1s"}
	type result struct {
		Hosts     []string
		Variables map[string]string
	}
	for name, c := range map[string]struct {
		on   bool
		want result
	}{
		"on": {true, result{
			[]string{"module-controller", "module-controller-metrics.kube-system.svc", "module-controller-metrics.koupleless-system.svc"},
			map[string]string{"MODULE_DRAIN": "1s", "METRICS_API_ADDR": ":10260"},
		}},
		"off": {false, result{[]string{"module-controller"}, map[string]string{"MODULE_DRAIN": "1s"}}},
	} {
		t.Run(name, func(t *testing.T) {
			var got result
			r := &Runner{o: RunnerOptions{
				Broker: func() (Broker, error) { return BrokerOf(theBroker{ca}) },
				Own: &Own{KubeletClientCA: ca, Serving: func(h ...string) (cert, key []byte, file string, err error) {
					got.Hosts = h
					return []byte("cert"), []byte("key"), ca, nil
				}},
			}}
			s, err := r.settings(v1alpha1.Controller{Replicas: &one, Env: own, MetricsAPI: c.on})
			if err != nil {
				t.Fatal(err)
			}
			got.Variables = s.Variables
			if diff := cmp.Diff(c.want, got); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if len(own) != 1 {
				t.Errorf("the configuration has %v now", own)
			}
		})
	}
}
