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

var update = flag.Bool("update", false, "update the golden files")

// result holds the exit status and the output of a command.
type result struct {
	Code     int
	Out, Err string
}

// expect checks that the exit status is code, and that the output ends with end and contains each word in words. The
// output is standard output for status 0, and standard error otherwise. The other stream must be empty.
func (r result) expect(t *testing.T, code int, end, words string) {
	t.Helper()
	text, other := r.Err, r.Out
	if code == 0 {
		text, other = r.Out, r.Err
	}
	if r.Code != code || other != "" || !strings.HasSuffix(text, end) ||
		strings.HasPrefix(text, "koupsandbox: ") != (code != 0) {
		t.Errorf("got %+v, want status %d and %q at the end", r, code, end)
	}
	check.ContainsWords(t, text, words)
}

// run runs a command line with the given home directory. HOME stands for this directory in the arguments and the
// output.
func run(t *testing.T, home string, arguments ...string) result {
	t.Helper()
	return runWith(t, home, nil, arguments...)
}

// runWith is like run, but also sets environment variables.
func runWith(t *testing.T, home string, env map[string]string, arguments ...string) result {
	t.Helper()
	for _, name := range []string{"KOUPSANDBOX_HOME", "KOUPSANDBOX_NAME", "KOUPSANDBOX_BIN", "KOUPSANDBOX_BASES",
		"KOUPSANDBOX_CONFIG",
		"KOUPSANDBOX_ENV", "KOUPSANDBOX_PROVIDER", "KOUPSANDBOX_WAIT", "KOUPSANDBOX_BROKER",
		"KOUPSANDBOX_BROKER_USERNAME", "KOUPSANDBOX_ENGINE", "KIND_EXPERIMENTAL_PROVIDER", "GITHUB_ACTIONS"} {
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
	var out, errOut bytes.Buffer
	code := cli.Run(t.Context(),
		cli.Streams{Out: &out, Err: &errOut, UserHome: home, Executable: filepath.Join(home, "koupsandbox")}, line)
	clean := func(b bytes.Buffer) string { return strings.ReplaceAll(b.String(), home, "HOME") }
	return result{code, clean(out), clean(errOut)}
}

func TestHelp(t *testing.T) {
	var all strings.Builder
	for _, command := range []string{"", "up", "down", "status", "list", "kubeconfig", "logs", "base", "base list",
		"base add", "base restart", "base kill", "base remove",
		"fault", "fault set", "fault list", "fault clear", "component", "component restart", "scenario", "scenario run",
		"scenario lint", "scenario list", "scenario new",
		"scenario schema", "scenario explain", "bench", "fuzz", "watch", "demo", "doctor", "version", "completion",
		"init"} {
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
		t.Errorf("help; update it with -update (-want +got):\n%s", diff)
	}
}

// TestInvalidCommandLines checks that each invalid command line prints one error message and starts nothing.
func TestInvalidCommandLines(t *testing.T) {
	for _, tc := range []struct {
		args  []string
		code  int
		hint  string
		names string
	}{
		{[]string{"fly"}, 2, seeHelp(""), `"fly"`},
		{[]string{"base", "fly"}, 2, seeHelp("base"), `"base fly"`},
		{[]string{"statsu"}, 2, seeHelp(""), `"statsu" status?`},
		{[]string{"component", "kil", "etcd"}, 2, seeHelp("component"), `"component kil" kill?`},
		{[]string{"up", "--basses", "3"}, 2, seeHelp("up"), "--basses --bases?"},
		{[]string{"up", "-x"}, 2, seeHelp("up"), "-x"},
		{[]string{"up", "--bases", "many"}, 2, seeHelp("up"), `--bases "many"`},
		{[]string{"up", "--bases", "0"}, 2, seeHelp("up"), "--bases: 0: 1 20000"},
		{[]string{"up", "--bases", "20001", "--name", "A B"}, 2, seeHelp("up"),
			`--bases: 20001: 1 20000 --name: "A B": 63`},
		{[]string{"up", "--provider", "kind", "--nodes", "11"}, 2, seeHelp("up"), "--nodes: 11: 1 10"},
		{[]string{"up", "--image", "x"}, 2, seeHelp("up"), "--image: Forbidden: kind"},
		{[]string{"up", "--config", "HOME/bad.yaml"}, 2, seeHelp("up"),
			"HOME/bad.yaml:3: spec.wait: 5 90s HOME/bad.yaml:4: spec.base: api, wait"},
		{[]string{"up", "--config", "HOME/missing.yaml"}, 1, "", "HOME/missing.yaml"},
		{[]string{"up", "now"}, 2, seeHelp("up"), "up arguments"},
		{[]string{"up", "-o", "xml"}, 2, seeHelp("up"), `--output "xml" text, json, yaml`},
		{[]string{"up"}, 1, "", "HOME/koupsandbox $KOUPSANDBOX_BIN"},
		{[]string{"--home", "HOME/bad.yaml", "up", "--provider", "embedded"}, 1, "", "HOME/bad.yaml --home"},
		{[]string{"status"}, 1, "koupsandbox up --name koup\n", `"koup"`},
		{[]string{"status", "--name", "No"}, 2, seeHelp("status"), `--name "No" 63`},
		{[]string{"kubeconfig", "--path"}, 1, "koupsandbox up --name koup\n", `"koup" kubeconfig`},
		{[]string{"logs"}, 1, "koupsandbox list\n", `"koup"`},
		{[]string{"logs", "etcd", "-f", "--name", "x"}, 1, "koupsandbox list\n", `"x"`},
		{[]string{"base", "list"}, 1, "koupsandbox up --name koup\n", `"koup"`},
		{[]string{"base", "add", "some"}, 2, seeHelp("base add"), `"some"`},
		{[]string{"base", "remove"}, 2, seeHelp("base remove"), "--count --group"},
		{[]string{"fault", "set", `{"kind": "error" "code": "x"}`}, 2,
			"\n    {\"kind\": \"error\" \"code\": \"x\"}\n                     ^" + seeHelp("fault set"), "fault"},
		{[]string{"fault", "set", `{"kind": "error", "code": [1]}`}, 2, seeHelp("fault set"), "code: string list"},
		{[]string{"fault", "set", "--base", "base-1"}, 2, seeHelp("fault set"), "--file"},
		{[]string{"component", "kill"}, 2, seeHelp("component kill"), "kill component koupsandbox status"},
		{[]string{"completion", "tcsh"}, 2, seeHelp("completion"), `bash zsh fish "tcsh"`},
		{[]string{"down"}, 0, "", `"koup"`},
		{[]string{"list"}, 0, "koupsandbox up\n", ""},
		{[]string{"list", "-o", "json"}, 0, "[]\n", ""},
		{[]string{"demo", "fast"}, 2, seeHelp("demo"), "demo arguments"},
		{[]string{"demo", "--name", "Demo 1"}, 2, seeHelp("demo"), `--name "Demo 1" 63`},
		{[]string{"demo"}, 1, "", "HOME/koupsandbox $KOUPSANDBOX_BIN"},
		{[]string{"images", "save"}, 2, seeHelp("images save"), "save file"},
		{[]string{"images", "load", "/none/a.tar"}, 1, "koupsandbox images save FILE\n", "/none/a.tar"},
		{[]string{"images", "save", "/none/a.tar"}, 1, "", "docker podman"},
		{[]string{"watch"}, 1, "koupsandbox up --name koup\n", `"koup"`},
		{[]string{"watch", "base-1"}, 2, seeHelp("watch"), "watch arguments"},
		{[]string{"watch", "-o", "yaml"}, 2, seeHelp("watch"), `--output "yaml" text, json`},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			home := t.TempDir()
			bad := "apiVersion: sandbox.koupleless.io/v1alpha1\nkind: Sandbox\nspec: {wait: 5,\n  base: {}}\n"
			check.Must(t, os.WriteFile(filepath.Join(home, "bad.yaml"), []byte(bad), 0o600))
			run(t, home, tc.args...).expect(t, tc.code, tc.hint, tc.names)
			if state.Home(filepath.Join(home, ".koupsandbox")).Dir("koup").Exists() {
				t.Error("a state directory was created")
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
		{[]string{"logs", "--tail", "1"},
			result{0, "==> broker <==\nd==> empty <==\n==> etcd <==\nc\n==> long <==\n" + long[:100], ""}},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			if diff := cmp.Diff(tc.want, run(t, home, tc.args...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
	run(t, home, "logs", "scheduler").expect(t, 1, "\n", `"koup" "scheduler" broker, empty, etcd, long`)
}

// TestLogsFollow checks that logs --follow prints new lines until Ctrl-C.
func TestLogsFollow(t *testing.T) {
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
	code := cli.Run(ctx, cli.Streams{Out: out, Err: os.Stderr, UserHome: home},
		[]string{"koupsandbox", "--home", filepath.Join(home, ".koupsandbox"), "logs", "-f", "etcd"})
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
	for shell, want := range map[string]string{"bash": "complete -o", "zsh": "#compdef koupsandbox",
		"fish": "complete -c koupsandbox"} {
		if r := run(t, t.TempDir(), "completion", shell); r.Code != 0 || !strings.Contains(r.Out, want) {
			t.Errorf("%s: %+v", shell, r)
		}
	}
}

func TestDoctorReportsMissingBinaries(t *testing.T) {
	home := t.TempDir()
	r := run(t, home, "doctor")
	if left, err := os.ReadDir(home); err != nil || len(left) > 0 {
		t.Errorf("doctor created files: %v, %v", left, err)
	}
	for _, want := range []string{"✗ binary koup-controlplane", "→ put it in the directory of koupsandbox",
		"✓ state directory", "✓ open files",
		"✗ tools                        not installed: kubectl\n" +
			"  → install with: sudo apt-get install kubernetes-client (Debian, Ubuntu); ",
		"✓ build from source            not required; to build from source, install git, make, go: ",
		"; brew install git make go (macOS)"} {
		if !strings.Contains(r.Out, want) {
			t.Errorf("doctor does not print %q:\n%s", want, r.Out)
		}
	}
	if r.Code != 1 {
		t.Errorf("exit status %d", r.Code)
	}
}

// seeHelp returns the last line of the error message for an invalid command line, which suggests the help command.
func seeHelp(command string) string {
	if command == "" {
		return "\nsee: koupsandbox help\n"
	}
	return "\nsee: koupsandbox " + command + " --help\n"
}
