package cli_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

// tree returns the content of each file in a directory tree, by path.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		name, relErr := filepath.Rel(dir, path)
		if err == nil {
			err = relErr
		}
		files[filepath.ToSlash(name)] = string(text)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return files
}

// TestInit checks that init writes the example module of this repository with another module name, and that lint and
// run accept the written files unchanged.
func TestInit(t *testing.T) {
	example := tree(t, filepath.Join("..", "..", "..", "..", "..", "examples", "module"))
	for ci, file := range map[string]string{"github": ".github/workflows/scenarios.yml", "gitlab": ".gitlab-ci.yml",
		"none": ""} {
		t.Run(ci, func(t *testing.T) {
			home := t.TempDir()
			got := run(t, home, "init", "--ci", ci, "HOME/order")
			if got.Code != 0 || got.Err != "" {
				t.Fatalf("init: %+v", got)
			}
			written := tree(t, filepath.Join(home, "order"))
			schema := written["scenarios/scenario.schema.json"]
			delete(written, "scenarios/scenario.schema.json")
			if !strings.HasPrefix(schema, "{") {
				t.Errorf("schema: %.40q", schema)
			}
			want := map[string]string{}
			for name, text := range example {
				if other := name == ".github/workflows/scenarios.yml" || name == ".gitlab-ci.yml"; !other ||
					name == file {
					text = strings.ReplaceAll(text, "$schema=../../../sandbox/api/v1alpha1/", "$schema=")
					want[name] = strings.ReplaceAll(text, "stock", "order")
				}
			}
			if diff := cmp.Diff(want, written); diff != "" {
				t.Errorf("files (-want +got):\n%s", diff)
			}
			for name := range written {
				if !strings.Contains(got.Out, filepath.Join("HOME/order", name)+"\n") {
					t.Errorf("%s is not printed in:\n%s", name, got.Out)
				}
			}
			for name, text := range written {
				if strings.HasPrefix(name, "scenarios/") && regexp.MustCompile(`\b[1-9]\.0\.0`).MatchString(text) {
					t.Errorf("%s has a version that a manifest can have after a version bump:\n%s", name, text)
				}
			}
			if printed := strings.Contains(got.Out, "not a released version"); printed != (ci != "none") {
				t.Errorf("note about the release in CI: %t:\n%s", printed, got.Out)
			}
			none := result{0, "", ""}
			if diff := cmp.Diff(none, run(t, home, "scenario", "lint", "--env", "dev", "HOME/order")); diff != "" {
				t.Errorf("lint (-want +got):\n%s", diff)
			}
			plan := "broken-release\ncontroller-restart\nrelease\n\n3 runs of 3 scenarios; all are valid.\n"
			requirePlan(t, home, plan)
		})
	}
}

