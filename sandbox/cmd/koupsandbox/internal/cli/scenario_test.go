package cli_test

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/labels"

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

// A scenario with mistakes shows all of them, with their lines, and nothing is
// started.
func TestBadScenario(t *testing.T) {
	home := t.TempDir()
	check.Must(t, os.WriteFile(filepath.Join(home, "bad.yaml"), []byte(badScenario), 0o600))
	problems := "HOME/bad.yaml:6: spec.vars.a: nothing uses this variable: remove it\n" +
		"HOME/bad.yaml:8: spec.steps[0].sleep.reason: Required value: say why nothing else will do: waiting for what is meant is faster and surer\n" +
		"HOME/bad.yaml:9: spec.steps[1].assert.cel: there is no function al; did you mean all?\n"
	excerpt := "    pods.al(p, true)\n           ^\n"
	refused := result{2, "", "koupsandbox: the scenarios cannot be run:\n" + problems + excerpt + "see: koupsandbox scenario explain\n"}
	for _, line := range []string{"run", "run --up", "run --dry-run", "list"} {
		got := run(t, home, append(append([]string{"scenario"}, strings.Fields(line)...), "HOME/bad.yaml")...)
		if diff := cmp.Diff(refused, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", line, diff)
		}
	}
	var lines strings.Builder
	for line := range strings.SplitSeq(strings.TrimSpace(problems), "\n") {
		place, detail, _ := strings.Cut(line, ": ")
		lines.WriteString(place + ": error: " + detail + " [scenario]\n")
	}
	if diff := cmp.Diff(result{1, lines.String() + excerpt, ""}, run(t, home, "scenario", "lint", "HOME/bad.yaml")); diff != "" {
		t.Errorf("lint (-want +got):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(home, ".koupsandbox")); err == nil {
		t.Error("a state folder was made")
	}
}

// The file to start from can be run as it is.
func TestNewScenario(t *testing.T) {
	home := t.TempDir()
	want := result{0, "HOME/my-first.yaml\n\nRun it with: koupsandbox scenario run --up HOME/my-first.yaml\n", ""}
	if diff := cmp.Diff(want, run(t, home, "scenario", "new", "--dir", "HOME", "my-first")); diff != "" {
		t.Fatalf("new (-want +got):\n%s", diff)
	}
	schema, err := os.ReadFile(filepath.Join(home, "scenario.schema.json"))
	if err != nil || string(schema) != string(v1alpha1.ScenarioSchema) {
		t.Errorf("the schema beside it is not right: %v", err)
	}
	for _, tc := range []struct {
		args []string
		want result
	}{
		{[]string{"scenario", "lint", "HOME"}, result{0, "", ""}},
		{[]string{"scenario", "run", "--dry-run", "--repeat", "3", "HOME/my-first.yaml"},
			result{0, "my-first tunnel=mqtt\nmy-first tunnel=http\n\n6 runs of 1 scenario; all can be run.\n", ""}},
		{[]string{"scenario", "run", "--dry-run", "--var", "new=3.0.0", "--selector", "group=rollout,name=my-first", "HOME"},
			result{0, "my-first tunnel=mqtt\nmy-first tunnel=http\n\n2 runs of 1 scenario; all can be run.\n", ""}},
		{[]string{"scenario", "list", "HOME"}, result{0, "NAME       RUNS   LABELS          DESCRIPTION\n" +
			"my-first   2      group=rollout   A rolling update loses no request.\n", ""}},
		{[]string{"scenario", "new", "--dir", "HOME", "my-first"},
			result{2, "", "koupsandbox: there is a file HOME/my-first.yaml already: choose another name, or another --dir" + see("scenario new")}},
		{[]string{"scenario", "run", "--provider", "kind", "HOME/my-first.yaml"},
			result{2, "", "koupsandbox: --provider is for the sandbox that --up brings up: add --up, or leave it out" + see("scenario run")}},
		{[]string{"scenario", "run", "--up", "--provider", "kind", "--nodes", "11", "HOME/my-first.yaml"}, result{2, "",
			"koupsandbox: the settings cannot be used:\n--nodes: Invalid value: 11: must be between 1 and 10" + see("scenario run")}},
		{[]string{"scenario", "run", "HOME/my-first.yaml"}, result{2, "",
			"koupsandbox: sandbox \"koup\" is not up; bring it up with: koupsandbox up --name koup; or let run do it: --up" + see("scenario run")}},
	} {
		if diff := cmp.Diff(tc.want, run(t, home, tc.args...)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.args, diff)
		}
	}
}

