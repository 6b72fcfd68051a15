package ci

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"
)

// template is what a file for GitLab has, as far as it is used here; another field fails the test.
type template struct {
	inputs map[string]struct {
		Description string
		Default     *string
	}
	text string // with placeholders
}

// job of GitLab's.
type job struct {
	Stage, Image, Timeout string
	Variables             map[string]string
	Cache                 struct {
		Key   string
		Paths []string
	}
	BeforeScript []string `json:"before_script"`
	Script       []string `json:"script"`
	AfterScript  []string `json:"after_script"`
	Artifacts    struct {
		When    string
		Paths   []string
		Reports map[string]string
	}
}

func readTemplate(t *testing.T) template {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "ci", "gitlab.yml"))
	must(t, err)
	head, body, found := strings.Cut(string(text), "\n---\n")
	if !found {
		t.Fatal("the template has no header")
	}
	var spec struct {
		Spec struct{ Inputs map[string]any }
	}
	must(t, yaml.UnmarshalStrict([]byte(head), &spec))
	result := template{text: body}
	again, err := yaml.Marshal(spec.Spec.Inputs)
	must(t, err)
	must(t, yaml.UnmarshalStrict(again, &result.inputs))
	return result
}

var inputAt = regexp.MustCompile(`\$\[\[ inputs\.(\w+) \]\]`)

// job fills the inputs in.
func (f template) job(t *testing.T, inputs map[string]string) job {
	t.Helper()
	for name := range inputs {
		if _, known := f.inputs[name]; !known {
			t.Fatalf("there is no input %s", name)
		}
	}
	text := inputAt.ReplaceAllStringFunc(f.text, func(at string) string {
		name := inputAt.FindStringSubmatch(at)[1]
		value, given := inputs[name]
		switch input, known := f.inputs[name]; {
		case !known:
			t.Fatalf("there is no input %s", name)
		case !given && input.Default == nil:
			t.Fatalf("the input %s is needed", name)
		case !given:
			value = *input.Default
		}
		return value
	})
	jobs := map[string]job{}
	must(t, yaml.UnmarshalStrict([]byte(text), &jobs))
	if len(jobs) != 1 {
		t.Fatalf("there are %d jobs", len(jobs))
	}
	return jobs["koupsandbox"]
}

// run runs a job as GitLab's runner does: what comes before and the script in one shell, what comes
// after in another, whatever happened.
func (j job) run(t *testing.T, folder, home string) (log string, failed bool) {
	t.Helper()
	shell := func(lines []string) error {
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", strings.Join(lines, "\n"))
		cmd.Dir = folder
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CI=true", allowHTTP, skipAttestation}
		for name, value := range j.Variables {
			cmd.Env = append(cmd.Env, name+"="+strings.ReplaceAll(value, "/tmp/koupsandbox-$CI_JOB_ID", home))
		}
		out, err := cmd.CombinedOutput()
		log += string(out)
		return err
	}
	err := shell(slices.Concat(j.BeforeScript, j.Script))
	if after := shell(j.AfterScript); after != nil {
		t.Errorf("after_script: %v", after)
	}
	return log, err != nil
}

// The job of the template runs scenarios and writes reports. The second run uses the archive from the cache.
func TestGitLab(t *testing.T) {
	release, folder, home := serve(t), workspace(t), shortFolder(t)
	inputs := map[string]string{"version": version, "mirror": release.mirror, "scenarios": "scenarios/release.yaml", "report": "out"}
	j := readTemplate(t).job(t, inputs)
	log, failed := j.run(t, folder, home)
	if failed {
		t.Fatalf("the job failed:\n%s", log)
	}
	if diff := cmp.Diff([]string{"install.sh", "checksums.txt", archiveName()}, release.downloads()); diff != "" {
		t.Errorf("downloads (-want +got):\n%s", diff)
	}
	for what, path := range map[string]string{"the JUnit report": j.Artifacts.Reports["junit"], "the reports": j.Artifacts.Paths[0] + "report.html",
		"the cached archive": j.Cache.Paths[0] + archiveName()} {
		if !exists(filepath.Join(folder, path)) {
			t.Errorf("%s, %s, is not there", what, path)
		}
	}
	if j.Artifacts.When != "always" {
		t.Errorf("artifacts are kept when %s", j.Artifacts.When)
	}
	nothingIsUp(t, home)

	// A runner with another folder gets the cache.
	moved := workspace(t)
	must(t, os.Mkdir(filepath.Join(moved, ".koupsandbox"), 0o750))
	must(t, os.Rename(filepath.Join(folder, j.Cache.Paths[0]), filepath.Join(moved, j.Cache.Paths[0])))
	inputs["scenarios"] = "'my own/lossy.yaml'"
	log, failed = readTemplate(t).job(t, inputs).run(t, moved, home)
	if !failed || !strings.Contains(log, "✗ lossy") {
		t.Errorf("the job failed: %t\n%s", failed, log)
	}
	if diff := cmp.Diff([]string{"install.sh", "checksums.txt"}, release.downloads()); diff != "" {
		t.Errorf("downloads, with a cache (-want +got):\n%s", diff)
	}
	if got := fmt.Sprint(names(t, filepath.Join(moved, "out"))); got != fmt.Sprint(reports) {
		t.Errorf("reports of a failure: %s", got)
	}
	nothingIsUp(t, home)
}
