package main

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
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
