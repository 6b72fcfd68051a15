package supervise

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// poison has variables that change the settings of a component, or are secrets.
var poison = []string{
	"METRICS_ADDR=:9090", "REPORT_HOOKS=https://chat.example", "HTTP_TUNNEL_TOKEN=t", "MQTT_CA_PATH=/ca", "TIME_SCALE=9", "PROFILING=true",
	"ETCD_NAME=x", "AWS_SECRET_ACCESS_KEY=s", "KUBE_FEATURE_WatchListClient=false", "GITLAB_TOKEN=t", "HTTPS_PROXY=http://proxy.example", "PATHS=x", "DOCKER_AUTH_CONFIG={}",
}

var regexpDone = regexp.MustCompile("^done$")

func TestEnviron(t *testing.T) {
	ordinary := []string{"PATH=/bin", "HOME=/home/me", "JAVA_HOME=/jdk", "LC_ALL=C"}
	all := slices.Concat(ordinary, []string{"GOMAXPROCS=2", "DOCKER_HOST=unix:///d"}, poison)
	for name, tc := range map[string]struct{ got, want []string }{
		"script":                       {ScriptEnviron(all), ordinary},
		"component":                    {ComponentEnviron(all), append(ordinary[:4:4], "GOMAXPROCS=2")},
		"daemon":                       {DaemonEnviron(all, false), append(ordinary[:4:4], "GOMAXPROCS=2", "DOCKER_HOST=unix:///d", "HTTPS_PROXY=http://proxy.example")},
		"daemon with existing cluster": {DaemonEnviron(all, true), all}, // for programs that fetch credentials
		"nothing":                      {ComponentEnviron(poison), []string{}},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// A component gets its own variables, and only the listed variables of this process. A restarted component gets
// the same variables.
func TestAComponentHasACleanEnvironment(t *testing.T) {
	for _, variable := range poison {
		name, value, _ := strings.Cut(variable, "=")
		t.Setenv(name, value)
	}
	t.Setenv("TZ", "UTC")
	dir := t.TempDir()
	s := New(Options{Dir: filepath.Join(dir, "run")})
	log := filepath.Join(dir, "log")
	spec := Spec{Name: "a", Path: "/bin/sh", Args: []string{"-c", "env; echo done; sleep 600"}, Env: []string{"OWN=yes"}, LogFile: log, ReadyLog: regexpDone}
	if err := s.Start(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Kill("a"); err != nil {
			t.Error(err)
		}
	})
	for range 2 {
		if err := s.WaitReady(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
		text, err := os.ReadFile(log)
		if err != nil {
			t.Fatal(err)
		}
		for _, variable := range poison {
			if strings.Contains(string(text), variable) {
				t.Errorf("the component has %s", variable)
			}
		}
		if !strings.Contains(string(text), "OWN=yes\n") || !strings.Contains(string(text), "TZ=UTC\n") {
			t.Errorf("the component has only\n%s", text)
		}
		if err := s.Restart(t.Context(), "a"); err != nil {
			t.Fatal(err)
		}
	}
}
