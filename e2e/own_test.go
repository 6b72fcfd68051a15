package e2e

import (
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// conformance lists the conformance scenarios that TestOwnController runs. The catalogue runs the other conformance
// scenarios.
var conformance = []string{"invalid-pods", "one-of-two-modules", "placement", "uninstall-failed"}

// controllerEnv contains the environment variables of the bundled controller. The sandbox replaces the placeholders.
var controllerEnv = map[string]string{
	"KUBECONFIG": "{{.Kubeconfig}}", "ENV": "{{.Env}}", "CLIENT_ID": "{{.ClientID}}",
	"ENABLE_MQTT_TUNNEL": "true", "MQTT_BROKER": "{{.BrokerHost}}", "MQTT_PORT": "{{.BrokerPort}}",
	"MQTT_USERNAME": "{{.BrokerUser}}",
	"MQTT_PASSWORD": "{{.BrokerPassword}}", "MQTT_CLIENT_PREFIX": "{{.ClientPrefix}}", "MQTT_CA_PATH": "{{.BrokerCA}}",
	"ENABLE_HTTP_TUNNEL": "true", "HTTP_TUNNEL_LISTEN_HOST": "127.0.0.1",
	"HTTP_TUNNEL_LISTEN_PORT": "{{.HTTPTunnelPort}}",
	"HTTP_TUNNEL_PROXY":       "{{.Gateway}}", "BASE_NETWORKS": "0.0.0.0/0,::/0", "METRICS_ADDR": "{{.MetricsAddr}}",
	"HEALTH_ADDR":       "{{.HealthAddr}}",
	"UNINSTALL_TIMEOUT": "1m",
}

// TestOwnController checks that the bundled controller passes the conformance scenarios when a sandbox runs it as a
// custom controller.
func TestOwnController(t *testing.T) {
	b := ownBox(t)
	s := spec(false)
	s.Controller = v1alpha1.Controller{
		Command: []string{filepath.Join(b.Bin, box.ControllerBinary)}, Env: controllerEnv,
		Ready: &v1alpha1.ControllerReady{HTTP: "/tunnelz"},
	}
	s.Bases = []v1alpha1.BaseSet{{Count: ptr.To(1), BaseName: "unused"}}
	must(t, b.Up(t.Context(), s))
	must(t, b.Must(t.Context(), "scenario", "run", "--selector",
		"conformance,name in ("+strings.Join(conformance, ",")+")",
		"--parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0)),
		filepath.Join("..", "scenarios")))
}
