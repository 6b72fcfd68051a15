package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

const badScenario = `apiVersion: sandbox.koupleless.io/v1alpha1
kind: Scenario
metadata: {name: bad}
spec:
  description: Mistakes.
  vars: {a: 1}
  steps:
    - {sleep: {for: 1s}}
    - assert: {cel: "pods.al(p, true)"}
`

// TestInvalidScenario checks that run reports all errors in a scenario with their line numbers and starts nothing.
func TestInvalidScenario(t *testing.T) {
	home := t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(home, "bad.yaml"), []byte(badScenario), 0o600))
	const excerpt = "\n    pods.al(p, true)\n           ^\n"
	const problems = "HOME/bad.yaml:6: spec.vars.a: HOME/bad.yaml:8: spec.steps[0].sleep.reason: Required " +
		"HOME/bad.yaml:9: spec.steps[1].assert.cel: al; all?"
	for _, line := range []string{"run", "run --up", "run --dry-run", "list"} {
		got := run(t, home, append(append([]string{"scenario"}, strings.Fields(line)...), "HOME/bad.yaml")...)
		got.expect(t, 2, excerpt+"see: koupsandbox scenario explain\n", problems)
	}
	got := run(t, home, "scenario", "lint", "HOME/bad.yaml")
	if got.Code != 1 || got.Err != "" || strings.Count(got.Out, ": error: ") != 3 ||
		strings.Count(got.Out, " [scenario]\n") != 3 || !strings.HasSuffix(got.Out, excerpt) {
		t.Errorf("lint: %+v", got)
	}
	check.ContainsWords(t, got.Out, problems)
	if _, err := os.Stat(filepath.Join(home, ".koupsandbox")); err == nil {
		t.Error("a state directory was created")
	}
}

// TestNewScenario checks that the scenario template is valid without changes.
func TestNewScenario(t *testing.T) {
	home := t.TempDir()
	want := result{0, "HOME/my-first.yaml\n\nRun it with: koupsandbox scenario run --up HOME/my-first.yaml\n", ""}
	if diff := cmp.Diff(want, run(t, home, "scenario", "new", "--dir", "HOME", "my-first")); diff != "" {
		t.Fatalf("new (-want +got):\n%s", diff)
	}
	schema, err := os.ReadFile(filepath.Join(home, "scenario.schema.json"))
	if err != nil || string(schema) != string(v1alpha1.ScenarioSchema) {
		t.Errorf("the schema file differs from the schema (error %v)", err)
	}
	for _, tc := range []struct {
		args []string
		want result
	}{
		{[]string{"scenario", "lint", "HOME"}, result{0, "", ""}},
		{[]string{"scenario", "run", "--dry-run", "--repeat", "3", "HOME/my-first.yaml"},
			result{0, "my-first tunnel=mqtt\nmy-first tunnel=http\n\n6 runs of 1 scenario; all are valid.\n", ""}},
		{[]string{"scenario", "run", "--dry-run", "--var", "new=3.0.0", "--selector", "group=rollout,name=my-first",
			"HOME"},
			result{0, "my-first tunnel=mqtt\nmy-first tunnel=http\n\n2 runs of 1 scenario; all are valid.\n", ""}},
		{[]string{"scenario", "list", "HOME"}, result{0, "NAME       RUNS   LABELS          DESCRIPTION\n" +
			"my-first   2      group=rollout   A rolling update loses no request.\n", ""}},
	} {
		if diff := cmp.Diff(tc.want, run(t, home, tc.args...)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.args, diff)
		}
	}
	run(t, home, "scenario", "new", "--dir", "HOME", "my-first").expect(t, 2, seeHelp("scenario new"),
		"HOME/my-first.yaml --dir")
	run(t, home, "scenario", "run", "--provider", "kind", "HOME/my-first.yaml").expect(t, 2, seeHelp("scenario run"),
		"--provider --up")
	run(t, home, "scenario", "run", "--up", "--provider", "kind", "--nodes", "11", "HOME/my-first.yaml").expect(t, 2,
		seeHelp("scenario run"), "--nodes: 11: 1 10")
	run(t, home, "scenario", "run", "HOME/my-first.yaml").expect(t, 2, seeHelp("scenario run"), `"koup" --up`)
}