// What the environment says is for the command up, too; what the command line says must not be
// ignored.
func TestSettingsWithoutUp(t *testing.T) {
	home := t.TempDir()
	run(t, home, "scenario", "new", "--dir", "HOME", "s")
	env := map[string]string{"KOUPSANDBOX_CONFIG": "sandbox.yaml", "KOUPSANDBOX_ENV": "test", "KOUPSANDBOX_PROVIDER": "kind", "KOUPSANDBOX_ENGINE": "docker",
		"KIND_EXPERIMENTAL_PROVIDER": "podman", "KOUPSANDBOX_BROKER": "mqtt://broker:1883", "KOUPSANDBOX_BROKER_USERNAME": "me", "KOUPSANDBOX_WAIT": "2m"}
	for _, flag := range []string{"--config=x.yaml", "--base-runtime cluster", "--env test", "--provider kind", "-provider=kind", "--engine podman", "--nodes 2",
		"--image x", "--k8s-version v1.36.3", "--controller host", "--context x", "--kubeconfig x", "--i-know-what-i-do", "--durable", "--broker-tls",
		"--broker mqtt://broker:1883", "--broker-username me", "--broker-password-file x", "--broker-ca x", "--broker-cert x", "--broker-key x",
		"--broker-consent", "--controllers 2", "--wait 2m"} {
		name, _, _ := strings.Cut(strings.Fields(flag)[0], "=")
		want := result{2, "", "koupsandbox: --" + strings.TrimLeft(name, "-") +
			" is for the sandbox that --up brings up: add --up, or leave it out" + see("scenario run")}
		line := append(append([]string{"scenario", "run", "--dry-run"}, strings.Fields(flag)...), "HOME/s.yaml")
		for which, env := range map[string]map[string]string{"": nil, ", with the environment": env} {
			if diff := cmp.Diff(want, runWith(t, home, env, line...)); diff != "" {
				t.Errorf("%s%s (-want +got):\n%s", flag, which, diff)
			}
		}
	}
	if got := runWith(t, home, env, "scenario", "run", "--dry-run", "HOME/s.yaml"); got.Code != 0 {
		t.Errorf("the environment alone: %+v", got)
	}
}

