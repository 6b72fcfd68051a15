package kind

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// report is what counts of a report as JSON.
type report struct {
	Runs []struct {
		Failure string
		Traffic []struct {
			Name, Route string
			Sent, Lost  int
			Results     map[string]int
		}
	}
}

// runInto runs a scenario, which must pass, and returns its report.
func runInto(t *testing.T, scenario string) report {
	t.Helper()
	file := filepath.Join(t.TempDir(), "report.json")
	result, err := shared.Run(t.Context(), "scenario", "run", "--json", file, "testdata/"+scenario)
	if err != nil {
		t.Fatal(err)
	}
	if result.Status != 0 {
		t.Fatalf("status %d:\n%s%s", result.Status, result.Out, result.Err)
	}
	t.Log(result.Out)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var r report
	if err := json.Unmarshal(text, &r); err != nil {
		t.Fatal(err)
	}
	return r
}

// On one base and on several, with a connection for each request and with connections that stay.
func TestRollingUpdateLosesNothingThroughKubeProxy(t *testing.T) {
	r := runInto(t, "through-kube-proxy.yaml")
	if len(r.Runs) != 2 {
		t.Errorf("%d runs", len(r.Runs))
	}
	routes := map[string]string{"service": "kube-proxy", "kept": "kube-proxy", "bases": "bases"}
	for _, run := range r.Runs {
		if len(run.Traffic) != len(routes) {
			t.Errorf("%d streams", len(run.Traffic))
		}
		for _, s := range run.Traffic {
			if s.Route != routes[s.Name] || s.Sent == 0 || s.Lost != 0 {
				t.Errorf("stream %+v, want it through %s without a loss", s, routes[s.Name])
			}
		}
	}
}

// What kube-proxy rejects is told from what a base refuses.
func TestServiceWithoutEndpointsLosesRequestsThroughKubeProxy(t *testing.T) {
	for _, run := range runInto(t, "lost-through-kube-proxy.yaml").Runs {
		for _, s := range run.Traffic {
			if s.Route != "kube-proxy" || s.Results["noEndpoint"] == 0 {
				t.Errorf("stream %+v", s)
			}
		}
	}
}
