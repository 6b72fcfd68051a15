package ci

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
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
	release, home := serve(t), shortFolder(t)
	script := strings.NewReplacer("v0.1.0", version, "https://github.com/koupleless/koupsandbox/releases/download", release.mirror, "--proto '=https' ", "").Replace(english)
	cached := "" // as a runner with another folder gets it
	for _, downloads := range [][]string{{"install.sh", "checksums.txt", archiveName()}, {"install.sh", "checksums.txt"}} {
		folder := workspace(t)
		must(t, os.RemoveAll(filepath.Join(folder, "scenarios", "broken-release.yaml")))
		must(t, os.RemoveAll(filepath.Join(folder, "scenarios", "controller-restart.yaml")))
		before, cache := names(t, folder), filepath.Join(folder, ".koupsandbox", "cache")
		if cached != "" {
			must(t, os.Mkdir(filepath.Dir(cache), 0o750))
			must(t, os.Rename(cached, cache))
		}
		cached = cache
		cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
		cmd.Dir = folder
		cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, allowHTTP, skipAttestation}
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Fatalf("%v\n%s\n%s", err, script, out)
		}
		if diff := cmp.Diff(downloads, release.downloads()); diff != "" {
			t.Errorf("downloads (-want +got):\n%s", diff)
		}
		after := slices.DeleteFunc(names(t, folder), func(name string) bool { return name == "reports" || name == ".koupsandbox" })
		if diff := cmp.Diff(before, after); diff != "" {
			t.Errorf("the recipe leaves more than it says (-before +after):\n%s", diff)
		}
		if diff := cmp.Diff(reports, names(t, filepath.Join(folder, "reports"))); diff != "" {
			t.Errorf("reports (-want +got):\n%s", diff)
		}
		nothingIsUp(t, filepath.Join(home, ".koupsandbox"))
	}
}
