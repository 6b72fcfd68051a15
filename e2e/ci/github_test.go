package ci

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"sigs.k8s.io/yaml"
)

// step of an action or of a job, as far as they are used here; another field fails the test.
type step struct {
	Name  string            `json:"name"`
	ID    string            `json:"id"`
	If    string            `json:"if"`
	Uses  string            `json:"uses"`
	With  map[string]any    `json:"with"`
	Shell string            `json:"shell"`
	Env   map[string]string `json:"env"`
	Run   string            `json:"run"`
}

type action struct {
	Name, Description, Author string
	Branding                  map[string]string
	Inputs                    map[string]struct {
		Description, Default string
		Required             bool
	}
	Outputs map[string]struct{ Description, Value string }
	Runs    struct {
		Using string
		Steps []step
	}
}

// runner stands in for GitHub's: it runs the steps of one job. What is not in it fails the test.
type runner struct {
	t         *testing.T
	workspace string // the job's current folder
	temp      string
	cache     string            // of actions/cache, shared by runners; empty = there is none
	env       map[string]string // that steps have added
	path      []string
	summary   string
	artifacts []string
	log       bytes.Buffer
	failed    bool
	// cancelAt is a text; the step that prints it is killed, and the job goes on with steps that run always.
	cancelAt string
	// verdict is when the first line of a run was printed.
	began, verdict time.Time
}

func newRunner(t *testing.T, workspace, cache string) *runner {
	return &runner{t: t, workspace: workspace, temp: shortFolder(t), cache: cache, env: map[string]string{}, began: time.Now()}
}

func (r *runner) home() string { return filepath.Join(r.temp, "koupsandbox") }

// act runs the action in a folder, and returns its outputs.
func (r *runner) act(folder string, with map[string]string) map[string]string {
	r.t.Helper()
	var a action
	r.read(filepath.Join(folder, "action.yml"), &a)
	if a.Runs.Using != "composite" {
		r.t.Fatalf("the action uses %s", a.Runs.Using)
	}
	path, err := filepath.Abs(folder)
	must(r.t, err)
	scope := map[string]string{"github.action_path": path}
	for name, input := range a.Inputs {
		value, given := with[name]
		if !given && input.Required {
			r.t.Fatalf("the action needs %s", name)
		}
		if !given {
			value = input.Default
		}
		scope["inputs."+name] = value
	}
	for name := range with {
		if _, known := a.Inputs[name]; !known {
			r.t.Fatalf("the action has no input %s", name)
		}
	}
	r.steps(a.Runs.Steps, scope)
	outputs := map[string]string{}
	for name, output := range a.Outputs {
		outputs[name] = r.fill(output.Value, scope)
	}
	return outputs
}

// steps runs them; the outputs of each go into scope.
func (r *runner) steps(steps []step, scope map[string]string) {
	r.t.Helper()
	saved := []map[string]string{}
	for _, s := range steps {
		if !r.holds(s.If, scope) {
			continue
		}
		with := map[string]string{}
		for name, value := range s.With {
			with[name] = r.fill(fmt.Sprint(value), scope)
		}
		name, _, _ := strings.Cut(s.Uses, "@")
		switch name {
		case "":
			for output, value := range r.run(s, scope) {
				scope["steps."+s.ID+".outputs."+output] = value
			}
		case "actions/checkout":
		case "actions/cache":
			r.restore(with)
			saved = append(saved, with)
		case "actions/upload-artifact":
			r.artifacts = append(r.artifacts, with["path"])
		case "koupleless/koupsandbox":
			for output, value := range r.act(root, with) {
				scope["steps."+s.ID+".outputs."+output] = value
			}
		default:
			r.t.Fatalf("a step uses %s, which is not known here", s.Uses)
		}
	}
	for _, with := range saved {
		r.save(with)
	}
}

