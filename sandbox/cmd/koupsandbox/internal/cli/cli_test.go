package cli_test

import (
	"bytes"
	"context"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/cmd/koupsandbox/internal/cli"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

var update = flag.Bool("update", false, "write the golden files anew")

// result is what a command left behind.
type result struct {
	Code     int
	Out, Err string
}

// run runs a command line; HOME stands for the test's own folder, in the
// arguments and in what comes out.
func run(t *testing.T, home string, arguments ...string) result {
	t.Helper()
	return runWith(t, home, nil, arguments...)
}

// runWith is run with variables of the environment.
func runWith(t *testing.T, home string, env map[string]string, arguments ...string) result {
	t.Helper()
	for _, name := range []string{"KOUPSANDBOX_HOME", "KOUPSANDBOX_NAME", "KOUPSANDBOX_BIN", "KOUPSANDBOX_BASES", "KOUPSANDBOX_CONFIG",
		"KOUPSANDBOX_ENV", "KOUPSANDBOX_PROVIDER", "KOUPSANDBOX_WAIT", "KOUPSANDBOX_BROKER", "KOUPSANDBOX_BROKER_USERNAME", "KOUPSANDBOX_ENGINE", "KIND_EXPERIMENTAL_PROVIDER", "GITHUB_ACTIONS"} {
		t.Setenv(name, "")
		check.Must(t, os.Unsetenv(name))
	}
	t.Setenv("PATH", home)
	for name, value := range env {
		t.Setenv(name, value)
	}
	line := []string{"koupsandbox"}
	for _, a := range arguments {
		line = append(line, strings.ReplaceAll(a, "HOME", home))
	}
	var out, errs bytes.Buffer
	code := cli.Run(t.Context(), cli.Streams{Out: &out, Err: &errs, UserHome: home, Self: filepath.Join(home, "koupsandbox")}, line)
	clean := func(b bytes.Buffer) string { return strings.ReplaceAll(b.String(), home, "HOME") }
	return result{code, clean(out), clean(errs)}
}

func TestHelp(t *testing.T) {
	var all strings.Builder
	for _, command := range []string{"", "up", "down", "status", "list", "kubeconfig", "logs", "base", "base list", "base add", "base restart", "base kill", "base remove",
		"fault", "fault set", "fault list", "fault clear", "component", "component restart", "scenario", "scenario run", "scenario lint", "scenario list", "scenario new",
		"scenario schema", "scenario explain", "bench", "fuzz", "watch", "demo", "doctor", "version", "completion", "init"} {
		r := run(t, t.TempDir(), append(strings.Fields(command), "--help")...)
		if r.Code != 0 || r.Err != "" {
			t.Errorf("%s --help: %+v", command, r)
		}
		all.WriteString("$ koupsandbox " + strings.TrimSpace(command+" --help") + "\n" + r.Out + "\n")
	}
	const file = "testdata/help.txt"
	if *update {
		check.Must(t, os.WriteFile(file, []byte(all.String()), 0o644))
	}
	want, err := os.ReadFile(file)
	check.Must(t, err)
	if diff := cmp.Diff(string(want), all.String()); diff != "" {
		t.Errorf("help; write it anew with -update (-want +got):\n%s", diff)
	}
}

// Each mistake gets one clear message and its exit status; nothing is started.
func TestMistakes(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want result
	}{
		{[]string{"fly"}, result{2, "", `koupsandbox: there is no command "fly"` + see("")}},
		{[]string{"base", "fly"}, result{2, "", `koupsandbox: there is no command "base fly"` + see("base")}},
		{[]string{"statsu"}, result{2, "", `koupsandbox: there is no command "statsu"; did you mean status?` + see("")}},
		{[]string{"component", "kil", "etcd"}, result{2, "", `koupsandbox: there is no command "component kil"; did you mean kill?` + see("component")}},
		{[]string{"up", "--basses", "3"}, result{2, "", "koupsandbox: there is no flag --basses here; did you mean --bases?" + see("up")}},
		{[]string{"up", "-x"}, result{2, "", "koupsandbox: there is no flag -x here" + see("up")}},
		{[]string{"up", "--bases", "many"}, result{2, "",
			`koupsandbox: --bases is "many": use a whole number` + see("up")}},
		{[]string{"up", "--bases", "0"}, result{2, "", "koupsandbox: the settings cannot be used:\n" +
			"--bases: Invalid value: 0: must be between 1 and 20000, the most that one sandbox runs" + see("up")}},
		{[]string{"up", "--bases", "20001", "--name", "A B"}, result{2, "", "koupsandbox: the settings cannot be used:\n" +
			"--bases: Invalid value: 20001: must be between 1 and 20000, the most that one sandbox runs\n" +
			`--name: Invalid value: "A B": must be a DNS label: at most 63 lower-case letters, digits and hyphens, with a letter or digit at both ends` + see("up")}},
		{[]string{"up", "--provider", "kind", "--nodes", "11"}, result{2, "", "koupsandbox: the settings cannot be used:\n" +
			`--nodes: Invalid value: 11: must be between 1 and 10` + see("up")}},
		{[]string{"up", "--image", "x"}, result{2, "", "koupsandbox: the settings cannot be used:\n" +
			`--image: Forbidden: is for the provider kind only: set spec.provider to kind, or remove it` + see("up")}},
		{[]string{"up", "--config", "HOME/bad.yaml"}, result{2, "", "koupsandbox: the settings cannot be used:\n" +
			"HOME/bad.yaml:3: spec.wait: the number 5 cannot be read as a time with its unit, such as 90s or 2m\n" +
			"HOME/bad.yaml:4: spec.base: is not a field; the fields here are: api, bases, broker, cluster, controller, durable, env, kind, provider, speed, wait" + see("up")}},
		{[]string{"up", "--config", "HOME/missing.yaml"}, result{1, "",
			"koupsandbox: reading the settings: open HOME/missing.yaml: no such file or directory\n"}},
		{[]string{"up", "now"}, result{2, "", "koupsandbox: up takes no arguments" + see("up")}},
		{[]string{"up", "-o", "xml"}, result{2, "", `koupsandbox: --output "xml" is not one of: text, json, yaml` + see("up")}},
		{[]string{"up"}, result{1, "", "koupsandbox: HOME/koupsandbox cannot be run as the program koupsandbox: build it again, or name another folder in $KOUPSANDBOX_BIN\n"}},
		{[]string{"--home", "HOME/bad.yaml", "up", "--provider", "embedded"}, result{1, "",
			"koupsandbox: making the folder for locks: mkdir HOME/bad.yaml: not a directory; choose another place with --home\n"}},
		{[]string{"status"}, result{1, "", `koupsandbox: sandbox "koup" is not up; bring it up with: koupsandbox up --name koup` + "\n"}},
		{[]string{"status", "--name", "No"}, result{2, "",
			`koupsandbox: --name "No" must be a DNS label: at most 63 lower-case letters, digits and hyphens, with a letter or digit at both ends` + see("status")}},
		{[]string{"kubeconfig", "--path"}, result{1, "",
			`koupsandbox: sandbox "koup" is not up, so it has no kubeconfig; bring it up with: koupsandbox up --name koup` + "\n"}},
		{[]string{"logs"}, result{1, "", `koupsandbox: sandbox "koup" has no logs: it is not up; see: koupsandbox list` + "\n"}},
		{[]string{"logs", "etcd", "-f", "--name", "x"}, result{1, "", `koupsandbox: sandbox "x" has no logs: it is not up; see: koupsandbox list` + "\n"}},
		{[]string{"base", "list"}, result{1, "", `koupsandbox: sandbox "koup" is not up; bring it up with: koupsandbox up --name koup` + "\n"}},
		{[]string{"base", "add", "some"}, result{2, "", `koupsandbox: add takes how many bases to add, and "some" is no number` + see("base add")}},
		{[]string{"base", "remove"}, result{2, "", "koupsandbox: remove takes the names of bases, or --count, or --group, but only one of these" + see("base remove")}},
		{[]string{"fault", "set", `{"kind": "error" "code": "x"}`}, result{2, "", "koupsandbox: invalid fault: this is not YAML: did not find expected ',' or '}'\n" +
			`    {"kind": "error" "code": "x"}` + "\n                     ^" + see("fault set")}},
		{[]string{"fault", "set", `{"kind": "error", "code": [1]}`}, result{2, "", "koupsandbox: invalid fault: code: must be a string, but is a list" + see("fault set")}},
		{[]string{"fault", "set", "--base", "base-1"}, result{2, "", "koupsandbox: set takes a fault, or --file, but not both" + see("fault set")}},
		{[]string{"component", "kill"}, result{2, "", "koupsandbox: kill takes a component; see: koupsandbox status" + see("component kill")}},
		{[]string{"completion", "tcsh"}, result{2, "", `koupsandbox: completion takes one of bash, zsh and fish, not "tcsh"` + see("completion")}},
		{[]string{"down"}, result{0, `Sandbox "koup" was not up; nothing had to be done.` + "\n", ""}},
		{[]string{"list"}, result{0, "There is no sandbox; bring one up with: koupsandbox up\n", ""}},
		{[]string{"list", "-o", "json"}, result{0, "[]\n", ""}},
		{[]string{"demo", "fast"}, result{2, "", "koupsandbox: demo takes no arguments" + see("demo")}},
		{[]string{"demo", "--name", "Demo 1"}, result{2, "",
			`koupsandbox: --name "Demo 1" ` + "must be a DNS label: at most 63 lower-case letters, digits and hyphens, with a letter or digit at both ends" + see("demo")}},
		{[]string{"demo"}, result{1, "", "koupsandbox: HOME/koupsandbox cannot be run as the program koupsandbox: build it again, or name another folder in $KOUPSANDBOX_BIN\n"}},
		{[]string{"images", "save"}, result{2, "", "koupsandbox: save takes one file" + see("images save")}},
		{[]string{"images", "load", "/none/a.tar"}, result{1, "",
			"koupsandbox: there is no file /none/a.tar: make it where a registry can be reached, with: koupsandbox images save FILE\n"}},
		{[]string{"images", "save", "/none/a.tar"}, result{1, "",
			"koupsandbox: there is nothing to save: no container engine: docker is not installed; podman is not installed\n"}},
		{[]string{"watch"}, result{1, "", `koupsandbox: sandbox "koup" is not up; bring it up with: koupsandbox up --name koup` + "\n"}},
		{[]string{"watch", "base-1"}, result{2, "", "koupsandbox: watch takes no arguments" + see("watch")}},
		{[]string{"watch", "-o", "yaml"}, result{2, "", `koupsandbox: --output "yaml" is not one of: text, json` + see("watch")}},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			home := t.TempDir()
			bad := "apiVersion: sandbox.koupleless.io/v1alpha1\nkind: Sandbox\nspec: {wait: 5,\n  base: {}}\n"
			check.Must(t, os.WriteFile(filepath.Join(home, "bad.yaml"), []byte(bad), 0o600))
			if diff := cmp.Diff(tc.want, run(t, home, tc.args...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if state.Home(filepath.Join(home, ".koupsandbox")).Dir("koup").Exists() {
				t.Error("a state folder was made")
			}
		})
	}
}

