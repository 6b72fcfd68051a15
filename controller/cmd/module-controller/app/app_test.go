package app

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// kubeconfig is a kubeconfig file for a cluster that does not exist.
const kubeconfig = `{apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}], clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]}`

func TestInvalidSettingsAreReportedByName(t *testing.T) {
	file := filepath.Join(t.TempDir(), "kubeconfig")
	if err := os.WriteFile(file, []byte(kubeconfig), 0o600); err != nil {
		t.Fatal(err)
	}
	ok := []string{"--kubeconfig", file, "--enable-mqtt-tunnel", "--mqtt-broker", "127.0.0.1"}
	for _, c := range []struct {
		name string
		args []string
		want string
	}{
		{"no tunnel", []string{"--kubeconfig", file}, "ENABLE_MQTT_TUNNEL"},
		{"unsupported broker URL", append(ok, "--mqtt-broker", "http://x"), "MQTT_BROKER"},
		{"a port out of range", append(ok, "--mqtt-port", "70000"), "MQTT_PORT"},
		{"no workers", append(ok, "--vnode-worker-num", "0"), "VNODE_WORKER_NUM"},
		{"lease duration too short", append(ok, "--lease-duration", "1s"), "LEASE_DURATION is 1s; use 4s to 1h0m0s"},
		{"Node lease duration too short", append(ok, "--node-lease-duration", "1s"), "NODE_LEASE_DURATION"},
		{"no levels", append(ok, "--workload-max-level", "-1"), "WORKLOAD_MAX_LEVEL"},
		{"an unknown log level", append(ok, "--log-level", "loud"), "LOG_LEVEL"},
		{"an unknown log format", append(ok, "--log-format", "xml"), "LOG_FORMAT"},
		{"report hook is not a URL", append(ok, "--report-hooks", "nonsense"), "REPORT_HOOKS"},
		{"report hook without TLS", append(ok, "--report-hooks", "http://h/?access_token=t"),
			"REPORT_HOOKS_ALLOW_HTTP"},
		{"unknown value of failed-pods", append(ok, "--failed-pods", "sometimes"), "FAILED_PODS"},
		{"CA file does not exist", append(ok, "--mqtt-ca-path", "/nonexistent"), "MQTT_CA_PATH"},
		{"CA file without a certificate", append(ok, "--mqtt-ca-path", file), "MQTT_CA_PATH"},
		{"environment is not a DNS label", append(ok, "--env", "a/../b"), `ENV is "a/../b"`},
		{"a certificate without its key", append(ok, "--enable-http-tunnel", "--http-tunnel-tls-cert", file),
			"HTTP_TUNNEL_TLS_KEY"},
		{"client CA without a serving certificate", append(ok, "--enable-http-tunnel", "--http-tunnel-client-ca", file),
			"HTTP_TUNNEL_CLIENT_CA requires both"},
		{"certificate file without a certificate",
			append(ok, "--enable-http-tunnel", "--http-tunnel-tls-cert", file, "--http-tunnel-tls-key", file),
			"HTTP_TUNNEL_TLS_CERT"},
		{"base networks are not CIDRs", append(ok, "--base-networks", "10.0.0.0"), "BASE_NETWORKS"},
		{"an install timeout below 0", append(ok, "--install-timeout", "-1s"), "INSTALL_TIMEOUT is -1s"},
		{"a time scale too high", append(ok, "--time-scale", "21"), "TIME_SCALE is 21; use 1 to 20"},
		{"no bases", append(ok, "--max-bases", "0"), "MAX_BASES"},
		{"a certificate without its key", append(ok, "--mqtt-client-crt-path", file), "MQTT_CLIENT_KEY_PATH"},
		{"kubelet without a host", append(ok, "--kubelet"), "KUBELET_HOST"},
		{"kubelet without a client CA", append(ok, "--kubelet", "--kubelet-host", "127.0.0.1"), "KUBELET_CLIENT_CA"},
		{"unsupported proxy URL",
			append(ok, "--enable-http-tunnel", "--http-tunnel-proxy", "socks5://127.0.0.1:1080"), "HTTP_TUNNEL_PROXY"},
		{"kubeconfig does not exist", []string{"--kubeconfig", "/nonexistent"}, "KUBECONFIG"},
		{"a duration without a unit", append(ok, "--module-drain", "2"), "module-drain"},
		{"unexpected argument", append(ok, "please"), `"please"`},
	} {
		t.Run(c.name, func(t *testing.T) {
			app := New("dev")
			app.Writer, app.ErrWriter = io.Discard, io.Discard
			err := app.RunContext(t.Context(), append([]string{"module-controller"}, c.args...))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("error %v, want an error with %q", err, c.want)
			}
		})
	}
}
