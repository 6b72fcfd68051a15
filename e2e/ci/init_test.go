package ci

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
)

// workflow is a workflow of GitHub's, as far as init writes it.
type workflow struct {
	Name        string            `json:"name"`
	On          any               `json:"on"`
	Permissions map[string]string `json:"permissions"`
	Jobs        map[string]struct {
		RunsOn  string `json:"runs-on"`
		Timeout int    `json:"timeout-minutes"`
		Steps   []step `json:"steps"`
	} `json:"jobs"`
}

// What init writes passes its own CI as it is.
func TestInit(t *testing.T) {
	bin, err := box.FindPrograms(root)
	must(t, err)
	folder := filepath.Join(t.TempDir(), "order")
	b := &box.Box{Bin: bin, Home: shortFolder(t), Name: "koup"}
	must(t, b.Must(t.Context(), "init", folder))

	release := serve(t)
	text, err := os.ReadFile(filepath.Join(folder, ".github", "workflows", "scenarios.yml"))
	must(t, err)
	// YAML 1.1 takes the key on for true.
	text = []byte(strings.Replace(string(text), "\non:", "\n\"on\":", 1))
	text = []byte(strings.ReplaceAll(string(text), "version: v0.1.0\n", "version: "+version+"\n          mirror: "+release.mirror+"\n"))
	var w workflow
	must(t, yaml.UnmarshalStrict(text, &w))
	r := newRunner(t, folder, "")
	r.steps(w.Jobs["scenarios"].Steps, map[string]string{})
	if r.failed {
		t.Fatalf("CI failed:\n%s", r.log.String())
	}
	if !strings.Contains(r.log.String(), "3 passed in ") {
		t.Errorf("not all scenarios were run:\n%s", r.log.String())
	}
	if diff := cmp.Diff([]string{"koupsandbox-report"}, r.artifacts); diff != "" {
		t.Errorf("artifacts (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(reports, names(t, filepath.Join(folder, r.artifacts[0]))); diff != "" {
		t.Errorf("reports (-want +got):\n%s", diff)
	}
	nothingIsUp(t, r.home())
}

// The Makefile of a repository does the same on a developer's machine.
func TestInitMakefile(t *testing.T) {
	bin, err := box.FindPrograms(root)
	must(t, err)
	folder, home := t.TempDir(), shortFolder(t)
	b := &box.Box{Bin: bin, Home: home, Name: "koup"}
	must(t, b.Must(t.Context(), "init", "--name", "order", "--ci", "none", folder))
	cmd := exec.CommandContext(t.Context(), "make", "-C", folder, "test")
	cmd.Env = []string{"PATH=" + bin + ":" + os.Getenv("PATH"), "HOME=" + home}
	out, err := cmd.CombinedOutput()
	if err != nil || !strings.Contains(string(out), "3 passed in ") {
		t.Errorf("make test: %v\n%s", err, out)
	}
	nothingIsUp(t, filepath.Join(home, ".koupsandbox"))
}