func TestLogs(t *testing.T) {
	home := t.TempDir()
	dir := state.Home(filepath.Join(home, ".koupsandbox")).Dir("koup")
	check.Must(t, dir.Create())
	long := strings.Repeat(strings.Repeat("x", 99)+"\n", 1000)
	for component, text := range map[string]string{"etcd": "a\nb\nc\n", "broker": "d", "empty": "", "long": long} {
		check.Must(t, state.WriteFile(dir.Log(component), []byte(text)))
	}
	for _, tc := range []struct {
		args []string
		want result
	}{
		{[]string{"logs", "--tail", "2", "etcd"}, result{0, "b\nc\n", ""}},
		{[]string{"logs", "--tail", "3", "etcd"}, result{0, "a\nb\nc\n", ""}},
		{[]string{"logs", "--tail", "0", "etcd"}, result{0, "", ""}},
		{[]string{"logs", "--tail", "-1", "etcd"}, result{0, "a\nb\nc\n", ""}},
		{[]string{"logs", "--tail", "900", "long"}, result{0, long[:90000], ""}},
		{[]string{"logs", "empty"}, result{0, "", ""}},
		{[]string{"logs", "scheduler"}, result{1, "",
			`koupsandbox: sandbox "koup" has no log of "scheduler"; there are: broker, empty, etcd, long` + "\n"}},
		{[]string{"logs", "--tail", "1"}, result{0, "==> broker <==\nd==> empty <==\n==> etcd <==\nc\n==> long <==\n" + long[:100], ""}},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			if diff := cmp.Diff(tc.want, run(t, home, tc.args...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}

// A followed log shows what is added, until Ctrl-C.
func TestFollow(t *testing.T) {
	home := t.TempDir()
	dir := state.Home(filepath.Join(home, ".koupsandbox")).Dir("koup")
	check.Must(t, dir.Create())
	log, err := os.Create(dir.Log("etcd"))
	check.Must(t, err)
	defer func() { _ = log.Close() }()
	if _, err := log.WriteString("first\n"); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	out := &watched{onWrite: func(all string) {
		switch all {
		case "first\n":
			if _, err := log.WriteString("second\n"); err != nil {
				t.Error(err)
			}
		case "first\nsecond\n":
			cancel()
		}
	}}
	code := cli.Run(ctx, cli.Streams{Out: out, Err: os.Stderr, UserHome: home}, []string{"koupsandbox", "--home", filepath.Join(home, ".koupsandbox"), "logs", "-f", "etcd"})
	if code != 0 || out.all != "first\nsecond\n" {
		t.Errorf("exit status %d, printed %q", code, out.all)
	}
}

type watched struct {
	all     string
	onWrite func(all string)
}

func (w *watched) Write(p []byte) (int, error) {
	w.all += string(p)
	w.onWrite(w.all)
	return len(p), nil
}

func TestCompletionScripts(t *testing.T) {
	for shell, want := range map[string]string{"bash": "complete -o", "zsh": "#compdef koupsandbox", "fish": "complete -c koupsandbox"} {
		if r := run(t, t.TempDir(), "completion", shell); r.Code != 0 || !strings.Contains(r.Out, want) {
			t.Errorf("%s: %+v", shell, r)
		}
	}
}

func TestDoctorNamesWhatIsMissing(t *testing.T) {
	home := t.TempDir()
	r := run(t, home, "doctor")
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("doctor has left %v, %v", left, err)
	}
	for _, want := range []string{"✗ program koup-controlplane", "→ put it beside koupsandbox", "✓ state folder", "✓ open files"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("doctor does not print %q:\n%s", want, r.Out)
		}
	}
	if r.Code != 1 {
		t.Errorf("exit status %d", r.Code)
	}
}

// see is the last line of what a mistake in the command line leads to.
func see(command string) string {
	if command == "" {
		return "\nsee: koupsandbox help\n"
	}
	return "\nsee: koupsandbox " + command + " --help\n"
}
