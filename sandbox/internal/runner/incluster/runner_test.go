package incluster

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/broker"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

// fakeBroker is a fake broker that uses TLS.
type fakeBroker struct{ ca string }

func (fakeBroker) Addr() string             { return "172.18.0.1:8883" }
func (b fakeBroker) CAFile() string         { return b.ca }
func (fakeBroker) Controller() broker.Login { return broker.Login{} }

// TestSettings checks that the serving certificate for logs and exec is issued only once, and that the Pods get the
// configured environment variables.
func TestSettings(t *testing.T) {
	ca := filepath.Join(t.TempDir(), "ca.crt")
	check.Must(t, os.WriteFile(ca, []byte("ca"), 0o600))
	var hosts []string
	r := &Runner{o: Options{
		Broker: func() (Broker, error) { return SandboxBroker(fakeBroker{ca}) },
		Local: &LocalCluster{KubeletClientCA: ca,
			IssueServingCert: func(h ...string) (cert, key []byte, file string, err error) {
				hosts = append(hosts, h...)
				return []byte("cert"), []byte("key"), ca, nil
			}},
	}}
	one, own := 1, map[string]string{"MODULE_DRAIN": "1s"}
	for range 2 {
		s, err := r.settings(v1alpha1.Controller{Replicas: &one, Env: own})
		check.Must(t, err)
		if diff := cmp.Diff(own, s.Variables); diff != "" || string(s.Kubelet.Cert) != "cert" ||
			string(s.Kubelet.ClientCA) != "ca" {
			t.Errorf("%+v; variables (-want +got):\n%s", s.Kubelet, diff)
		}
	}
	if diff := cmp.Diff([]string{"module-controller"}, hosts); diff != "" {
		t.Errorf("hosts of certificates (-want +got):\n%s", diff)
	}
}