// TestSettingsRequireUp checks that sandbox settings on the command line are rejected without --up. Settings in
// environment variables must be ignored, because they also apply to other commands.
func TestSettingsRequireUp(t *testing.T) {
	home := t.TempDir()
	run(t, home, "scenario", "new", "--dir", "HOME", "s")
	env := map[string]string{"KOUPSANDBOX_CONFIG": "sandbox.yaml", "KOUPSANDBOX_ENV": "test",
		"KOUPSANDBOX_PROVIDER": "kind", "KOUPSANDBOX_ENGINE": "docker",
		"KIND_EXPERIMENTAL_PROVIDER": "podman", "KOUPSANDBOX_BROKER": "mqtt://broker:1883",
		"KOUPSANDBOX_BROKER_USERNAME": "me", "KOUPSANDBOX_WAIT": "2m"}
	for _, flag := range []string{"--config=x.yaml", "--base-runtime cluster", "--env test", "--provider kind",
		"-provider=kind", "--engine podman", "--nodes 2",
		"--image x", "--k8s-version v1.37.2", "--controller host", "--context x", "--kubeconfig x",
		"--allow-unmarked-cluster", "--durable", "--broker-tls",
		"--broker mqtt://broker:1883", "--broker-username me", "--broker-password-file x", "--broker-ca x",
		"--broker-cert x", "--broker-key x",
		"--broker-consent", "--controllers 2", "--wait 2m"} {
		name, _, _ := strings.Cut(strings.Fields(flag)[0], "=")
		line := append(append([]string{"scenario", "run", "--dry-run"}, strings.Fields(flag)...), "HOME/s.yaml")
		for _, env := range []map[string]string{nil, env} {
			runWith(t, home, env, line...).expect(t, 2, seeHelp("scenario run"),
				"--"+strings.TrimLeft(name, "-")+" --up")
		}
	}
	if got := runWith(t, home, env, "scenario", "run", "--dry-run", "HOME/s.yaml"); got.Code != 0 {
		t.Errorf("with environment variables: %+v", got)
	}
}

func TestScenarioRejectsInvalidArguments(t *testing.T) {
	home := t.TempDir()
	run(t, home, "scenario", "new", "--dir", "HOME", "s")
	const explain = "\nsee: koupsandbox scenario explain\n"
	for _, tc := range []struct {
		args        []string
		hint, names string
	}{
		{[]string{"run"}, seeHelp("scenario run"), "run file"},
		{[]string{"run", "HOME/none.yaml"}, explain, "HOME/none.yaml:"},
		{[]string{"run", "--parallel", "0", "HOME/s.yaml"}, seeHelp("scenario run"), "--parallel 1"},
		{[]string{"run", "--var", "new", "HOME/s.yaml"}, seeHelp("scenario run"), `--var "new" NAME=VALUE`},
		{[]string{"run", "--var", "newer=1", "HOME/s.yaml"}, explain, "--var newer: new?"},
		{[]string{"run", "--selector", "group in (", "HOME/s.yaml"}, seeHelp("scenario run"),
			`--selector "group in ("`},
		{[]string{"run", "--selector", "group=base", "HOME/s.yaml"}, explain, "koupsandbox scenario list"},
		{[]string{"run", "--from-step", "updat", "HOME/s.yaml"}, seeHelp("scenario run"),
			`"updat"; install, Service/biz1, Deployment/biz1 (2), version, stop`},
		{[]string{"new", "No"}, seeHelp("scenario new"), `"No" 63`},
		{[]string{"lint", "-"}, seeHelp("scenario lint"), "input"},
		{[]string{"lint", "HOME/none.yaml"}, seeHelp("scenario lint"), "HOME/none.yaml:"},
	} {
		run(t, home, append([]string{"scenario"}, tc.args...)...).expect(t, 2, tc.hint, tc.names)
	}
}

