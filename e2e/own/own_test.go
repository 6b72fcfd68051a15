package own

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

var catalogue = filepath.Join("..", "..", "scenarios")

// up brings a sandbox up whose controllers are a command.
func up(t *testing.T, name string, controller v1alpha1.Controller) *box.Box {
	t.Helper()
	programs, err := box.FindPrograms(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	home, err := os.MkdirTemp("", "own") // a socket's path must be short
	if err != nil {
		t.Fatal(err)
	}
	b := &box.Box{Bin: programs, Home: home, Name: name}
	t.Cleanup(func() {
		if t.Failed() {
			text, _ := os.ReadFile(b.Log("module-controller")) // it may never have begun
			t.Logf("the log of the controller:\n%s", text)
		}
		if err := b.Down(context.Background()); err != nil {
			t.Error(err)
		}
		_ = os.RemoveAll(home) // a folder for temporary files
	})
	count := 2
	spec := v1alpha1.Spec{Controller: controller}
	spec.Bases.Count = &count
	if err := b.Up(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	return b
}

// ours are the variables by which module-controller learns what a sandbox has.
var ours = map[string]string{
	"KUBECONFIG": "{{.Kubeconfig}}", "ENV": "{{.Env}}", "CLIENT_ID": "{{.ClientID}}", "IS_CLUSTER": "{{gt .Replicas 1}}",
	"ENABLE_MQTT_TUNNEL": "true", "MQTT_BROKER": "{{.BrokerHost}}", "MQTT_PORT": "{{.BrokerPort}}", "MQTT_USERNAME": "{{.BrokerUser}}",
	"MQTT_PASSWORD": "{{.BrokerPassword}}", "MQTT_CLIENT_PREFIX": "{{.ClientPrefix}}", "MQTT_CA_PATH": "{{.BrokerCA}}",
	"ENABLE_HTTP_TUNNEL": "true", "HTTP_TUNNEL_LISTEN_HOST": "127.0.0.1", "HTTP_TUNNEL_LISTEN_PORT": "{{.HTTPTunnelPort}}",
	"HTTP_TUNNEL_PROXY": "{{.Gateway}}", "BASE_NETWORKS": "0.0.0.0/0,::/0", "METRICS_ADDR": "{{.MetricsAddr}}", "HEALTH_ADDR": "{{.HealthAddr}}", "MARK": "{{.Files}}/mark",
}

// Our own program, started as anybody's: scenarios pass, the command line treats it as any
// controller, and what it cannot have is said.
func TestOurProgramAsACommand(t *testing.T) {
	programs, err := box.FindPrograms(filepath.Join("..", ".."))
	if err != nil {
		t.Fatal(err)
	}
	b := up(t, "ours", v1alpha1.Controller{
		Command: []string{filepath.Join(programs, box.ControllerProgram)}, Env: ours,
		Files: map[string]string{"mark": "replica {{.Index}} of {{.Replicas}}"}, Ready: &v1alpha1.ControllerReady{HTTP: "/tunnelz"},
	})
	for _, args := range [][]string{
		{"scenario", "run", filepath.Join(catalogue, "rolling-update-one-base.yaml")},
		{"component", "kill", "module-controller"},
		{"component", "start", "module-controller"},
		{"component", "pause", "module-controller"},
		{"component", "resume", "module-controller"},
		{"scenario", "run", filepath.Join(catalogue, "scale.yaml")},
	} {
		if err := b.Must(t.Context(), args...); err != nil {
			t.Fatal(err)
		}
	}
	text, err := os.ReadFile(filepath.Join(b.Folder(), "files", "module-controller", "mark"))
	if err != nil || string(text) != "replica 1 of 1" {
		t.Errorf("the file holds %q, error %v", text, err)
	}
	r, err := b.Run(t.Context(), "scenario", "run", filepath.Join(catalogue, "two-controllers.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if said := r.Out + r.Err; r.Status == 0 || !strings.Contains(said, "it needs 2 replicas of the module controller, but the sandbox runs a command") {
		t.Errorf("a scenario that needs two controllers ended with status %d:\n%s", r.Status, said)
	}
}

// A controller that is Ready before its modules are is found out by the requests that it loses.
func TestScenariosFindTheNaiveControllerOut(t *testing.T) {
	program := filepath.Join(t.TempDir(), "naive")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", program, "./naive")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building the naive controller: %v\n%s", err, out)
	}
	b := up(t, "naive", v1alpha1.Controller{
		Command: []string{program}, Ready: &v1alpha1.ControllerReady{Log: "I am ready$"},
		Env: map[string]string{"KUBECONFIG": "{{.Kubeconfig}}", "BROKER": "tcp://{{.BrokerHost}}:{{.BrokerPort}}", "BROKER_USER": "{{.BrokerUser}}",
			"BROKER_PASSWORD": "{{.BrokerPassword}}", "ENVIRONMENT": "{{.Env}}", "INSTANCE": "{{.ClientPrefix}}@@@{{.ClientID}}", "HEALTH": "{{.HealthAddr}}"},
	})
	report := filepath.Join(t.TempDir(), "report.json")
	// Its Pod is Ready without a module for as long as an install takes, which is to be more than truth allows.
	r, err := b.Run(t.Context(), "scenario", "run", "--var", "installTime=2s", "--json", report, filepath.Join(catalogue, "rolling-update-one-base.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if r.Status == 0 {
		t.Fatalf("the scenario passed:\n%s", r.Out)
	}
	failed, err := failedChecks(report)
	if err != nil {
		t.Fatalf("%v\n%s%s", err, r.Out, r.Err)
	}
	if !strings.Contains(failed, "truth") {
		t.Errorf("the checks that failed are %q; truth is not among them:\n%s", failed, r.Out)
	}
}

// failedChecks are the names of the built-in checks that failed in the runs of a report.
func failedChecks(file string) (string, error) {
	text, err := os.ReadFile(file)
	if err != nil {
		return "", err
	}
	var report struct {
		Runs []struct {
			Checks []struct{ Name, Verdict string }
		}
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return "", fmt.Errorf("reading the report: %w", err)
	}
	var names []string
	for _, run := range report.Runs {
		for _, c := range run.Checks {
			if c.Verdict == "failed" {
				names = append(names, c.Name)
			}
		}
	}
	return strings.Join(names, " "), nil
}
