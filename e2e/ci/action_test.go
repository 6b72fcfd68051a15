package ci

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lossy is a scenario that fails: it sends requests to a module that is not installed.
const lossy = `apiVersion: sandbox.koupleless.io/v1alpha1
kind: Scenario
metadata: {name: lossy}
spec:
  description: Requests are lost.
  bases:
    - {count: 1}
  steps:
    - traffic: {start: {via: bases, module: stock}}
    - sleep: {for: 500ms, reason: time to lose requests}
    - traffic: {stop: {}}
`

// reports contains the names of the files in a report directory.
var reports = []string{"junit.xml", "report.html", "report.json", "summary.md"}

// workspace creates a directory with the example repository and a scenario that fails.
func workspace(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	must(t, os.CopyFS(folder, os.DirFS(filepath.Join(root, "examples", "module"))))
	must(t, os.Mkdir(filepath.Join(folder, "my own"), 0o750))
	must(t, os.WriteFile(filepath.Join(folder, "my own", "lossy.yaml"), []byte(lossy), 0o600))
	return folder
}

// fileNames returns the names of the files in a directory.
func fileNames(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	must(t, err)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// job runs steps of ci/action.sh with the environment variables of a GitHub runner. (The workflow release.yml runs
// the steps through action.yml.)
type job struct {
	t               *testing.T
	workspace, temp string
	env             []string // environment variables with the inputs of the action
	log             bytes.Buffer
	mu              sync.Mutex
	cmd             *exec.Cmd
	// killAt is the output at which the step is killed; empty means never.
	killAt string
}

func newJob(t *testing.T, workspace string, env ...string) *job {
	t.Helper()
	j := &job{t: t, workspace: workspace, temp: shortFolder(t), env: env}
	t.Cleanup(func() { requireNoSandbox(t, j.home()) })
	return j
}

func (j *job) home() string { return filepath.Join(j.temp, "koupsandbox") }

// step runs a step of the action, and reports whether the step passed. If a scenario of the step is inconclusive,
// step skips the test.
func (j *job) step(name string) bool {
	j.t.Helper()
	script, err := filepath.Abs(filepath.Join(root, "ci", "action.sh"))
	must(j.t, err)
	j.cmd = exec.CommandContext(j.t.Context(), "sh", script, name)
	j.cmd.Dir, j.cmd.Stdout, j.cmd.Stderr = j.workspace, j, j
	j.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	j.cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "HOME=" + j.temp, "GITHUB_ACTIONS=true", "CI=true",
		"RUNNER_TEMP=" + j.temp, allowHTTP, skipAttestation}, j.env...)
	for _, file := range []string{"GITHUB_OUTPUT", "GITHUB_ENV", "GITHUB_PATH", "GITHUB_STEP_SUMMARY"} {
		j.cmd.Env = append(j.cmd.Env, file+"="+filepath.Join(j.temp, file))
	}
	err = j.cmd.Run()
	if strings.Contains(j.log.String(), "inconclusive: ") {
		j.t.Skipf("this machine is too slow for the scenario of the action:\n%s", j.log.String())
	}
	return err == nil
}

// Write implements io.Writer. It records the output of a step, and kills the step when the output contains killAt.
func (j *job) Write(p []byte) (int, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	j.log.Write(p)
	if j.killAt != "" && strings.Contains(j.log.String(), j.killAt) {
		j.killAt = ""
		return len(p), syscall.Kill(-j.cmd.Process.Pid, syscall.SIGKILL)
	}
	return len(p), nil
}

// file returns the content of a file that the runner provides to steps, for example GITHUB_OUTPUT.
func (j *job) file(name string) string {
	text, err := os.ReadFile(filepath.Join(j.temp, name))
	must(j.t, err)
	return string(text)
}

