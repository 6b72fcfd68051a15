package main

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/controller/errcode"
)

// A new flag needs no Chinese text: the Chinese page has the marked English text, and docgen only prints a warning.
func TestMissingTranslation(t *testing.T) {
	w := &translations{
		texts: map[string]map[string]string{"flags": {"--old": "旧选项"}},
		used:  map[string]bool{},
	}
	tables := []table{{columns: []cell{{"Flag", "选项"}, {"Meaning", "含义"}}, rows: [][]cell{
		{same("`--old`"), w.text("flags", "--old", "old flag")},
		{same("`--new`"), w.text("flags", "--new", "new\n  flag")},
	}}}
	for language, want := range map[string]string{
		"en": "| Flag | Meaning |\n|---|---|\n| `--old` | old flag |\n| `--new` | new flag |\n\n",
		"zh": "| 选项 | 含义 |\n|---|---|\n| `--old` | 旧选项 |\n| `--new` | 〔未翻译〕new flag |\n\n",
	} {
		if diff := cmp.Diff(want, markdown(tables, language)); diff != "" {
			t.Errorf("%s (-want +got):\n%s", language, diff)
		}
	}
	var warnings strings.Builder
	if err := w.report(&warnings); err != nil {
		t.Errorf("a missing text is an error: %v", err)
	}
	want := "docgen: warning: docs/chinese.yaml has no text for flags: \"--new\" (new flag)\n"
	if diff := cmp.Diff(want, warnings.String()); diff != "" {
		t.Errorf("warnings (-want +got):\n%s", diff)
	}
}

func TestUnusedTranslation(t *testing.T) {
	w := &translations{texts: map[string]map[string]string{"flags": {"--gone": "已删除"}}, used: map[string]bool{}}
	var warnings strings.Builder
	if err := w.report(&warnings); err == nil || !strings.Contains(err.Error(), `flags: "--gone"`) {
		t.Errorf("got the error %v, want one that names the unused text", err)
	}
	if warnings.Len() > 0 {
		t.Errorf("unexpected warnings: %s", warnings.String())
	}
}

// TestUnreported checks that the code of the controller or the board uses every error code, except those in
// unreported. It ignores the codes of arklet, which come from bases.
func TestUnreported(t *testing.T) {
	used := map[string]bool{}
	constant := regexp.MustCompile(`\b[A-Z]\w+`)
	for _, dir := range []string{"controller", "sandbox/board"} {
		err := filepath.WalkDir(filepath.Join(root, dir), func(path string, d fs.DirEntry, err error) error {
			name := d.Name()
			if err != nil || filepath.Ext(name) != ".go" || strings.HasSuffix(name, "_test.go") ||
				filepath.Base(filepath.Dir(path)) == "errcode" && (name == "codes.go" || name == "table.go") {
				return err
			}
			text, err := os.ReadFile(path)
			for _, c := range constant.FindAllString(string(text), -1) {
				used[c] = true
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, info := range errcode.All() {
		reported := used[strings.Replace(string(info.Code), ".", "", 1)]
		if info.Component != errcode.Arklet && reported == slices.Contains(unreported, info.Code) {
			t.Errorf("%s: reported = %t, in the list of unreported codes = %t", info.Code, reported, !reported)
		}
	}
}
