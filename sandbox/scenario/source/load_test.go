package source_test

import (
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

var update = flag.Bool("update", false, "write the golden files anew")

// golden compares with a file, or writes it.
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
		t.Errorf("%s; write it anew with -update (-want +got):\n%s", file, diff)
	}
}

// Each testdata/bad/x.yaml is refused with exactly the lines of x.txt.
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
				t.Fatal("the file was taken")
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
		for _, cell := range s.Cells {
			instance, err := s.Instantiate(cell, run)
			if err != nil {
				t.Fatal(err)
			}
			text, err := yaml.Marshal(instance.Scenario)
			if err != nil {
				t.Fatal(err)
			}
			b.WriteString("--- " + s.File + " " + cell.Name + "\n" + string(text))
			break
		}
	}
	golden(t, "testdata/good/instances.txt", b.String())
}
