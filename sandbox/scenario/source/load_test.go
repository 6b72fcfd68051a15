package source_test

import (
	"flag"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

var update = flag.Bool("update", false, "write the golden files")

// golden compares got with the content of a file. With -update, it writes got to the file.
func golden(t *testing.T, file, got string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(file, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s; update it with -update (-want +got):\n%s", file, diff)
	}
}

// TestBadFiles checks that Load rejects each file testdata/bad/NAME.yaml with the problems in NAME.txt.
func TestBadFiles(t *testing.T) {
	files, err := filepath.Glob("testdata/bad/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no bad files found: %v", err)
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasPrefix(string(text), "# not a scenario") {
			continue
		}
		t.Run(filepath.Base(file), func(t *testing.T) {
			_, err := source.Load([]string{file}, source.Options{})
			if err == nil {
				t.Fatal("Load returned no error")
			}
			golden(t, strings.TrimSuffix(file, ".yaml")+".txt", err.Error()+"\n")
		})
	}
}

func TestGoodFiles(t *testing.T) {
	scenarios, err := source.Load([]string{"testdata/good"}, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	var b strings.Builder
	for _, s := range scenarios {
		cell := s.Cells[0]
		instance, err := s.Instantiate(cell, run)
		if err != nil {
			t.Fatal(err)
		}
		text, err := yaml.Marshal(instance.Scenario)
		if err != nil {
			t.Fatal(err)
		}
		b.WriteString("--- " + s.File + " " + cell.Name + "\n" + string(text))
	}
	golden(t, "testdata/good/instances.txt", b.String())
}

var run = expr.Run{Namespace: "rolling-x7k2p", Group: "rolling-x7k2p", Seed: 7, Env: "dev", Attempt: 1}

// write writes files to a temporary directory and returns the path of the directory.
func write(t *testing.T, files map[string]string) string {
	t.Helper()
	dir := t.TempDir()
	for name, text := range files {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// scenarioOf returns a small scenario with the given variables. Its script uses all of them.
func scenarioOf(name, vars, labels string) string {
	return `apiVersion: sandbox.koupleless.io/v1alpha1
kind: Scenario
metadata: {name: ` + name + `, labels: {` + labels + `}}
spec:
  description: A script.
  vars: {` + vars + `}
  steps:
    - {name: s, script: {content: "echo", until: "stdout == string(vars.a) + string(vars.b)"}}
`
}

func TestVars(t *testing.T) {
	dir := write(t, map[string]string{"s.yaml": scenarioOf("s", `a: 1, b: "text ${{ vars.a }}"`, "")})
	for _, tc := range []struct {
		vars map[string]any
		want map[string]any
		err  []string
	}{
		{nil, map[string]any{"a": int64(1), "b": "text 1"}, nil},
		{map[string]any{"a": "7"}, map[string]any{"a": int64(7), "b": "text 7"}, nil},
		{map[string]any{"a": 7, "b": "1.0"}, map[string]any{"a": int64(7), "b": "1.0"}, nil},
		{map[string]any{"a": "many"}, nil, []string{"--var a: many ", " 1"}},
		{map[string]any{"a": "1_0"}, nil, []string{"--var a: 1_0 ", " 10"}},
		{map[string]any{"a": "1.10"}, nil, []string{"--var a: 1.10 ", " 1.1;"}},
		{map[string]any{"b": "1.10"}, map[string]any{"a": int64(1), "b": "1.10"}, nil},
		{map[string]any{"aa": "1"}, nil, []string{"--var aa: ", " a?"}},
	} {
		scenarios, err := source.Load([]string{dir}, source.Options{Vars: tc.vars})
		if err != nil {
			if tc.err == nil ||
				slices.ContainsFunc(tc.err, func(value string) bool { return !strings.Contains(err.Error(), value) }) {
				t.Errorf("%v: %v, want %q", tc.vars, err, tc.err)
			}
			continue
		}
		instance, err := scenarios[0].Instantiate(scenarios[0].Cells[0], run)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(tc.want, instance.Vars); diff != "" || tc.err != nil {
			t.Errorf("%v: want error %q (-want +got):\n%s", tc.vars, tc.err, diff)
		}
	}
}

func TestSelectedFiles(t *testing.T) {
	dir := write(t, map[string]string{
		"b.yaml": scenarioOf("beta", "a: 1, b: 2", "area: base"), "a.yml": scenarioOf("alpha", "a: 1, b: 2", ""),
		"pod.yaml": "kind: Pod\n", "notes.txt": "kind: Scenario\n",
	})
	misspelt := write(t, map[string]string{"a.yaml": "kind: Scenari\n", "b.yaml": scenarioOf("beta", "a: 1, b: 2", "")})
	unknown := write(t, map[string]string{
		"a.yaml": "apiVersion: sandbox.koupleless.io/v1alpha1\nkind: Test\n",
		"b.yaml": "kind: Sandbox\napiVersion: sandbox.koupleless.io/v1alpha1\n",
	})
	base := func(_ string, labels map[string]string) bool { return labels["area"] == "base" }
	empty := t.TempDir()
	none := func(string, map[string]string) bool { return false }
	for _, tc := range []struct {
		paths  []string
		choose func(string, map[string]string) bool
		want   []string
		err    string
	}{
		{[]string{dir}, nil, []string{"alpha", "beta"}, ""},
		{[]string{dir}, base, []string{"beta"}, ""},
		{[]string{dir + "/a.yml"}, nil, []string{"alpha"}, ""},
		{[]string{dir}, none, nil, "koupsandbox scenario list"},
		{[]string{dir + "/a.yml", dir + "/a.yml"}, nil, nil, dir + `/a.yml:3: metadata.name: duplicate name "alpha"`},
		{[]string{dir + "/c.yaml"}, nil, nil, dir + "/c.yaml: "},
		{[]string{empty}, nil, nil, empty + ": "},
		{[]string{misspelt}, nil, nil, `/a.yaml:1: kind: unexpected kind "Scenari"`},
		{[]string{unknown}, nil, nil, `/a.yaml:2: kind: unexpected kind "Test"`},
		{[]string{dir + "/pod.yaml"}, nil, nil, `/pod.yaml:1: kind: unexpected kind "Pod"`},
	} {
		scenarios, err := source.Load(tc.paths, source.Options{Select: tc.choose})
		var names []string
		for _, s := range scenarios {
			names = append(names, s.Scenario.Metadata.Name)
		}
		if diff := cmp.Diff(tc.want, names); diff != "" {
			t.Errorf("%v (-want +got):\n%s", tc.paths, diff)
		}
		if (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
			t.Errorf("%v: error %v, want %s", tc.paths, err, tc.err)
		}
	}
}

// FuzzLoad checks that Load does not panic for any file.
func FuzzLoad(f *testing.F) {
	for _, pattern := range []string{"testdata/*/*.yaml"} {
		files, err := filepath.Glob(pattern)
		if err != nil {
			f.Fatal(err)
		}
		for _, file := range files {
			text, err := os.ReadFile(file)
			if err != nil {
				f.Fatal(err)
			}
			f.Add(text)
		}
	}
	dir := f.TempDir()
	f.Fuzz(func(t *testing.T, text []byte) {
		file := filepath.Join(dir, "s.yaml")
		if err := os.WriteFile(file, text, 0o600); err != nil {
			t.Fatal(err)
		}
		scenarios, err := source.Load([]string{file}, source.Options{})
		if err != nil && !strings.Contains(err.Error(), file) {
			t.Errorf("the problem has no file: %v", err)
		}
		if err == nil {
			for _, cell := range scenarios[0].Cells {
				if _, err := scenarios[0].Instantiate(cell, run); err != nil {
					t.Errorf("cell %s was loaded, but instantiating it failed: %v", cell.Name, err)
				}
			}
		}
	})
}
