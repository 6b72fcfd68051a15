package main

import (
	"bytes"
	"encoding/json"
	"go/parser"
	"go/token"
	"maps"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// patience of the tests, for a busy machine.
const patience = 30 * time.Second

// programs is the folder of the built programs.
var programs = filepath.Join("..", "..", "bin")

// This repository's controller meets every expectation, but those of known.yaml.
func TestConformance(t *testing.T) { conforms(t) }

// Two of them share bases.
func TestTwoControllers(t *testing.T) {
	conforms(t, "--replicas", "2", "--run", "^(sharing|restart)/")
}

func conforms(t *testing.T, args ...string) {
	t.Parallel()
	s, err := parse(append([]string{"--bin", programs, "--patience", patience.String()}, args...), t.Output())
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.run(t.Context(), own)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range r.Results {
		t.Run(one.Name, func(t *testing.T) {
			t.Logf("%s (%s)\n%s after %.1f s: %s", one.Text, one.Source, one.mark(), one.Seconds, one.about())
			switch {
			case one.wrong() != "":
				t.Error(one.wrong())
			case one.Outcome == fails && one.Known == "" && one.Level != original:
				t.Error("if it is to fail for now, write it into known.yaml")
			case one.Outcome == skipped:
				t.Skip(one.Evidence)
			}
		})
	}
	t.Logf("%s in %.1f s", r.counts(), r.Seconds)
}

// A controller that is Ready before its modules are does not pass.
func TestNaiveControllerFails(t *testing.T) {
	t.Parallel()
	program := filepath.Join(t.TempDir(), "naive")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", program, "../own/naive").CombinedOutput(); err != nil {
		t.Fatalf("building the naive controller: %v\n%s", err, out)
	}
	var out bytes.Buffer
	err := execute(t.Context(), []string{
		"--bin", programs, "--patience", "3s", "--list-interval", "2s", "--run", "^(node/appears-mqtt|answer/(failed|success-not-listed)-mqtt|delete/order-mqtt)$", "-o", "json",
		"--env", "KUBECONFIG={{.Kubeconfig}}", "--env", "BROKER=tcp://{{.BrokerHost}}:{{.BrokerPort}}", "--env", "BROKER_USER={{.BrokerUser}}",
		"--env", "BROKER_PASSWORD={{.BrokerPassword}}", "--env", "ENVIRONMENT={{.Env}}", "--env", "INSTANCE={{.ClientPrefix}}@@@{{.ClientID}}",
		"--env", "HEALTH={{.HealthAddr}}", "--ready", "/", "--controller", program,
	}, &out, t.Output())
	if err == nil {
		t.Fatalf("it passes:\n%s", out.String())
	}
	var r report
	if err := json.Unmarshal(out.Bytes(), &r); err != nil {
		t.Fatalf("%v: reading %q", err, out.String())
	}
	got := map[string]outcome{}
	for _, one := range r.Results {
		t.Logf("%s %s: %s", one.Outcome, one.Name, one.Evidence)
		got[one.Name] = one.Outcome
	}
	want := map[string]outcome{
		"node/appears-mqtt": holds, "answer/failed-mqtt": fails, "answer/success-not-listed-mqtt": fails, "delete/order-mqtt": fails,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// Every expectation says what it is, under a name of its own.
func TestExpectations(t *testing.T) {
	names := map[string]bool{}
	for _, e := range all() {
		switch {
		case names[e.Name]:
			t.Errorf("two expectations are called %q", e.Name)
		case !regexp.MustCompile(`^[a-z]+/[a-z0-9.-]+$`).MatchString(e.Name), e.Text == "", e.Source == "", e.Check == nil:
			t.Errorf("expectation %q lacks something: %+v", e.Name, e)
		case e.Level != must && e.Level != should && e.Level != original:
			t.Errorf("expectation %q has the level %q", e.Name, e.Level)
		}
		names[e.Name] = true
	}
	if len(names) < 100 {
		t.Errorf("there are %d expectations", len(names))
	}
}

// The program is a reading of the protocol apart from the controller's and from fakebase's.
func TestIndependent(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil || len(files) < 10 {
		t.Fatalf("%d files, error %v", len(files), err)
	}
	for _, name := range files {
		f, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ImportsOnly)
		if err != nil {
			t.Fatal(err)
		}
		for _, i := range f.Imports {
			for _, other := range []string{"controller", "fakebase"} {
				if strings.HasPrefix(strings.Trim(i.Path.Value, `"`), "github.com/koupleless/koupsandbox/"+other) {
					t.Errorf("%s imports %s", name, i.Path.Value)
				}
			}
		}
	}
}

// Our own controller with settings that take a behaviour away fails the expectations of it.
func TestSettingsThatTakeBehaviourAway(t *testing.T) {
	t.Parallel()
	without := map[string]string{
		"answer/lost-mqtt":                "",
		"node/silence-mqtt":               "BASE_DEAD_AFTER=1h",
		"node/intervals":                  "LIST_INTERVAL=1h",
		"release/biz-deactivate":          "FAILED_PODS=never",
		"status/sample-tolerations":       "LEAVE_POD_TOLERATIONS=true",
		"workload/peer-replicas":          "ENABLE_MODULE_DEPLOYMENT_CONTROLLER=false",
		"command/baseline-mqtt":           "",
		"workload/peer-other-environment": "",
	}
	args := []string{"--bin", programs, "--patience", "8s", "--run", "^(" + strings.Join(slices.Sorted(maps.Keys(without)), "|") + ")$"}
	for _, setting := range without {
		if setting != "" {
			args = append(args, "--env", setting)
		}
	}
	s, err := parse(args, t.Output())
	if err != nil {
		t.Fatal(err)
	}
	r, err := s.run(t.Context(), own)
	if err != nil {
		t.Fatal(err)
	}
	for _, one := range r.Results {
		t.Logf("%s %s: %s", one.Outcome, one.Name, one.Evidence)
		want := fails
		switch one.Name {
		case "answer/lost-mqtt", // a list is asked for when an answer does not come
			"workload/peer-other-environment": // nothing of it is taken away
			want = holds
		}
		if one.Outcome != want {
			t.Errorf("%s %s", one.Name, one.Outcome)
		}
	}
	if len(r.Results) != len(without) {
		t.Errorf("%d expectations were checked", len(r.Results))
	}
}