// run runs a script and returns what it put out.
func (r *runner) run(s step, scope map[string]string) map[string]string {
	r.t.Helper()
	folder := r.t.TempDir()
	file := func(name string) string { return filepath.Join(folder, name) }
	script := file("script.sh")
	must(r.t, os.WriteFile(script, []byte(r.fill(s.Run, scope)), 0o600))
	shell := s.Shell
	if shell == "" {
		shell = "bash"
	}
	cmd := exec.CommandContext(r.t.Context(), shell, "-e", script)
	cmd.Dir = r.workspace
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	for _, name := range []string{"GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY"} {
		must(r.t, os.WriteFile(file(name), nil, 0o600))
		cmd.Env = append(cmd.Env, name+"="+file(name))
	}
	cmd.Env = append(cmd.Env, "HOME="+r.temp, "GITHUB_ACTIONS=true", "CI=true", "RUNNER_TEMP="+r.temp, "GITHUB_WORKSPACE="+r.workspace, allowHTTP, skipAttestation,
		"PATH="+strings.Join(append(slices.Clone(r.path), os.Getenv("PATH")), ":"))
	for name, value := range r.env {
		cmd.Env = append(cmd.Env, name+"="+value)
	}
	for name, value := range s.Env {
		cmd.Env = append(cmd.Env, name+"="+r.fill(value, scope))
	}
	watched := &watcher{r: r, cmd: cmd}
	cmd.Stdout, cmd.Stderr = watched, watched
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		r.t.Fatal(err)
	}
	r.failed = r.failed || err != nil
	r.summary += r.text(file("GITHUB_STEP_SUMMARY"))
	maps.Copy(r.env, r.pairs(file("GITHUB_ENV")))
	r.path = append(strings.Fields(r.text(file("GITHUB_PATH"))), r.path...)
	return r.pairs(file("GITHUB_OUTPUT"))
}

// watcher keeps the log, and kills the step that prints what the runner cancels at.
type watcher struct {
	r   *runner
	cmd *exec.Cmd
	mu  sync.Mutex
}

var verdict = regexp.MustCompile(`(?m)^[✓✗!] \S+ +\d+\.\ds  \d`)

func (w *watcher) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.r.log.Write(p)
	if w.r.verdict.IsZero() && verdict.Match(p) {
		w.r.verdict = time.Now()
	}
	if at := w.r.cancelAt; at != "" && bytes.Contains(w.r.log.Bytes(), []byte(at)) {
		w.r.cancelAt = ""
		if err := syscall.Kill(-w.cmd.Process.Pid, syscall.SIGKILL); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

var placeholder = regexp.MustCompile(`\$\{\{ *(.*?) *\}\}`)

// fill puts values in place of expressions.
func (r *runner) fill(text string, scope map[string]string) string {
	return placeholder.ReplaceAllStringFunc(text, func(found string) string {
		return r.value(placeholder.FindStringSubmatch(found)[1], scope)
	})
}

// value of a name. As on GitHub, an output of a step that put out nothing is empty.
func (r *runner) value(name string, scope map[string]string) string {
	value, known := map[string]string{"runner.temp": r.temp, "runner.os": runtime.GOOS, "runner.arch": runtime.GOARCH}[name]
	if !known {
		value, known = scope[name]
	}
	if !known && !strings.HasPrefix(name, "steps.") {
		r.t.Fatalf("there is no %s", name)
	}
	return value
}

var comparison = regexp.MustCompile(`^(\S+) (==|!=) '([^']*)'$`)

// holds evaluates the condition of a step.
func (r *runner) holds(condition string, scope map[string]string) bool {
	ok, always := true, false
	for part := range strings.SplitSeq(condition, "&&") {
		switch part = strings.TrimSpace(part); part {
		case "":
		case "always()":
			always = true
		default:
			m := comparison.FindStringSubmatch(part)
			if m == nil {
				r.t.Fatalf("the condition %s is not known here", part)
			}
			ok = ok && (r.value(m[1], scope) == m[3]) == (m[2] == "==")
		}
	}
	return ok && (always || !r.failed)
}

// restore and save are actions/cache: a folder of its own for each key.
func (r *runner) restore(with map[string]string) {
	if from := filepath.Join(r.cache, with["key"]); r.cache != "" && exists(from) {
		must(r.t, os.CopyFS(with["path"], os.DirFS(from)))
	}
}

func (r *runner) save(with map[string]string) {
	if to := filepath.Join(r.cache, with["key"]); r.cache != "" && !r.failed && !exists(to) {
		must(r.t, os.CopyFS(to, os.DirFS(with["path"])))
	}
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func (r *runner) read(path string, into any) {
	r.t.Helper()
	text, err := os.ReadFile(path)
	must(r.t, err)
	if err := yaml.UnmarshalStrict(text, into); err != nil {
		r.t.Fatalf("%s: %v", path, err)
	}
}

func (r *runner) text(path string) string {
	text, err := os.ReadFile(path)
	must(r.t, err)
	return string(text)
}

func (r *runner) pairs(path string) map[string]string {
	pairs := map[string]string{}
	for line := range strings.Lines(r.text(path)) {
		name, value, found := strings.Cut(strings.TrimSuffix(line, "\n"), "=")
		if !found {
			r.t.Fatalf("%q is not NAME=VALUE", line)
		}
		pairs[name] = value
	}
	return pairs
}
