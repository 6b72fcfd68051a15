package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// board is the folder of the page.
const board = "../.."

// What is committed is what its sources make, each time.
func TestThePageIsThatOfItsSources(t *testing.T) {
	for range 2 {
		made, err := bundle(board)
		if err != nil {
			t.Fatal(err)
		}
		if len(made) != 2 {
			t.Fatalf("the bundle has %d files", len(made))
		}
		for name, content := range made {
			committed, err := os.ReadFile(filepath.Join(board, "web/dist", name))
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(content, committed) {
				t.Errorf("web/dist/%s is not that of its sources: make generate", name)
			}
		}
	}
	script, err := reportScript(board)
	if err != nil {
		t.Fatal(err)
	}
	committed, err := os.ReadFile(filepath.Join(board, reportPage))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(script, committed) {
		t.Errorf("%s is not that of its sources: make generate", reportPage)
	}
	source, err := os.ReadFile(filepath.Join(board, "wire.go"))
	if err != nil {
		t.Fatal(err)
	}
	types, err := typescript(filepath.Join(board, "../.."), "wire.go", source)
	if err != nil {
		t.Fatal(err)
	}
	committed, err = os.ReadFile(filepath.Join(board, "web/src/wire.ts"))
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(types, string(committed)); diff != "" {
		t.Errorf("web/src/wire.ts is not that of wire.go: make generate (-wire.go +wire.ts):\n%s", diff)
	}
}

func TestTypesAsTypeScript(t *testing.T) {
	got, err := typescript(".", "x.go", []byte(`package x

// Colour of it.
type Colour string

// The colours.
const (
	Red  Colour = "red"
	Blue Colour = "blue"
)

// Row is a thing.
type Row struct {
	// Name of it.
	Name   string            `+"`json:\"name\"`"+`
	Colour Colour            `+"`json:\"colour,omitempty\"`"+`
	Counts map[string]int64  `+"`json:\"counts\"`"+`
	Parts  []Row             `+"`json:\"parts,omitempty\"`"+`
	Good   bool              `+"`json:\"good\"`"+`
}
`))
	want := `// Written from sandbox/board/wire.go, which describes the types, by ` + "`make generate`" + `. Do not edit.

export type Colour = "red" | "blue";

export interface Row {
  name: string;
  colour?: Colour;
  counts: Record<string, number>;
  parts?: Row[];
  good: boolean;
}
`
	if diff := cmp.Diff(want, got); diff != "" || err != nil {
		t.Errorf("error %v (-want +got):\n%s", err, diff)
	}
	if _, err := typescript(".", "x.go", []byte("package x\ntype Row struct { A chan int `json:\"a\"` }")); err == nil || !strings.Contains(err.Error(), "no TypeScript") {
		t.Errorf("of a channel: %v", err)
	}
}
