package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"
)

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	code    = regexp.MustCompile("`[^`]*`")
	heading = regexp.MustCompile(`^#{1,6} (.*)$`)
)

// Every relative link leads to a file that is there, and to a heading in it.
func TestLinks(t *testing.T) {
	for _, path := range documents(t) {
		p, err := readPage(path)
		if err != nil {
			t.Fatal(err)
		}
		for i, line := range p.prose() {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				file, anchor, _ := strings.Cut(m[1], "#")
				target := path
				if file != "" {
					target = filepath.ToSlash(filepath.Join(filepath.Dir(path), file))
				}
				if _, err := os.Stat(filepath.Join(root, target)); err != nil {
					t.Errorf("%s:%d: %s leads nowhere", path, i+1, m[1])
				} else if anchor != "" && !slices.Contains(anchors(t, target), anchor) {
					t.Errorf("%s:%d: %s: there is no such heading", path, i+1, m[1])
				}
			}
		}
	}
}

// prose are the lines of a page, those of blocks empty.
func (p *page) prose() []string {
	lines := slices.Clone(p.lines)
	for _, b := range p.blocks {
		for i := b.from; i < b.to; i++ {
			lines[i] = ""
		}
	}
	return lines
}

// anchors of the headings of a document, as GitHub makes them.
func anchors(t *testing.T, path string) []string {
	t.Helper()
	p, err := readPage(path)
	if err != nil {
		t.Fatal(err)
	}
	var list []string
	for _, line := range p.prose() {
		m := heading.FindStringSubmatch(line)
		if m == nil {
			continue
		}
		text := link.ReplaceAllString(strings.ToLower(m[1]), "]")
		list = append(list, strings.Map(func(r rune) rune {
			switch {
			case r == ' ':
				return '-'
			case r == '-' || r == '_' || unicode.IsLetter(r) || unicode.IsDigit(r):
				return r
			}
			return -1
		}, text))
	}
	return list
}

// A Chinese page has the blocks and the headings of the English one. Blocks are executed once, from the English page.
func TestChinese(t *testing.T) {
	for _, path := range documents(t) {
		other := chinese(path)
		if other == "" {
			continue
		}
		en, err := readPage(path)
		if err != nil {
			t.Fatal(err)
		}
		zh, err := readPage(other)
		if err != nil {
			t.Errorf("%s has no Chinese page: %v", path, err)
			continue
		}
		if len(en.blocks) != len(zh.blocks) {
			t.Errorf("%s has %d blocks, %s %d", path, len(en.blocks), other, len(zh.blocks))
			continue
		}
		for i, b := range en.blocks {
			if o := zh.blocks[i]; b.kind != o.kind || en.text(b) != zh.text(o) {
				t.Errorf("the block at %s:%d differs from the one at %s:%d", path, b.from, other, o.from)
			}
		}
		if a, b := levels(en), levels(zh); !slices.Equal(a, b) {
			t.Errorf("%s has the headings %v, %s %v", path, a, other, b)
		}
	}
	for _, path := range documents(t) { // no Chinese page without an English one
		if rest, found := strings.CutPrefix(path, "docs/zh/"); found {
			if _, err := os.Stat(filepath.Join(root, "docs/en", rest)); err != nil {
				t.Errorf("%s has no English page", path)
			}
		}
	}
}

// levels are the levels of a page's headings.
func levels(p *page) []int {
	var list []int
	for _, line := range p.prose() {
		if heading.MatchString(line) {
			list = append(list, strings.IndexByte(line, ' '))
		}
	}
	return list
}

// A command stands in a block ```console, where it is executed or says why not.
func TestCommandsAreExecuted(t *testing.T) {
	kinds := []string{"console", "yaml", "text"}
	for _, path := range documents(t) {
		p, err := readPage(path)
		if err != nil {
			t.Fatal(err)
		}
		executed := path == "README.md" || path == "README-zh_CN.md" || strings.HasPrefix(path, "docs/en/") || strings.HasPrefix(path, "docs/zh/")
		if !executed {
			continue
		}
		for _, b := range p.blocks {
			switch first, _, _ := strings.Cut(p.text(b), "\n"); {
			case !slices.Contains(kinds, b.kind):
				t.Errorf("%s:%d: a block is one of %v, not %q", path, b.from, kinds, b.kind)
			case b.kind == "console" && !strings.HasPrefix(first, "$ "):
				t.Errorf("%s:%d: a block ```console begins with a command behind \"$ \"", path, b.from)
			case b.kind != "console" && strings.HasPrefix(first, "$ "):
				t.Errorf("%s:%d: commands stand in a block ```console", path, b.from)
			}
		}
		for i, line := range p.prose() {
			if strings.HasPrefix(code.ReplaceAllString(line, ""), "    ") {
				t.Errorf("%s:%d: an indented block; use a fence", path, i+1)
			}
		}
	}
}

// The README is short.
func TestReadmeIsShort(t *testing.T) {
	const most = 1200
	for _, path := range []string{"README.md", "README-zh_CN.md"} {
		text, err := os.ReadFile(filepath.Join(root, path))
		if err != nil {
			t.Fatal(err)
		}
		if n := len(strings.Fields(string(text))); n > most {
			t.Errorf("%s has %d words; it may have %d", path, n, most)
		}
	}
}
