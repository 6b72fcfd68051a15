package ci

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"sigs.k8s.io/yaml"
)

var (
	uses   = regexp.MustCompile(`(?m)^\s*(?:- )?uses: *(\S+)(.*)$`)
	pinned = regexp.MustCompile(`^actions/[a-z-]+@[0-9a-f]{40}$`)
	tagged = regexp.MustCompile(`^ # v\d+\.\d+\.\d+$`)
)

// Actions of others are pinned by their commits, the same everywhere, and a comment says which release
// that is.
func TestActionsArePinned(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yml"))
	must(t, err)
	files = append(files, filepath.Join(root, "action.yml"), filepath.Join(root, "examples", "module", ".github", "workflows", "scenarios.yml"))
	seen := map[string]string{}
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		for _, m := range uses.FindAllStringSubmatch(string(text), -1) {
			used := m[1]
			if used == "./" || used == "koupleless/koupsandbox@v0.1.0" { // our own
				continue
			}
			if !pinned.MatchString(used) || !tagged.MatchString(m[2]) {
				t.Errorf("%s uses %s%s: name its commit, and its release in a comment", file, used, m[2])
			}
			name, _, _ := strings.Cut(used, "@")
			if first := seen[name]; first != "" && first != m[0][strings.Index(m[0], "uses"):] {
				t.Errorf("%s uses %s, and another file %s", file, m[0], first)
			}
			seen[name] = m[0][strings.Index(m[0], "uses"):]
		}
	}
	if len(seen) < 5 {
		t.Errorf("only %d actions were looked at", len(seen))
	}
}

// Jobs of this repository may do only what they say, and end by themselves.
func TestWorkflowsMayDoLittle(t *testing.T) {
	files, err := filepath.Glob(filepath.Join(root, ".github", "workflows", "*.yml"))
	must(t, err)
	for _, file := range files {
		text, err := os.ReadFile(file)
		must(t, err)
		jobs := len(regexp.MustCompile(`(?m)^    runs-on: `).FindAll(text, -1))
		for what, pattern := range map[string]string{
			"no permissions of the workflow": `(?m)^permissions: \{\}$`, "a group": `(?m)^concurrency:\n  group: `,
		} {
			if !regexp.MustCompile(pattern).Match(text) {
				t.Errorf("%s has not %s", file, what)
			}
		}
		for what, pattern := range map[string]string{"permissions": `(?m)^    permissions:`, "an end": `(?m)^    timeout-minutes: \d+$`} {
			if got := len(regexp.MustCompile(pattern).FindAll(text, -1)); got != jobs || jobs == 0 {
				t.Errorf("%s: %d of %d jobs have %s", file, got, jobs, what)
			}
		}
	}
	if len(files) < 2 {
		t.Errorf("only %d workflows were looked at", len(files))
	}
}

// A release is a draft until its files are tested. The job that publishes it compares the files of the draft
// with the tested files.
func TestAReleaseIsTestedBeforeItIsPublished(t *testing.T) {
	text, err := os.ReadFile(filepath.Join(root, ".github", "workflows", "release.yml"))
	must(t, err)
	var workflow struct {
		Jobs map[string]struct {
			Needs string
			Steps []step
		}
	}
	must(t, yaml.Unmarshal(text, &workflow))
	for name, job := range workflow.Jobs {
		if want := map[string]string{"draft": "build", "try": "draft", "publish": "try"}[name]; job.Needs != want {
			t.Errorf("job %s needs %q, want %q", name, job.Needs, want)
		}
		for _, s := range job.Steps {
			create, publish := strings.Contains(s.Run, "gh release create"), strings.Contains(s.Run, "--draft=false")
			if create && !strings.Contains(s.Run, " --draft ") || (create || publish) && name != map[bool]string{true: "draft", false: "publish"}[create] ||
				publish && !strings.Contains(s.Run, "diff -r tried draft\n") {
				t.Errorf("job %s runs: %s", name, s.Run)
			}
		}
	}
	if len(workflow.Jobs) != 4 {
		t.Errorf("%d jobs; want build, draft, try and publish", len(workflow.Jobs))
	}
}