// TestAction checks that the action runs scenarios and shows their results on GitHub.
func TestAction(t *testing.T) {
	release, folder := serve(t), workspace(t)
	inputs := []string{"KOUPSANDBOX_VERSION=" + version, "KOUPSANDBOX_MIRROR=" + release.mirror, "REPORT=out"}
	j := newJob(t, folder, append(inputs, "SCENARIOS=scenarios/release.yaml\n")...)
	if !j.step("install") || !j.step("run") || !j.step("down") {
		t.Fatalf("the action failed:\n%s", j.log.String())
	}
	if strings.Contains(j.log.String(), "::error") {
		t.Errorf("an annotation for a passed run:\n%s", j.log.String())
	}

	j.env = append(inputs, "SCENARIOS=my own/lossy.yaml\nscenarios/release.yaml", "LINT=--env prod manifests")
	if j.step("run") || !strings.Contains(j.log.String(), "::error file=manifests/deployment.yaml,") ||
		strings.Contains(j.log.String(), "lossy") {
		t.Errorf("the action did not check the manifests before the scenarios:\n%s", j.log.String())
	}

	j.env = append(inputs, "SCENARIOS=my own/lossy.yaml\nscenarios/release.yaml")
	if !j.step("install") || j.step("run") || !j.step("down") { // with the cached archive
		t.Errorf("the action did not fail with a failed scenario:\n%s", j.log.String())
	}
	if diff := cmp.Diff(reports, fileNames(t, filepath.Join(folder, "out"))); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	downloads := release.downloads()
	slices.Sort(downloads)
	if diff := cmp.Diff([]string{"checksums.txt", "checksums.txt", archiveName()}, downloads); diff != "" {
		t.Errorf("downloads of two installs, the second with the cached archive (-want +got):\n%s", diff)
	}
	if got := j.file("GITHUB_OUTPUT"); !strings.HasSuffix(got, "report=out\n") {
		t.Errorf("outputs:\n%s", got)
	}
	for what, pattern := range map[string]string{
		"the run that failed": `(?m)^\| ❌ failed \| lossy \| \d\.\ds \| \d+ \| \*\*\d+\*\* \|$`,
		"the run that passed": `(?m)^\| ✅ \| release \| \d+\.\ds \| [\d,]+ \| 0 \|$`,
		"the evidence":        `(?m)^    \d+ notFound at base-1, `,
	} {
		if summary := j.file("GITHUB_STEP_SUMMARY"); !regexp.MustCompile(pattern).MatchString(summary) {
			t.Errorf("%s is not in the summary:\n%s", what, summary)
		}
	}
	if annotation := regexp.MustCompile(
		`(?m)^::error file=my own/lossy\.yaml,(line=\d+,)?title=lossy failed::.* lost`); !annotation.MatchString(
		j.log.String()) {
		t.Errorf("no annotation for the failed scenario:\n%s", j.log.String())
	}

	must(t, os.WriteFile(filepath.Join(folder, "x.yaml"), []byte(strings.Replace(lossy, "count: 1", "count: many", 1)),
		0o600))
	j.env = append(inputs, "SCENARIOS=x.yaml")
	const want = `(?m)^::error file=x.yaml,line=7,title=scenario::spec.bases\[0\].count: must be a whole number, but is "many"$`
	if j.step("run") || !regexp.MustCompile(want).MatchString(j.log.String()) {
		t.Errorf("no annotation %s for an invalid scenario:\n%s", want, j.log.String())
	}
}

// TestActionStartsSandbox checks that without scenarios, the action starts a sandbox for the next steps of the job.
func TestActionStartsSandbox(t *testing.T) {
	j := newJob(t, t.TempDir(), "KOUPSANDBOX_VERSION="+version, "KOUPSANDBOX_MIRROR="+serve(t).mirror, "BASES=2")
	if !j.step("install") || !j.step("up") {
		t.Fatalf("the action failed:\n%s", j.log.String())
	}
	want := map[string]string{
		"GITHUB_OUTPUT": "kubeconfig=" + filepath.Join(j.home(), "koup", "kubeconfig") + "\n",
		"GITHUB_ENV":    "KOUPSANDBOX_HOME=" + j.home() + "\n",
		"GITHUB_PATH":   filepath.Join(j.temp, "koupsandbox-programs", "lib", "koupsandbox") + "\n",
	}
	for file, text := range want {
		if diff := cmp.Diff(text, j.file(file)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", file, diff)
		}
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(strings.TrimSpace(want["GITHUB_PATH"]), "koupsandbox"),
		"base", "list")
	cmd.Env = []string{strings.TrimSpace(want["GITHUB_ENV"])}
	if out, err := cmd.CombinedOutput(); err != nil || strings.Count(string(out), "\nbase-") != 2 {
		t.Errorf("the next step: %v\n%s", err, out)
	}
	if !j.step("down") {
		t.Errorf("down failed:\n%s", j.log.String())
	}
}

// TestKilledAction checks that after a run was killed, the down step of the action removes the sandbox of the run.
func TestKilledAction(t *testing.T) {
	j := newJob(t, workspace(t), "KOUPSANDBOX_VERSION="+version, "KOUPSANDBOX_MIRROR="+serve(t).mirror,
		"SCENARIOS=scenarios", "REPORT=out")
	j.killAt = "✓ Starting kube-apiserver"
	if !j.step("install") || j.step("run") || j.killAt != "" {
		t.Fatalf("the step run was not killed:\n%s", j.log.String())
	}
	if !j.step("down") {
		t.Errorf("down failed:\n%s", j.log.String())
	}
}

// TestShellcheck checks that shellcheck reports no problems in ci/action.sh, install.sh and tools/build.
func TestShellcheck(t *testing.T) {
	binary, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("*** ci/action.sh IS NOT CHECKED: install shellcheck ***")
	}
	if out, err := exec.CommandContext(t.Context(), binary, filepath.Join(root, "ci", "action.sh"),
		filepath.Join(root, "install.sh"), filepath.Join(root, "tools", "build")).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
