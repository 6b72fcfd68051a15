package ci

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

var (
	uses   = regexp.MustCompile(`(?m)^\s*(?:- )?uses: *(\S+)(.*)$`)
	pinned = regexp.MustCompile(`^actions/[a-z-]+@[0-9a-f]{40}$`)
	tagged = regexp.MustCompile(`^ # v\d+\.\d+\.\d+$`)
)

// All files use the same commit of an action, and name its release in a comment.
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