// TestInitForAnEnvironment checks that the files that init writes for an environment use it: the manifests, the
// Makefile, and the CI files. A sandbox with the written configuration has this environment.
func TestInitForAnEnvironment(t *testing.T) {
	for ci, tc := range map[string]struct{ file, env string }{
		"github": {".github/workflows/scenarios.yml", "jobs.scenarios.env"}, "gitlab": {".gitlab-ci.yml", "variables"},
		"none": {}} {
		t.Run(ci, func(t *testing.T) {
			home := t.TempDir()
			for _, args := range [][]string{{"HOME/before"}, {"--env", "1", "HOME/order"}} {
				args = append([]string{"init", "--name", "order", "--ci", ci}, args...)
				if got := run(t, home, args...); got.Code != 0 {
					t.Fatalf("init: %+v", got)
				}
			}
			before, written := tree(t, filepath.Join(home, "before")), tree(t, filepath.Join(home, "order"))
			var changed []string
			for name, text := range written {
				if text != before[name] {
					changed = append(changed, name)
				}
			}
			slices.Sort(changed)
			want := []string{"Makefile", "manifests/deployment.yaml", "sandbox.yaml"}
			if tc.file != "" {
				want = append([]string{tc.file}, want...)
				var workflow map[string]any
				check.Must(t, yaml.Unmarshal([]byte(written[tc.file]), &workflow))
				config, _, err := unstructured.NestedString(workflow,
					append(strings.Split(tc.env, "."), "KOUPSANDBOX_CONFIG")...)
				if config != "sandbox.yaml" || err != nil {
					t.Errorf("KOUPSANDBOX_CONFIG is %q (%v) in:\n%s", config, err, written[tc.file])
				}
			}
			if diff := cmp.Diff(want, changed); diff != "" {
				t.Errorf("files that depend on the environment (-want +got):\n%s", diff)
			}
			if !strings.Contains(written["Makefile"], "\nexport KOUPSANDBOX_CONFIG = sandbox.yaml\n") ||
				!strings.Contains(written["Makefile"], " lint --env 1 ") {
				t.Errorf("Makefile:\n%s", written["Makefile"])
			}
			if diff := cmp.Diff(result{0, "", ""},
				run(t, home, "scenario", "lint", "--env", "1", "HOME/order/manifests",
					"HOME/order/scenarios")); diff != "" {
				t.Errorf("lint (-want +got):\n%s", diff)
			}
			config, origins, err := v1alpha1.Decode("sandbox.yaml", []byte(written["sandbox.yaml"]))
			err = v1alpha1.Complete(config, origins, err)
			if err != nil || config.Spec.Env != "1" {
				t.Errorf("sandbox.yaml: %v:\n%s", err, written["sandbox.yaml"])
			}
		})
	}
}

// TestInitForWebModules checks the files that init --web writes, and that lint and run accept them unchanged.
func TestInitForWebModules(t *testing.T) {
	home := t.TempDir()
	if got := run(t, home, "init", "--web", "HOME/order"); got.Code != 0 {
		t.Fatalf("init: %+v", got)
	}
	written := tree(t, filepath.Join(home, "order"))
	spec := "and the Service loses no request.\n  bases:\n    - {count: 3, installTime: 200ms, web: true}\n" +
		"  checks: {activeVersion: ignored} #"
	for name, contains := range map[string]string{
		"manifests/deployment.yaml": "    module.koupleless.io/install-strategy: uninstallThenInstall\n" +
			"      labels:\n        app: order\n",
		"scenarios/release.yaml":            spec,
		"scenarios/controller-restart.yaml": spec,
		"README.md":                         "They check only requests to the Service.",
		"README-zh_CN.md":                   "只检查发往 Service 的请求。",
	} {
		if text := written[name]; !strings.Contains(text, contains) || strings.Contains(text, "via: bases") {
			t.Errorf("%s does not contain %q, or has a stream to all bases:\n%s", name, contains, text)
		}
	}
	if got := run(t, home, "scenario", "lint", "--env", "dev", "HOME/order"); got.Code != 0 || got.Err != "" ||
		strings.Count(got.Out, "\n") != 1 || !strings.Contains(got.Out, "warning: ") {
		t.Errorf("lint: %+v", got)
	}
	plan := "controller-restart\nrelease\n\n2 runs of 2 scenarios; all are valid.\n"
	requirePlan(t, home, plan)
}

// requirePlan checks the output of a dry run of the scenarios in the repository order.
func requirePlan(t *testing.T, home, plan string) {
	t.Helper()
	got := run(t, home, "scenario", "run", "--dry-run", "HOME/order/scenarios")
	if diff := cmp.Diff(result{0, plan, ""}, got); diff != "" {
		t.Errorf("dry-run (-want +got):\n%s", diff)
	}
}

