package ci

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// lossy sends requests to a module that nobody has installed.
const lossy = `apiVersion: sandbox.koupleless.io/v1alpha1
kind: Scenario
metadata: {name: lossy}
spec:
  description: Requests are lost.
  bases:
    - {count: 1}
  steps:
    - traffic: {start: {via: bases, module: stock}}
    - sleep: {for: 500ms, reason: that requests are lost}
    - traffic: {stop: {}}
`

// reports are the files of a folder of reports.
var reports = []string{"junit.xml", "report.html", "report.json", "summary.md"}

// workspace is a user's repository with the example, and a scenario that fails in a folder with a space.
func workspace(t *testing.T) string {
	t.Helper()
	folder := t.TempDir()
	must(t, os.CopyFS(folder, os.DirFS(filepath.Join(root, "examples", "module"))))
	must(t, os.Mkdir(filepath.Join(folder, "my own"), 0o750))
	must(t, os.WriteFile(filepath.Join(folder, "my own", "lossy.yaml"), []byte(lossy), 0o600))
	return folder
}

func names(t *testing.T, folder string) []string {
	t.Helper()
	entries, err := os.ReadDir(folder)
	must(t, err)
	var list []string
	for _, e := range entries {
		list = append(list, e.Name())
	}
	return list
}

// The action runs scenarios on a fresh machine, and shows their results on GitHub. The second run uses the
// archive from the cache.
func TestAction(t *testing.T) {
	release, cache, folder := serve(t), t.TempDir(), workspace(t)

	r := newRunner(t, folder, cache)
	outputs := r.act(root, map[string]string{"version": version, "mirror": release.mirror, "scenarios": "scenarios/release.yaml\n"})
	log := r.log.String()
	if r.failed {
		t.Fatalf("the action failed:\n%s", log)
	}
	if diff := cmp.Diff(map[string]string{"kubeconfig": "", "report": "koupsandbox-report"}, outputs); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(reports, names(t, filepath.Join(folder, "koupsandbox-report"))); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	downloads := release.downloads()
	slices.Sort(downloads)
	if diff := cmp.Diff([]string{"checksums.txt", archiveName()}, downloads); diff != "" {
		t.Errorf("downloads (-want +got):\n%s", diff)
	}
	if strings.Contains(log, "::error") {
		t.Errorf("something is annotated:\n%s", log)
	}
	t.Logf("with the download: %s to the first verdict", r.verdict.Sub(r.began))
	nothingIsUp(t, r.home())

	r = newRunner(t, folder, cache)
	outputs = r.act(root, map[string]string{"version": version, "mirror": release.mirror, "report": "out",
		"scenarios": "my own/lossy.yaml\nscenarios/release.yaml"})
	log = r.log.String()
	if !r.failed {
		t.Errorf("the action passes although a scenario has failed:\n%s", log)
	}
	if diff := cmp.Diff(map[string]string{"kubeconfig": "", "report": "out"}, outputs); diff != "" {
		t.Errorf("outputs (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(reports, names(t, filepath.Join(folder, "out"))); diff != "" {
		t.Errorf("reports of a failure (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff([]string{"checksums.txt"}, release.downloads()); diff != "" {
		t.Errorf("downloads, with a cache (-want +got):\n%s", diff)
	}
	for what, pattern := range map[string]string{
		"the run that failed": `(?m)^\| ❌ failed \| lossy \| \d\.\ds \| \d+ \| \*\*\d+\*\* \|$`,
		"the run that passed": `(?m)^\| ✅ \| release \| \d+\.\ds \| [\d,]+ \| 0 \|$`,
		"the evidence":        `(?m)^    \d+ notFound at base-1, `,
	} {
		if !regexp.MustCompile(pattern).MatchString(r.summary) {
			t.Errorf("%s is not in the summary:\n%s", what, r.summary)
		}
	}
	if annotation := regexp.MustCompile(`(?m)^::error file=my own/lossy\.yaml,(line=\d+,)?title=lossy failed::.* lost`); !annotation.MatchString(log) {
		t.Errorf("the file is not annotated:\n%s", log)
	}
	t.Logf("with the download cached: %s to the first verdict", r.verdict.Sub(r.began))
	nothingIsUp(t, r.home())
}

// Without scenarios a sandbox stays, and the next steps of the job use it.
func TestActionBringsASandboxUp(t *testing.T) {
	release := serve(t)
	r := newRunner(t, t.TempDir(), "")
	outputs := r.act(root, map[string]string{"version": version, "mirror": release.mirror, "bases": "2"})
	defer nothingIsUp(t, r.home())
	if r.failed {
		t.Fatalf("the action failed:\n%s", r.log.String())
	}
	if want := filepath.Join(r.home(), "koup", "kubeconfig"); outputs["kubeconfig"] != want || outputs["report"] != "" {
		t.Errorf("the outputs are %v, want the kubeconfig %s", outputs, want)
	}
	r.log.Reset()
	r.steps([]step{{Run: `koupsandbox base list | grep -c "^base-"; grep -c current-context "${{ steps.k.outputs.kubeconfig }}"; koupsandbox down`}},
		map[string]string{"steps.k.outputs.kubeconfig": outputs["kubeconfig"]})
	if want := regexp.MustCompile(`\A2\n1\nSandbox "koup" is down after \d+\.\ds\.\n\z`); r.failed || !want.MatchString(r.log.String()) {
		t.Errorf("the next step failed: %t; want %s in:\n%s", r.failed, want, r.log.String())
	}
}

// However a run ends, the sandbox goes.
func TestActionThatIsCutOff(t *testing.T) {
	release := serve(t)
	r := newRunner(t, workspace(t), "")
	r.cancelAt = "✓ Starting kube-apiserver"
	r.act(root, map[string]string{"version": version, "mirror": release.mirror, "scenarios": "scenarios"})
	if !r.failed || r.cancelAt != "" {
		t.Fatalf("the run was not cut off:\n%s", r.log.String())
	}
	nothingIsUp(t, r.home())
}

// What is wrong with the inputs is one clear sentence, and nothing is left.
func TestActionMistakes(t *testing.T) {
	release := serve(t)
	broken := t.TempDir()
	must(t, os.WriteFile(filepath.Join(broken, "x.yaml"), []byte(strings.Replace(lossy, "count: 1", "count: many", 1)), 0o600))
	for _, tc := range []struct {
		name, want string
		with       map[string]string
	}{
		{"no such release", "install.sh: .*/v1.0.0/checksums.txt cannot be fetched", map[string]string{"version": "v1.0.0", "scenarios": "x.yaml"}},
		{"a mistake in a scenario", `(?m)^::error file=x.yaml,line=7,title=scenario::spec.bases\[0\].count: must be a whole number, but is "many"$`,
			map[string]string{"version": version, "scenarios": "x.yaml"}},
		{"no such file", "nowhere.yaml: there is no such file or folder", map[string]string{"version": version, "scenarios": "nowhere.yaml"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			r := newRunner(t, broken, "")
			tc.with["mirror"] = release.mirror
			r.act(root, tc.with)
			if !r.failed || !regexp.MustCompile(tc.want).MatchString(r.log.String()) {
				t.Errorf("it failed: %t; want %s in:\n%s", r.failed, tc.want, r.log.String())
			}
			nothingIsUp(t, r.home())
		})
	}
}

// The script is what shellcheck takes for right.
func TestScriptIsClean(t *testing.T) {
	program, err := exec.LookPath("shellcheck")
	if err != nil {
		t.Skip("*** ci/action.sh IS NOT CHECKED: install shellcheck ***")
	}
	out, err := exec.CommandContext(t.Context(), program, filepath.Join(root, "ci", "action.sh")).CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
