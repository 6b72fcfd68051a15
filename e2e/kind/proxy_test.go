package kind

import (
	"encoding/json"
	"os"
	"path/filepath"
	"testing"
)

// TestRollingUpdateThroughKubeProxy checks that rolling updates lose no requests through kube-proxy, with persistent
// connections as well as with a new connection for each request. The catalogue tests the other rolling updates on
// kind.
func TestRollingUpdateThroughKubeProxy(t *testing.T) {
	file := filepath.Join(t.TempDir(), "report.json")
	must(t, shared.Must(t.Context(), "scenario", "run", "--json", file, "testdata/through-kube-proxy.yaml"))
	text, err := os.ReadFile(file)
	must(t, err)
	var report struct {
		Runs []struct {
			Traffic []struct {
				Name, Route string
				Sent, Lost  int
			}
		}
	}
	must(t, json.Unmarshal(text, &report))
	if len(report.Runs) != 2 {
		t.Errorf("%d runs, want 2", len(report.Runs))
	}
	routes := map[string]string{"service": "kube-proxy", "kept": "kube-proxy", "bases": "bases"}
	for _, run := range report.Runs {
		if len(run.Traffic) != len(routes) {
			t.Errorf("there are %d streams", len(run.Traffic))
		}
		for _, s := range run.Traffic {
			if s.Route != routes[s.Name] || s.Sent == 0 || s.Lost != 0 {
				t.Errorf("stream %+v, want route %s and no lost requests", s, routes[s.Name])
			}
		}
	}
}
