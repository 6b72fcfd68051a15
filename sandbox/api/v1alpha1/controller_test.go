package v1alpha1_test

import (
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

const commandFile = `apiVersion: sandbox.koupleless.io/v1alpha1
kind: Sandbox
spec:
  controller:
    replicas: 2
    command: [./run, controller]
    args: ["--broker={{.BrokerHost}}:{{.BrokerPort}}", "{{if .BrokerCA}}--ca={{.BrokerCA}}{{end}}", "", "--config={{.Files}}/app.yaml"]
    env: {MQTT_PORT: "{{.BrokerPort}}", SHARED: "{{gt .Replicas 1}}"}
    files: {app.yaml: "client: {{.ClientID}}\n"}
    workingDir: bin
    ready: {http: /readyz}
`

func command(t *testing.T, text string) *v1alpha1.Controller {
	t.Helper()
	s, origins, err := v1alpha1.Decode("conf/koup.yaml", []byte(text))
	if err := v1alpha1.Complete(s, origins, err); err != nil {
		t.Fatal(err)
	}
	return &s.Spec.Controller
}

func TestProcessOfCustomController(t *testing.T) {
	c := command(t, commandFile)
	if c.Location != v1alpha1.LocationHost {
		t.Errorf("location = %q, want host", c.Location)
	}
	got, err := c.Process(v1alpha1.ControllerValues{BrokerHost: "127.0.0.1", BrokerPort: 1883, ClientID: "me",
		Replicas: 2,
		Files:    "/state/files", HealthAddr: "127.0.0.1:81"})
	if err != nil {
		t.Fatal(err)
	}
	dir, err := filepath.Abs("conf/bin")
	if err != nil {
		t.Fatal(err)
	}
	want := &v1alpha1.ControllerProcess{
		Path: "./run", Args: []string{"controller", "--broker=127.0.0.1:1883", "", "--config=/state/files/app.yaml"},
		Env: map[string]string{"MQTT_PORT": "1883", "SHARED": "true"}, Dir: dir,
		Files: map[string]string{"app.yaml": "client: me\n"}, ReadyURL: "http://127.0.0.1:81/readyz",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("process (-want +got):\n%s", diff)
	}
}

func TestBundledControllerAsCommand(t *testing.T) {
	c := command(t, string(read(t, "testdata/command.yaml")))
	got, err := c.Process(v1alpha1.ControllerValues{BrokerPort: 1883, Env: "dev", HealthAddr: "127.0.0.1:81",
		Replicas: 1})
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"MQTT_PORT": "1883", "ENV": "dev", "IS_CLUSTER": "false", "MQTT_CA_PATH": "",
		"HEALTH_ADDR": "127.0.0.1:81"}
	for name, value := range want {
		if is, has := got.Env[name]; !has || is != value {
			t.Errorf("%s = %q, want %q", name, is, value)
		}
	}
	if got.Path != "module-controller" || got.ReadyURL != "http://127.0.0.1:81/readyz" {
		t.Errorf("program %s, ready URL %s", got.Path, got.ReadyURL)
	}
}

func TestReadyLogOfCustomController(t *testing.T) {
	c := command(t, "apiVersion: sandbox.koupleless.io/v1alpha1\nkind: Sandbox\nspec:\n  controller:\n    command: "+
		"[java]\n    ready: {log: 'Started \\w+'}\n")
	got, err := c.Process(v1alpha1.ControllerValues{})
	if err != nil || got.ReadyURL != "" || !got.ReadyLog.MatchString("Started Controller in 2 s") {
		t.Errorf("process = %+v (%v)", got, err)
	}
	if dir, err := filepath.Abs("conf"); err != nil || got.Dir != dir {
		t.Errorf("working directory = %s, want the directory of the file, %s (%v)", got.Dir, dir, err)
	}
}

// TestCompleteIsIdempotent checks that Complete does not change a configuration that is already complete, such as the
// configuration that the daemon receives.
func TestCompleteIsIdempotent(t *testing.T) {
	c := command(t, commandFile)
	s := &v1alpha1.Sandbox{Spec: v1alpha1.Spec{Controller: *c}}
	if err := v1alpha1.Complete(s, &v1alpha1.Origins{}, nil); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(*c, s.Spec.Controller,
		cmp.Comparer(func(a, b *regexp.Regexp) bool { return a.String() == b.String() })); diff != "" {
		t.Errorf("second Complete (-first +second):\n%s", diff)
	}
}

func TestUnmet(t *testing.T) {
	own, theirs := &v1alpha1.Controller{}, command(t, commandFile)
	one, two, three := 1, 2, 3
	for name, tc := range map[string]struct {
		of    *v1alpha1.Controller
		needs *v1alpha1.ControllerNeeds
		want  string
	}{
		"the sandbox's own has all": {own,
			&v1alpha1.ControllerNeeds{Replicas: &three, Env: map[string]string{"A": "b"}}, ""},
		"no needs":       {theirs, nil, ""},
		"fewer replicas": {theirs, &v1alpha1.ControllerNeeds{Replicas: &one}, ""},
		"as many, a known variable": {theirs,
			&v1alpha1.ControllerNeeds{Replicas: &two, Env: map[string]string{"SHARED": "b"}}, ""},
		"neither": {theirs, &v1alpha1.ControllerNeeds{Replicas: &three, Env: map[string]string{"A": "b"}},
			"replicas 3 spec.controller.replicas: 2; A spec.controller.env"},
	} {
		err := tc.of.Unmet(tc.needs)
		if (err != nil) != (tc.want != "") {
			t.Errorf("%s: %v", name, err)
		}
		for word := range strings.FieldsSeq(tc.want) {
			if !strings.Contains(err.Error(), word) {
				t.Errorf("%s: error lacks %q: %v", name, word, err)
			}
		}
	}
}
