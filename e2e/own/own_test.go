package own

import (
	"context"
	"encoding/json"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// judged are conformance scenarios, and what the naive controller does wrong in each. All other conformance scenarios
// run with the catalogue.
var judged = map[string]string{
	"placement":          "it installs Pods that are not modules",
	"one-of-two-modules": "its Pods are Ready before their modules are active",
	"invalid-pods":       "it accepts Pods without a version",
	"uninstall-failed":   "it deletes Pods whose modules are still on the base",
}

// bundled are the variables by which the bundled controller learns what a sandbox has.
var bundled = map[string]string{
	"KUBECONFIG": "{{.Kubeconfig}}", "ENV": "{{.Env}}", "CLIENT_ID": "{{.ClientID}}",
	"ENABLE_MQTT_TUNNEL": "true", "MQTT_BROKER": "{{.BrokerHost}}", "MQTT_PORT": "{{.BrokerPort}}", "MQTT_USERNAME": "{{.BrokerUser}}",
	"MQTT_PASSWORD": "{{.BrokerPassword}}", "MQTT_CLIENT_PREFIX": "{{.ClientPrefix}}", "MQTT_CA_PATH": "{{.BrokerCA}}",
	"ENABLE_HTTP_TUNNEL": "true", "HTTP_TUNNEL_LISTEN_HOST": "127.0.0.1", "HTTP_TUNNEL_LISTEN_PORT": "{{.HTTPTunnelPort}}",
	"HTTP_TUNNEL_PROXY": "{{.Gateway}}", "BASE_NETWORKS": "0.0.0.0/0,::/0", "METRICS_ADDR": "{{.MetricsAddr}}", "HEALTH_ADDR": "{{.HealthAddr}}",
	"UNINSTALL_TIMEOUT": "1m",
}

func TestBundledControllerConforms(t *testing.T) {
	t.Parallel()
	programs, err := box.FindPrograms(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range conformance(t, "bundled", v1alpha1.Controller{
		Command: []string{filepath.Join(programs, box.ControllerProgram)}, Env: bundled, Ready: &v1alpha1.ControllerReady{HTTP: "/tunnelz"},
	}) {
		if run.Verdict != scenario.Passed {
			t.Errorf("%s %v %s: %s", run.Scenario, run.Cell, run.Verdict, run.Failure)
		}
	}
}

func TestNaiveControllerDoesNotConform(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "naive")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./naive")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the naive controller: %v\n%s", err, out)
	}
	failed := map[string]bool{}
	for _, run := range conformance(t, "naive", v1alpha1.Controller{
		Command: []string{program}, Ready: &v1alpha1.ControllerReady{Log: "I am ready$"},
		Env: map[string]string{"KUBECONFIG": "{{.Kubeconfig}}", "BROKER": "tcp://{{.BrokerHost}}:{{.BrokerPort}}", "BROKER_USER": "{{.BrokerUser}}",
			"BROKER_PASSWORD": "{{.BrokerPassword}}", "ENVIRONMENT": "{{.Env}}", "INSTANCE": "{{.ClientPrefix}}@@@{{.ClientID}}", "HEALTH": "{{.HealthAddr}}",
			"UNINSTALL_TIMEOUT": "none"},
	}) {
		t.Logf("%s %v %s: %s", run.Scenario, run.Cell, run.Verdict, run.Failure)
		failed[run.Scenario] = failed[run.Scenario] || run.Verdict == scenario.Failed
	}
	for name, why := range judged {
		if !failed[name] {
			t.Errorf("%s has not failed, although %s", name, why)
		}
	}
}

// conformance runs the judged scenarios in a sandbox with a controller.
func conformance(t *testing.T, name string, controller v1alpha1.Controller) []*scenario.Run {
	t.Helper()
	b, err := box.New(name)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := b.Remove(context.Background()); err != nil {
			t.Error(err)
		}
	})
	one := 1
	if err := b.Up(t.Context(), v1alpha1.Spec{Controller: controller, Bases: v1alpha1.Bases{Count: &one, Name: "unused"}}); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(b.Home, "report.json")
	names := strings.Join(slices.Sorted(maps.Keys(judged)), ",")
	r, err := b.Run(t.Context(), "scenario", "run", "--selector", "conformance,name in ("+names+")", "--parallel", "4", "--json", file,
		filepath.Join("..", "..", "scenarios"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, r.Out, r.Err)
	}
	var report scenario.Report
	if err := json.Unmarshal(text, &report); err != nil {
		t.Fatal(err)
	}
	return report.Runs
}
