package ci

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// The recipe of the documents does what they say on any machine with a shell, in both languages.
func TestRecipe(t *testing.T) {
	recipe := func(language string) string {
		text, err := os.ReadFile(filepath.Join(root, "docs", language, "how-to", "run-in-ci.md"))
		must(t, err)
		_, rest, _ := strings.Cut(string(text), "```text\nexport KOUPSANDBOX_VERSION=")
		block, _, found := strings.Cut(rest, "\n```\n")
		if !found {
			t.Fatalf("the page in %s has no recipe", language)
		}
		return "export KOUPSANDBOX_VERSION=" + block
	}
	english := recipe("en")
	if diff := cmp.Diff(english, recipe("zh")); diff != "" {
		t.Errorf("the recipes differ (-en +zh):\n%s", diff)
	}
	release, folder, home := serve(t), workspace(t), shortFolder(t)
	must(t, os.RemoveAll(filepath.Join(folder, "scenarios", "broken-release.yaml")))
	must(t, os.RemoveAll(filepath.Join(folder, "scenarios", "controller-restart.yaml")))
	script := strings.NewReplacer("v0.1.0", version, "https://github.com/koupleless/koupsandbox/releases/download", release.mirror).Replace(english)
	cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
	cmd.Dir = folder
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home}
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s\n%s", err, script, out)
	}
	if diff := cmp.Diff(reports, names(t, filepath.Join(folder, "reports"))); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	nothingIsUp(t, filepath.Join(home, ".koupsandbox"))
}
