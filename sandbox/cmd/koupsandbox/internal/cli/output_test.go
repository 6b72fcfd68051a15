package cli_test

import (
	"encoding/json"
	"net"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

// serveDaemon runs a fake daemon for the sandbox koup. The map answers contains the response for each URL path.
func serveDaemon(t *testing.T, home string, answers map[string]any) {
	t.Helper()
	dir := state.Home(filepath.Join(home, ".koupsandbox")).Dir("koup")
	check.Must(t, dir.Create())
	path, err := dir.NewSocketPath()
	check.Must(t, err)
	l, err := net.Listen("unix", path)
	check.Must(t, err)
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		answer, known := answers[r.URL.Path]
		if !known {
			http.NotFound(w, r)
			return
		}
		_ = json.NewEncoder(w).Encode(answer)
	}))
	server.Listener = l
	server.Start()
	t.Cleanup(server.Close)
}

// TestControlCharactersAreEscaped checks that control characters are escaped in versions, names and reasons, because
// these texts come from bases, Pods and clusters.
func TestControlCharactersAreEscaped(t *testing.T) {
	const evil = "1\x1b[2J\u009b3\u202e\t4\n5"
	home := t.TempDir()
	dir := state.Home(filepath.Join(home, ".koupsandbox")).Dir("koup")
	base := control.Base{HostName: "base-1", Name: evil, Version: evil, Node: evil, Modules: []string{evil},
		Running: true, Ready: true, Connected: true}
	status := control.Status{Name: "koup", Phase: control.Running, Version: evil, Env: evil, Problems: []string{evil},
		BaseCount: 1, StartedAt: time.Now(),
		Components: []control.Component{{Name: "module-controller", State: "running", Reason: evil, Pod: evil},
			{Name: "etcd", Exit: evil, Reason: evil}}, Bases: []control.Base{base}}
	serveDaemon(t, home, map[string]any{"/Status": status, "/Bases": []control.Base{base}})
	if err := state.WriteFile(dir.Config(), nil); err != nil { // list looks for this file
		t.Fatal(err)
	}
	for line, shown := range map[string]int{"status": 7, "status -o wide": 10, "base list": 1, "base list -o wide": 4,
		"list": 1} {
		r := run(t, home, strings.Fields(line)...)
		if r.Err != "" || strings.ContainsAny(r.Out, "\x1b\u009b\u202e\t") {
			t.Errorf("%s prints control characters: %q, %q", line, r.Out, r.Err)
		}
		if n := strings.Count(r.Out, `1\x1b[2J\u009b3\u202e`); n != shown {
			t.Errorf("%s prints the text %d times, want %d:\n%s", line, n, shown, r.Out)
		}
	}
	for _, line := range []string{"base list", "base list -o wide", "list"} { // each row is one line
		if r := run(t, home, strings.Fields(line)...); strings.Count(r.Out, "\n") != 2 {
			t.Errorf("%s does not print two lines:\n%s", line, r.Out)
		}
	}
	var got []control.Base
	if r := run(t, home, "base", "list", "-o", "json"); json.Unmarshal([]byte(r.Out), &got) != nil || len(got) != 1 ||
		got[0].Version != evil {
		t.Errorf("JSON does not have the original text: %+v", r)
	}
}

// TestBaseListPrintsFixes checks that base list prints a fix for each base that is not running.
func TestBaseListPrintsFixes(t *testing.T) {
	home := t.TempDir()
	serveDaemon(t, home, map[string]any{"/Status": control.Status{Name: "koup", Phase: control.Running},
		"/Bases": []control.Base{
			{HostName: "base-1", IP: "198.18.0.1", Running: true, Ready: true, Connected: true, NodeReady: true,
				Node: "n", Health: "UP", Metaspace: events.Metaspace{Used: 57 << 20, Max: 256 << 20},
				ReleasesLeft: "7"},
			{HostName: "base-2", IP: "198.18.0.2"},
			{HostName: "base-3", IP: "198.18.0.3", Running: true},
			{HostName: "base-4", IP: "198.18.0.4", Running: true, Ready: true, Faults: 1},
			{HostName: "base-5", IP: "198.18.0.5", Reason: "its container was killed"},
		}})
	want := result{0, `BASE     ADDRESS      STATE          HEALTH   NODE READY   MODULES   FAULTS   NODE
base-1   198.18.0.1   running        UP       true         0         0        n
base-2   198.18.0.2   crashed                 false        0         0        
base-3   198.18.0.3   starting                false        0         0        
base-4   198.18.0.4   disconnected            false        0         1        
base-5   198.18.0.5   crashed                 false        0         0        

base-2 has crashed; restart it with: koupsandbox base restart base-2
base-4 is disconnected; to list its faults, run: koupsandbox fault list --base base-4
base-5 has exited: its container was killed; remove it with: koupsandbox base remove base-5
`, ""}
	if diff := cmp.Diff(want, run(t, home, "base", "list")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	wide := run(t, home, "base", "list", "-o", "wide").Out
	for _, text := range []string{"METASPACE      RELEASES LEFT", "57.0/256 MiB   7", "unknown"} {
		if !strings.Contains(wide, text) {
			t.Errorf("the wide list lacks %q:\n%s", text, wide)
		}
	}
}