func TestScenarioMistakes(t *testing.T) {
	home := t.TempDir()
	run(t, home, "scenario", "new", "--dir", "HOME", "s")
	_, notLabels := labels.Parse("group in (")
	for _, tc := range []struct {
		args []string
		err  string
	}{
		{[]string{"run"}, "koupsandbox: run takes scenario files and folders"},
		{[]string{"run", "HOME/none.yaml"}, "koupsandbox: the scenarios cannot be run:\nHOME/none.yaml: there is no such file or folder"},
		{[]string{"run", "--parallel", "0", "HOME/s.yaml"}, "koupsandbox: --parallel must be 1 or more"},
		{[]string{"run", "--var", "new", "HOME/s.yaml"}, `koupsandbox: --var "new" is not of the form NAME=VALUE`},
		{[]string{"run", "--var", "newer=1", "HOME/s.yaml"}, "koupsandbox: the scenarios cannot be run:\n--var newer: no scenario has such a variable; did you mean new?"},
		{[]string{"run", "--selector", "group in (", "HOME/s.yaml"}, `koupsandbox: --selector "group in (" cannot be read: ` + notLabels.Error()},
		{[]string{"run", "--selector", "group=base", "HOME/s.yaml"},
			"koupsandbox: the scenarios cannot be run:\nno scenario is selected: look at their names and labels with koupsandbox scenario list"},
		{[]string{"run", "--from-step", "updat", "HOME/s.yaml"}, `koupsandbox: no scenario has a step "updat"; there are: install, apply Service/biz1, ` +
			"wait for rollout of Deployment/biz1, start traffic, update, wait for rollout of Deployment/biz1 (2), every base serves the new version, stop traffic"},
		{[]string{"new", "No"}, `koupsandbox: the name "No" must be a DNS label: at most 63 lower-case letters, digits and hyphens, with a letter or digit at both ends`},
		{[]string{"lint", "-"}, "koupsandbox: nothing to check: the standard input is not available for -"},
		{[]string{"lint", "HOME/none.yaml"}, "koupsandbox: reading manifests: lstat HOME/none.yaml: no such file or directory"},
	} {
		want := tc.err + see("scenario "+tc.args[0])
		if strings.Contains(tc.err, "cannot be run") {
			want = tc.err + "\nsee: koupsandbox scenario explain\n"
		}
		if diff := cmp.Diff(result{2, "", want}, run(t, home, append([]string{"scenario"}, tc.args...)...)); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.args, diff)
		}
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
	want := result{1, "HOME/pod.yaml:3: Pod/p: error: its Pods look like modules, but do not have the label virtual-kubelet.koupleless.io/component: module, " +
		"so the module controller ignores them; label the Pod, or the template's metadata, virtual-kubelet.koupleless.io/component: module [component-missing]\n", ""}
	for _, path := range []string{"HOME", "HOME/pod.yaml"} {
		if diff := cmp.Diff(want, run(t, home, "scenario", "lint", path)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
	}
	// Whether an environment that is named is the meant one takes --env.
	named := strings.ReplaceAll(pod, "[{operator: Exists}]", "[{key: schedule.koupleless.io/virtual-node, operator: Exists}, {key: schedule.koupleless.io/node-env, value: test}]")
	named = strings.ReplaceAll(named, "{name: p}", "{name: p, labels: {virtual-kubelet.koupleless.io/component: module}}")
	check.Must(t, os.WriteFile(filepath.Join(home, "named.yaml"), []byte(named), 0o600))
	want = result{0, "", "not checked: whether test is the intended environment; set the intended environment with --env\n"}
	if diff := cmp.Diff(want, run(t, home, "scenario", "lint", "HOME/named.yaml")); diff != "" {
		t.Errorf("without --env (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(result{0, "", ""}, run(t, home, "scenario", "lint", "--env", "test", "HOME/named.yaml")); diff != "" {
		t.Errorf("with --env (-want +got):\n%s", diff)
	}
	r := run(t, home, "scenario", "lint", "-o", "json", "HOME/pod.yaml")
	if r.Code != 1 || !strings.Contains(r.Out, `"rule": "component-missing"`) || !strings.Contains(r.Out, `"line": 3`) {
		t.Errorf("as JSON: %+v", r)
	}
	if diff := cmp.Diff(result{0, "[]\n", ""}, run(t, home, "scenario", "lint", "-o", "json", "--env", "test", "HOME/named.yaml")); diff != "" {
		t.Errorf("as JSON, without findings (-want +got):\n%s", diff)
	}
}

// Lint reports what it did not check, and fails if there is nothing to check.
func TestLintNothing(t *testing.T) {
	const configMap = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: c}\n"
	const service = "apiVersion: v1\nkind: Service\nmetadata: {name: s}\nspec: {selector: {app: s}}\n"
	const rollout = "apiVersion: argoproj.io/v1alpha1\nkind: Rollout\nmetadata: {name: r}\nspec: {workloadRef: {name: r}}\n"
	const nginx = "apiVersion: v1\nkind: Pod\nmetadata: {name: web}\nspec: {containers: [{name: web, image: nginx}]}\n"
	const noKind = "not checked: the document at line 1 is not a Kubernetes object: it has no kind\n"
	const opaque = "not checked: Rollout/r: Rollout of argoproj.io/v1alpha1 has no Pod template that can be read here\n"
	none := "no module workload found: none of the workloads (1) has the label virtual-kubelet.koupleless.io/component: module, tolerates schedule.koupleless.io/virtual-node or sets BIZ_VERSION\n"
	for name, c := range map[string]struct {
		text, err string
		code      int
	}{
		"empty":                    {"", "koupsandbox: nothing to check: HOME/f.yaml has neither a scenario nor a Pod template; objects found: none" + see("scenario lint"), 2},
		"an empty object":          {"{}", noKind + "koupsandbox: nothing to check: HOME/f.yaml has neither a scenario nor a Pod template; objects found: none" + see("scenario lint"), 2},
		"a ConfigMap":              {configMap, "koupsandbox: nothing to check: HOME/f.yaml has neither a scenario nor a Pod template; objects found: ConfigMap/c" + see("scenario lint"), 2},
		"a Service":                {service, "koupsandbox: nothing to check: HOME/f.yaml has neither a scenario nor a Pod template; objects found: Service/s" + see("scenario lint"), 2},
		"a custom resource":        {rollout, opaque + "koupsandbox: nothing to check: HOME/f.yaml has neither a scenario nor a Pod template; objects found: Rollout/r" + see("scenario lint"), 2},
		"no module":                {nginx, none, 0},
		"no module, and a Rollout": {nginx + "---\n" + rollout, opaque + none, 0},
	} {
		home := t.TempDir()
		check.Must(t, os.WriteFile(filepath.Join(home, "f.yaml"), []byte(c.text), 0o600))
		if diff := cmp.Diff(result{c.code, "", c.err}, run(t, home, "scenario", "lint", "HOME/f.yaml")); diff != "" {
			t.Errorf("%s (-want +got):\n%s", name, diff)
		}
	}
}