func TestLintManifests(t *testing.T) {
	home := t.TempDir()
	const pod = `apiVersion: v1
kind: Pod
metadata: {name: p}
spec:
  nodeSelector: {base.koupleless.io/name: base}
  tolerations: [{operator: Exists}]
  containers: [{name: biz1, image: "https://modules.example/biz1-1.0.0-ark-biz.jar", env: [{name: BIZ_VERSION, value: 1.0.0}]}]
`
	check.Must(t, os.WriteFile(filepath.Join(home, "pod.yaml"), []byte(pod), 0o600))
	for _, path := range []string{"HOME", "HOME/pod.yaml"} {
		got := run(t, home, "scenario", "lint", path)
		if got.Code != 1 || got.Err != "" || !strings.HasPrefix(got.Out, "HOME/pod.yaml:3: Pod/p: error: ") ||
			!strings.HasSuffix(got.Out, " [component-missing]\n") {
			t.Errorf("%s: %+v", path, got)
		}
		check.ContainsWords(t, got.Out, "virtual-kubelet.koupleless.io/component: module")
	}
	// Without --env, lint cannot check a toleration of a specific environment.
	named := strings.ReplaceAll(pod, "[{operator: Exists}]",
		"[{key: schedule.koupleless.io/virtual-node, operator: Exists}, {key: "+
			"schedule.koupleless.io/node-env, value: test}]")
	named = strings.ReplaceAll(named, "{name: p}",
		"{name: p, labels: {virtual-kubelet.koupleless.io/component: module}}")
	check.Must(t, os.WriteFile(filepath.Join(home, "named.yaml"), []byte(named), 0o600))
	got := run(t, home, "scenario", "lint", "HOME/named.yaml")
	if got.Code != 0 || got.Out != "" || strings.Count(got.Err, "\n") != 1 {
		t.Errorf("without --env: %+v", got)
	}
	check.ContainsWords(t, got.Err, "test --env")
	if diff := cmp.Diff(result{0, "", ""},
		run(t, home, "scenario", "lint", "--env", "test", "HOME/named.yaml")); diff != "" {
		t.Errorf("with --env (-want +got):\n%s", diff)
	}
	// The bundled controller adds the toleration of its environment.
	without := strings.Replace(named, ", {key: schedule.koupleless.io/node-env, value: test}", "", 1)
	check.Must(t, os.WriteFile(filepath.Join(home, "without.yaml"), []byte(without), 0o600))
	got = run(t, home, "scenario", "lint", "--env", "test", "HOME/without.yaml")
	if got.Code != 0 || !strings.HasSuffix(got.Out, " [toleration-env]\n") {
		t.Errorf("without a toleration of an environment: %+v", got)
	}
	check.ContainsWords(t, got.Out, "warning bundled ModuleController V2")
	got = run(t, home, "scenario", "lint", "--env", "dev", "HOME/named.yaml")
	if got.Code != 1 || !strings.HasSuffix(got.Out,
		"; tolerate the taint of that environment, or set --env and spec.env to your environment "+
			"[toleration-other-env]\n") {
		t.Errorf("with a toleration of another environment: %+v", got)
	}
	r := run(t, home, "scenario", "lint", "-o", "json", "HOME/pod.yaml")
	if r.Code != 1 || !strings.Contains(r.Out, `"rule": "component-missing"`) || !strings.Contains(r.Out, `"line": 3`) {
		t.Errorf("as JSON: %+v", r)
	}
	if diff := cmp.Diff(result{0, "[]\n", ""},
		run(t, home, "scenario", "lint", "-o", "json", "--env", "test", "HOME/named.yaml")); diff != "" {
		t.Errorf("as JSON, without findings (-want +got):\n%s", diff)
	}
}

