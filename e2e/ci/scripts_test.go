package ci

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
)

// gitlab returns the script of the job in ci/gitlab.yml with its inputs, and the paths of its cache and artifacts.
func gitlab(t *testing.T, mirror string) (script string, kept []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "ci", "gitlab.yml"))
	must(t, err)
	_, body, _ := strings.Cut(string(text), "\n---\n")
	for name, value := range map[string]string{"version": version, "mirror": mirror,
		"scenarios": "scenarios/release.yaml", "report": "reports", "stage": "test",
		"lint": "--env dev lossy"} {
		body = strings.ReplaceAll(body, "$[[ inputs."+name+" ]]", value)
	}
	var jobs map[string]struct {
		Variables    map[string]string
		Cache        struct{ Paths []string }
		BeforeScript []string `json:"before_script"`
		Script       []string
		AfterScript  []string `json:"after_script"`
		Artifacts    struct {
			Paths   []string
			Reports map[string]string
		}
	}
	must(t, yaml.Unmarshal([]byte(body), &jobs))
	j := jobs["koupsandbox"]
	var lines []string
	for name, value := range j.Variables {
		lines = append(lines, "export "+name+"='"+value+"'")
	}
	lines = slices.Concat(lines, j.BeforeScript, j.Script, j.AfterScript)
	return strings.Join(lines, "\n"),
		[]string{j.Cache.Paths[0] + archiveName(), j.Artifacts.Paths[0] + "report.html", j.Artifacts.Reports["junit"]}
}

// recipe returns the script in docs/en/how-to/run-in-ci.md, and the paths of its cached archive and reports.
func recipe(t *testing.T, mirror string) (script string, kept []string) {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, "docs", "en", "how-to", "run-in-ci.md"))
	must(t, err)
	_, rest, _ := strings.Cut(string(text), "```text\nexport KOUPSANDBOX_VERSION=")
	block, _, _ := strings.Cut(rest, "\n```\n")
	block = strings.NewReplacer("v0.1.0", version, "https://github.com/koupleless/koupsandbox/releases/download",
		mirror, "--proto '=https' ", "").Replace(block)
	return "export KOUPSANDBOX_VERSION=" + block,
		[]string{".koupsandbox/cache/" + archiveName(), "reports/report.html", "reports/junit.xml"}
}

// TestScripts checks that the scripts for GitLab and for other CI servers install a release, run scenarios, and write
// the reports and the cached archive. The script for GitLab also checks the manifests.
func TestScripts(t *testing.T) {
	for name, read := range map[string]func(*testing.T, string) (string, []string){"GitLab": gitlab, "recipe": recipe} {
		t.Run(name, func(t *testing.T) {
			release, home, folder := serve(t), shortFolder(t), workspace(t)
			script, kept := read(t, release.mirror)
			for _, other := range []string{"broken-release.yaml", "controller-restart.yaml"} {
				must(t, os.Remove(filepath.Join(folder, "scenarios", other)))
			}
			manifest, err := os.ReadFile(filepath.Join(folder, "manifests", "deployment.yaml"))
			must(t, err)
			must(t, os.Mkdir(filepath.Join(folder, "lossy"), 0o750))
			must(t, os.WriteFile(filepath.Join(folder, "lossy", "deployment.yaml"),
				bytes.ReplaceAll(manifest, []byte("maxUnavailable: 0"), []byte("maxUnavailable: 1")), 0o600))
			cmd := exec.CommandContext(t.Context(), "sh", "-ec", script)
			cmd.Dir = folder
			cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + home, "CI=true", allowHTTP, skipAttestation}
			out, err := cmd.CombinedOutput()
			if err != nil {
				t.Fatalf("%v\n%s\n%s", err, script, out)
			}
			if warned := bytes.Contains(out, []byte("[deletes-first]")); warned != (name == "GitLab") {
				t.Errorf("warning of lint: %t\n%s", warned, out)
			}
			if diff := cmp.Diff([]string{"install.sh", "checksums.txt", archiveName()},
				release.downloads()); diff != "" {
				t.Errorf("downloads (-want +got):\n%s", diff)
			}
			for _, path := range kept {
				if _, err := os.Stat(filepath.Join(folder, path)); err != nil {
					t.Error(err)
				}
			}
			requireNoSandbox(t, filepath.Join(home, ".koupsandbox"))
		})
	}
}

// TestInit checks that make test succeeds in repositories that koupsandbox init has created, also for existing
// manifests, which have their own namespace, environment, names, ports and bases.
func TestInit(t *testing.T) {
	t.Run("default", func(t *testing.T) { testInit(t, "3 passed in ", "--name", "order") })
	t.Run("web", func(t *testing.T) { testInit(t, "2 passed in ", "--name", "order", "--web") })
	t.Run("own manifests", func(t *testing.T) { testInit(t, "3 passed in ", "--manifests", "DIR/deploy") })
}

// testInit runs init with the flags, in which DIR is the new repository. The repository contains deploy.
func testInit(t *testing.T, passed string, flags ...string) {
	t.Helper()
	bin, err := box.FindBinaries(root)
	must(t, err)
	folder, home := t.TempDir(), shortFolder(t)
	must(t, os.CopyFS(filepath.Join(folder, "deploy"), os.DirFS(filepath.Join("testdata", "own"))))
	b := &box.Box{Bin: bin, Home: home, Name: "koup"}
	args := []string{"init"}
	for _, flag := range flags {
		args = append(args, strings.ReplaceAll(flag, "DIR", folder))
	}
	must(t, b.Must(t.Context(), append(args, folder)...))
	cmd := exec.CommandContext(t.Context(), "make", "-C", folder, "test")
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + home}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), passed) {
		t.Errorf("make test: %v\n%s", err, out)
	}
	requireNoSandbox(t, filepath.Join(home, ".koupsandbox"))
}
