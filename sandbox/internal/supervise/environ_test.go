package supervise

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// foreign lists variables that must not be inherited, because they contain secrets or change the settings of a
// component.
var foreign = []string{
	"METRICS_ADDR=:9090", "REPORT_HOOKS=https://chat.example", "HTTP_TUNNEL_TOKEN=t", "MQTT_CA_PATH=/ca",
	"TIME_SCALE=9", "PROFILING=true",
	"ETCD_NAME=x", "AWS_SECRET_ACCESS_KEY=s", "KUBE_FEATURE_WatchListClient=false", "GITLAB_TOKEN=t",
	"HTTPS_PROXY=http://proxy.example", "PATHS=x", "DOCKER_AUTH_CONFIG={}",
}

func TestEnviron(t *testing.T) {
	ordinary := []string{"PATH=/bin", "HOME=/home/me", "JAVA_HOME=/jdk", "LC_ALL=C"}
	all := slices.Concat(ordinary, []string{"GOMAXPROCS=2", "DOCKER_HOST=unix:///d"}, foreign)
	for name, tc := range map[string]struct{ got, want []string }{
		"script":    {ScriptEnviron(all), ordinary},
		"component": {ComponentEnviron(all), append(ordinary[:4:4], "GOMAXPROCS=2")},
		"daemon": {DaemonEnviron(all, false),
			append(ordinary[:4:4], "GOMAXPROCS=2", "DOCKER_HOST=unix:///d", "HTTPS_PROXY=http://proxy.example")},
		"daemon with existing cluster": {DaemonEnviron(all, true), all}, // for credential plugins
		"no common variables":          {ComponentEnviron(foreign), []string{}},
	} {
		if diff := cmp.Diff(tc.want, tc.got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}
