// Command docgen writes the generated sections of docs/en and docs/zh from the code and the scenarios. Run it with make
// generate.
//
// The Chinese texts are in docs/chinese.yaml. If a text is missing, docgen prints a warning, and the Chinese page has
// the English text with the mark untranslated. An unused text is an error.
package main

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"sigs.k8s.io/yaml"
)

//go:generate go run -trimpath .

// root is the repository root, relative to the directory of this package.
const root = "../../../../.."

// cell is a table cell with its English and its Chinese text.
type cell struct{ en, zh string }

// same returns a cell with the same text in both languages.
func same(text string) cell { return cell{text, text} }

// table is a table of a documentation page. If the title is empty, the table has no heading. If there are no columns,
// it is a list whose items have a term and a description.
type table struct {
	title   cell
	columns []cell
	rows    [][]cell
}

// translations looks up Chinese texts and records missing translations.
type translations struct {
	texts   map[string]map[string]string // Chinese texts by section and key
	used    map[string]bool
	missing []string
}

// untranslated precedes an English text on a Chinese page.
const untranslated = "〔未翻译〕"

// text returns a cell with an English text from the code and the Chinese text of the given key. If there is no Chinese
// text, the cell has the marked English text.
func (w *translations) text(section, key, en string) cell {
	w.used[section+"\x00"+key] = true
	zh, found := w.texts[section][key]
	if !found {
		w.missing = append(w.missing, fmt.Sprintf("%s: %q (%s)", section, key, strings.Join(strings.Fields(en), " ")))
		zh = untranslated + en
	}
	return cell{en, zh}
}

// literal matches default values that need no translation: numbers, names and quoted words.
var literal = regexp.MustCompile(`^("[^"]*"|[~$:./\w-]*|[\d.]+ ?\w*)$`)

// defaultCell returns the table cell for a default value. The key of a translation has no backticks.
func (w *translations) defaultCell(text string) cell {
	shown := text
	text = strings.ReplaceAll(text, "`", "")
	switch unquoted := strings.Trim(text, `"`); {
	case text == "", text == "false", text == "none":
		return cell{}
	case literal.MatchString(text) && !slices.Contains([]string{"random", "required"}, text):
		return same("`" + unquoted + "`")
	}
	return w.text("defaults", text, shown)
}

// report prints a warning for each missing Chinese text. It returns an error that lists the unused Chinese texts.
func (w *translations) report(warnings io.Writer) error {
	slices.Sort(w.missing)
	for _, m := range slices.Compact(w.missing) {
		_, _ = fmt.Fprintf(warnings, "docgen: warning: docs/chinese.yaml has no text for %s\n", m)
	}
	var errs []error
	for section, texts := range w.texts {
		for key := range texts {
			if !w.used[section+"\x00"+key] {
				errs = append(errs, fmt.Errorf("%s: %q", section, key))
			}
		}
	}
	slices.SortFunc(errs, func(a, b error) int { return strings.Compare(a.Error(), b.Error()) })
	if len(errs) > 0 {
		return fmt.Errorf("docs/chinese.yaml has texts that are not used; delete them:\n%w", errors.Join(errs...))
	}
	return nil
}

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "docgen:", err)
		os.Exit(1)
	}
}

func run() error {
	w := &translations{used: map[string]bool{}}
	if err := readYAML("docs/chinese.yaml", &w.texts); err != nil {
		return err
	}
	sections := map[string][]table{}
	for name, build := range map[string]func(*translations) ([]table, error){
		"koupsandbox-flags": koupsandboxFlags,
		"controller-flags":  controllerFlags,
		"fakebase-flags":    fakebaseFlags,
		"settings":          settings,
		"fault-kinds":       faultKinds,
		"fault-fields":      faultFields,
		"error-codes":       errorCodes,
		"why-reasons":       whyReasons,
		"lint-rules":        lintRules,
		"catalogue":         catalogue,
		"steps":             stepKinds,
	} {
		tables, err := build(w)
		if err != nil {
			return fmt.Errorf("%s: %w", name, err)
		}
		sections[name] = tables
	}
	if err := w.report(os.Stderr); err != nil {
		return err
	}
	for _, language := range []string{"en", "zh"} {
		if err := writePages(language, sections); err != nil {
			return err
		}
	}
	return nil
}

func readYAML(path string, into any) error {
	text, err := os.ReadFile(filepath.Join(root, path))
	if err == nil {
		err = yaml.UnmarshalStrict(text, into)
	}
	if err != nil {
		return fmt.Errorf("reading %s: %w", path, err)
	}
	return nil
}

var section = regexp.MustCompile(`(?s)(<!-- generated: ([a-z-]+) -->\n).*?(<!-- end -->\n)`)

// writePages writes each generated section into the page that contains the marker of the section.
func writePages(language string, sections map[string][]table) error {
	placed := map[string]bool{}
	err := filepath.WalkDir(filepath.Join(root, "docs", language), func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || filepath.Ext(path) != ".md" {
			return err
		}
		old, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		var unknown error
		text := section.ReplaceAllStringFunc(string(old), func(found string) string {
			m := section.FindStringSubmatch(found)
			tables, known := sections[m[2]]
			if !known {
				unknown = fmt.Errorf("%s: unknown section %q", path, m[2])
			}
			placed[m[2]] = true
			return m[1] + "\n" + markdown(tables, language) + m[3]
		})
		if unknown != nil || text == string(old) {
			return unknown
		}
		return os.WriteFile(path, []byte(text), 0o644)
	})
	if err != nil {
		return fmt.Errorf("writing the pages: %w", err)
	}
	for name := range sections {
		if !placed[name] {
			return fmt.Errorf("no page in docs/%s contains the marker of section %q; add <!-- generated: %s -->",
				language, name, name)
		}
	}
	return nil
}

func markdown(tables []table, language string) string {
	var b strings.Builder
	text := func(c cell) string {
		if language == "zh" {
			return strings.Join(strings.Fields(c.zh), " ")
		}
		return strings.Join(strings.Fields(c.en), " ")
	}
	line := func(cells []cell) {
		for _, c := range cells {
			fmt.Fprintf(&b, "| %s ", strings.ReplaceAll(text(c), "|", `\|`))
		}
		b.WriteString("|\n")
	}
	for _, t := range tables {
		if t.title.en != "" {
			fmt.Fprintf(&b, "## %s\n\n", text(t.title))
		}
		if len(t.columns) == 0 {
			colon := map[string]string{"en": ": ", "zh": "："}[language]
			for _, row := range t.rows {
				fmt.Fprintf(&b, "- %s%s%s\n", text(row[0]), colon, text(row[1]))
			}
			b.WriteString("\n")
			continue
		}
		line(t.columns)
		b.WriteString(strings.Repeat("|---", len(t.columns)) + "|\n")
		for _, row := range t.rows {
			line(row)
		}
		b.WriteString("\n")
	}
	return b.String()
}
