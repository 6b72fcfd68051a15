package report_test

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/report"
)

func TestFailedSaveKeepsFile(t *testing.T) {
	broken := errors.New("no ink")
	writes := func(text string, err error) func(io.Writer, *scenario.Report) error {
		return func(w io.Writer, _ *scenario.Report) error {
			_, writeErr := io.WriteString(w, text)
			return errors.Join(err, writeErr)
		}
	}
	folder := filepath.Join(t.TempDir(), "new", "folder")
	path := filepath.Join(folder, "report.json")
	if err := report.Save(path, nil, writes("whole", nil)); err != nil {
		t.Fatal(err)
	}
	if err := report.Save(path, nil, writes("ha", broken)); !errors.Is(err, broken) {
		t.Errorf("Save returned %v", err)
	}
	files, err := os.ReadDir(folder)
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]string{}
	for _, f := range files {
		text, err := os.ReadFile(filepath.Join(folder, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		got[f.Name()] = string(text)
	}
	if diff := cmp.Diff(map[string]string{"report.json": "whole"}, got); diff != "" {
		t.Errorf("files (-want +got):\n%s", diff)
	}
}