// TestLintWithoutInput checks that lint lists the items that it could not check, and that it fails if there is
// nothing to check.
func TestLintWithoutInput(t *testing.T) {
	const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {selector: {app: s}}\n"
	const rollout = "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: r}\nspec: " +
		"{workloadRef: {name: r}}\n"
	const nginx = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: nginx}]}\n"
	const nothing = "koupsandbox: HOME/f.yaml "
	for name, c := range map[string]struct {
		text, names string
		code        int
	}{
		"empty":             {"", nothing + "none", 2},
		"an empty object":   {"{}", "1 " + nothing + "none", 2},
		"a ConfigMap":       {configMap, nothing + "ConfigMap/c", 2},
		"a Service":         {service, nothing + "Service/s", 2},
		"a custom resource": {rollout, "Rollout/r: argoproj.io/v1alpha1 " + nothing + "Rollout/r", 2},
		"no module": {nginx,
			"(1) virtual-kubelet.koupleless.io/component: schedule.koupleless.io/virtual-node BIZ_VERSION", 0},
		"no module, and a Rollout": {nginx + "---\n" + rollout, "Rollout/r: argoproj.io/v1alpha1 (1) BIZ_VERSION", 0},
	} {
		home := t.TempDir()
		check.Must(t, os.WriteFile(filepath.Join(home, "f.yaml"), []byte(c.text), 0o600))
		got := run(t, home, "scenario", "lint", "HOME/f.yaml")
		if got.Code != c.code || got.Out != "" ||
			strings.HasSuffix(got.Err, seeHelp("scenario lint")) != (c.code == 2) {
			t.Errorf("%s: %+v", name, got)
		}
		check.ContainsWords(t, got.Err, c.names)
	}
}

// TestLintIrregularFiles checks that lint of a directory reads only regular files. A dangling symbolic link must not
// stop lint. Lint must not read a named pipe, because the read would block.
func TestLintIrregularFiles(t *testing.T) {
	home := t.TempDir()
	check.Must(t, os.Symlink("missing", filepath.Join(home, "a.yaml")))
	check.Must(t, syscall.Mkfifo(filepath.Join(home, "b.yaml"), 0o600))
	check.Must(t, os.WriteFile(filepath.Join(home, "c.yaml"), []byte("apiVersion: apps/v1\nkind: Deploymnet\n"), 0o600))
	got := run(t, home, "scenario", "lint", "HOME")
	if got.Code != 1 || !strings.Contains(got.Out, "Deploymnet") {
		t.Errorf("got %+v", got)
	}
	check.ContainsWords(t, got.Err, "HOME/a.yaml HOME/b.yaml")
}

func TestExplain(t *testing.T) {
	for topic, want := range map[string]string{
		"": "FIELDS of spec:", "crash": "FAULT:  crash",
		"rules":             "component-missing           error     Module Pods have the label",
		"component-missing": "RULE:   component-missing (error)",
		"steps.apply.file":  "FIELD:  step.apply.file <string>", "expressions": "vars.NAME",
	} {
		args := []string{"scenario", "explain"}
		if topic != "" {
			args = append(args, topic)
		}
		if r := run(t, t.TempDir(), args...); r.Code != 0 || r.Err != "" || !strings.Contains(r.Out, want) {
			t.Errorf("explain %s does not print %q: %+v", topic, want, r)
		}
	}
	run(t, t.TempDir(), "scenario", "explain", "colour").expect(t, 2, seeHelp("scenario explain"),
		`"colour" crash component-missing`)
	if r := run(t, t.TempDir(), "scenario", "explain",
		"--generate-bash-completion"); !strings.Contains(r.Out, "component-missing\n") ||
		!strings.Contains(r.Out, "webRefuse\n") {
		t.Errorf("completion: %+v", r)
	}
	if r := run(t, t.TempDir(), "scenario", "schema"); r.Out != string(v1alpha1.ScenarioSchema) {
		t.Errorf("schema: %+v", r)
	}
}