// Lint of a directory reads regular files only: a symbolic link without a target does not end it, and reading a
// pipe would block.
func TestLintIrregularFiles(t *testing.T) {
	home := t.TempDir()
	check.Must(t, os.Symlink("missing", filepath.Join(home, "a.yaml")))
	check.Must(t, syscall.Mkfifo(filepath.Join(home, "b.yaml"), 0o600))
	check.Must(t, os.WriteFile(filepath.Join(home, "c.yaml"), []byte("apiVersion: apps/v1\nkind: Deploymnet\n"), 0o600))
	got := run(t, home, "scenario", "lint", "HOME")
	const want = "not checked: HOME/a.yaml is not a regular file\nnot checked: HOME/b.yaml is not a regular file\n"
	if got.Code != 1 || !strings.HasPrefix(got.Err, want) || !strings.Contains(got.Out, "Deploymnet") {
		t.Errorf("got %+v", got)
	}
}

func TestExplain(t *testing.T) {
	for topic, want := range map[string]string{
		"": "FIELDS of spec:", "crash": "FAULT:  crash", "rules": "component-missing           error     Module Pods have the label",
		"component-missing": "RULE:   component-missing (error)", "steps.apply.file": "FIELD:  step.apply.file <string>", "expressions": "vars.NAME",
	} {
		args := []string{"scenario", "explain"}
		if topic != "" {
			args = append(args, topic)
		}
		if r := run(t, t.TempDir(), args...); r.Code != 0 || r.Err != "" || !strings.Contains(r.Out, want) {
			t.Errorf("explain %s does not print %q: %+v", topic, want, r)
		}
	}
	if r := run(t, t.TempDir(), "scenario", "explain", "colour"); r.Code != 2 || !strings.HasPrefix(r.Err, `koupsandbox: there is no topic "colour"; topics are: `) {
		t.Errorf("an unknown topic: %+v", r)
	}
	if r := run(t, t.TempDir(), "scenario", "explain", "--generate-bash-completion"); !strings.Contains(r.Out, "component-missing\n") || !strings.Contains(r.Out, "webRefuse\n") {
		t.Errorf("completion: %+v", r)
	}
	if r := run(t, t.TempDir(), "scenario", "schema"); r.Out != string(v1alpha1.ScenarioSchema) {
		t.Errorf("schema: %+v", r)
	}
}
