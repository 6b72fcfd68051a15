package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

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
	want := `// Generated from sandbox/board/wire.go, which describes the types, by ` + "`make generate`" +
		`. Do not edit.

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
	if _, err := typescript(".", "x.go",
		[]byte("package x\ntype Row struct { A chan int `json:\"a\"` }")); err == nil ||
		!strings.Contains(err.Error(), "unsupported type") {
		t.Errorf("of a channel: %v", err)
	}
}
