package e2e

import (
	"path/filepath"
	"strings"
	"testing"

	"k8s.io/utils/ptr"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// judged are the conformance scenarios that run here. All other conformance scenarios run with the catalogue.
var judged = []string{"invalid-pods", "one-of-two-modules", "placement", "uninstall-failed"}

// bundled are the variables by which the bundled controller learns what a sandbox has.
var bundled = map[string]string{
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

// The bundled controller conforms if a sandbox runs it as a custom controller.
func TestOwnController(t *testing.T) {
	b := ownBox(t)
	s := spec(false)
	s.Controller = v1alpha1.Controller{
		Command: []string{filepath.Join(b.Bin, box.ControllerBinary)}, Env: bundled,
		Ready: &v1alpha1.ControllerReady{HTTP: "/tunnelz"},
	}
	s.Bases = v1alpha1.Bases{Count: ptr.To(1), Name: "unused"}
	must(t, b.Up(t.Context(), s))
	must(t, b.Must(t.Context(), "scenario", "run", "--selector", "conformance,name in ("+strings.Join(judged, ",")+")",
		"--parallel", "4",
		filepath.Join("..", "scenarios")))
}