// TestInitInARepository checks that init keeps existing files of a repository, prints the lines to add to them, and
// changes nothing if it is repeated. It writes nothing if an existing file prevents the scenarios from running.
func TestInitInARepository(t *testing.T) {
	home := t.TempDir()
	dir := filepath.Join(home, "order")
	write := func(files map[string]string) {
		t.Helper()
		for name, text := range files {
			file := filepath.Join(dir, name)
			check.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
			check.Must(t, os.WriteFile(file, []byte(text), 0o600))
		}
	}
	before := map[string]string{"README.md": "mine", ".gitignore": "a\n/reports/\nb\n", ".gitlab-ci.yml": "mine"}
	write(before)
	for range 2 {
		got := run(t, home, "init", "--ci", "gitlab", "HOME/order")
		if got.Code != 0 || strings.Contains(got.Out, ".gitignore already") || strings.Contains(got.Out, "zh_CN") ||
			!strings.Contains(got.Out, "\nHOME/order/README.md already exists and was not changed.\n") ||
			!strings.Contains(got.Out, "/.gitlab-ci.yml already exists and was not changed; add:\ninclude:\n") ||
			!strings.Contains(got.Out, "\nRun the scenarios with: make -C HOME/order test\n") {
			t.Errorf("init: %+v", got)
		}
	}
	after := tree(t, dir)
	if translation := after["README-zh_CN.md"]; translation != "" {
		t.Errorf("a translation of another README.md was written:\n%s", translation)
	}
	for name, text := range before {
		if after[name] != text {
			t.Errorf("%s was changed to:\n%s", name, after[name])
		}
	}
	write(map[string]string{"Makefile": "mine", ".gitignore": "mine"})
	check.Must(t, os.Remove(filepath.Join(dir, "README.md")))
	check.Must(t, os.Symlink(filepath.Join(home, "nowhere"), filepath.Join(dir, "README.md")))
	got := run(t, home, "init", "--ci", "none", "--env", "dev", "HOME/order")
	command := "\nRun the scenarios with: cd HOME/order && koupsandbox scenario lint --env dev manifests scenarios" +
		" && koupsandbox scenario run --up --report-dir reports scenarios --config sandbox.yaml\n"
	if got.Code != 0 || !strings.Contains(got.Out, command) || !strings.Contains(got.Out, "README.md already") ||
		!strings.Contains(got.Out, ".gitignore already exists and was not changed; add:\n/reports/\n") {
		t.Errorf("init: %+v", got)
	}
	write(map[string]string{"manifests/service.yaml": "mine", "scenarios/release.yaml": "mine"})
	before = tree(t, filepath.Join(dir, "scenarios"))
	run(t, home, "init", "HOME/order").expect(t, 2, seeHelp("init"),
		"HOME/order manifests/service.yaml, scenarios/release.yaml")
	if diff := cmp.Diff(before, tree(t, filepath.Join(dir, "scenarios"))); diff != "" {
		t.Errorf("files (-before +after):\n%s", diff)
	}
	if _, err := os.Stat(filepath.Join(dir, ".github")); err == nil {
		t.Error("the workflow was written")
	}
}

func TestInitRejectsInvalidArguments(t *testing.T) {
	home := t.TempDir()
	if err := os.WriteFile(filepath.Join(home, "file"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		args  []string
		names string
	}{
		{[]string{"a", "b"}, "init one"},
		{[]string{"--ci", "jenkins", "HOME/a"}, `--ci "jenkins" github, gitlab, none`},
		{[]string{"--env", "My", "HOME/a"}, `--env "My" 63`},
		{[]string{"--env", "", "HOME/a"}, `--env ""`},
		{[]string{"--name", "My", "HOME/a"}, `--name "My" 63`},
		{[]string{"--name", "on", "HOME/a"}, `--name "on" YAML`},
		{[]string{"--name", "1e3", "HOME/a"}, `--name "1e3" YAML`},
		{[]string{"HOME/A b"}, `--name "A b" 63`},
		{[]string{"HOME/file"}, "HOME/file/.github/workflows/scenarios.yml:"},
	} {
		run(t, home, append([]string{"init"}, tc.args...)...).expect(t, 2, seeHelp("init"), tc.names)
	}
	if diff := cmp.Diff(map[string]string{"file": ""}, tree(t, home)); diff != "" {
		t.Errorf("files were written (-want +got):\n%s", diff)
	}
}
