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
	result, err := shared.Run(t.Context(), "scenario", "run", "--json", file, scenario)
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

// Rolling updates lose no request: on both tunnels and in every activation mode that can switch, and on one
// base and on several, with a connection for each request and with connections that stay.
func TestRollingUpdatesLoseNothingThroughKubeProxy(t *testing.T) {
	routes := map[string]string{"service": "kube-proxy", "kept": "kube-proxy", "bases": "bases"}
	for scenario, want := range map[string]struct{ runs, streams int }{
		"../../scenarios/rolling-update.yaml": {5, 2}, "testdata/through-kube-proxy.yaml": {2, 3},
	} {
		r := runInto(t, scenario)
		if len(r.Runs) != want.runs {
			t.Errorf("%s has %d runs", scenario, len(r.Runs))
		}
		for _, run := range r.Runs {
			if len(run.Traffic) != want.streams {
				t.Errorf("%s has %d streams", scenario, len(run.Traffic))
			}
			for _, s := range run.Traffic {
				if s.Route != routes[s.Name] || s.Sent == 0 || s.Lost != 0 {
					t.Errorf("%s: stream %+v, want it through %s without a loss", scenario, s, routes[s.Name])
				}
			}
		}
	}
}

// What kube-proxy rejects is told from what a base refuses.
func TestServiceWithoutEndpointsLosesRequestsThroughKubeProxy(t *testing.T) {
	for _, run := range runInto(t, "testdata/lost-through-kube-proxy.yaml").Runs {
		for _, s := range run.Traffic {
			if s.Route != "kube-proxy" || s.Results["noEndpoint"] == 0 {
				t.Errorf("stream %+v", s)
			}
		}
	}
}
