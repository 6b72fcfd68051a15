package docs

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"unicode"

	"github.com/google/go-cmp/cmp"
)

var (
	link    = regexp.MustCompile(`\]\(([^()\s]+)\)`)
	code    = regexp.MustCompile("`[^`]*`")
	heading = regexp.MustCompile(`^#{1,6} (.*)$`)
)

// TestLinks checks that every relative link refers to an existing file and, if the link has an anchor, to an existing
// heading.
func TestLinks(t *testing.T) {
	for _, p := range documents(t) {
		for i, line := range p.prose() {
			for _, m := range link.FindAllStringSubmatch(line, -1) {
				if strings.Contains(m[1], "://") {
					continue
				}
				file, anchor, _ := strings.Cut(m[1], "#")
				target := p.path
				if file != "" {
					target = filepath.ToSlash(filepath.Join(filepath.Dir(p.path), file))
				}
				if _, err := os.Stat(filepath.Join(root, target)); err != nil {
					t.Errorf("%s:%d: the file of the link %s does not exist", p.path, i+1, m[1])
				} else if anchor != "" && !slices.Contains(anchors(read(t, target)), anchor) {
					t.Errorf("%s:%d: the heading of the link %s does not exist", p.path, i+1, m[1])
				}
			}
		}
	}
}

// prose returns the lines of a page. Lines of fenced blocks are replaced by empty lines.
func (p *page) prose() []string {
	lines := slices.Clone(p.lines)
	for _, b := range p.blocks {
		for i := b.from; i < b.to; i++ {
			lines[i] = ""
		}
	}
	return lines
}

// anchors returns the anchors that GitHub creates for the headings of a page.
func anchors(p *page) (list []string) {
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

// TestChinese checks that each Chinese page has the same blocks and headings as its English page. Only the blocks of
// English pages are executed.
func TestChinese(t *testing.T) {
	for _, en := range documents(t) {
		if rest, found := strings.CutPrefix(en.path, "docs/zh/"); found {
			if _, err := os.Stat(filepath.Join(root, "docs/en", rest)); err != nil {
				t.Errorf("%s has no English page", en.path)
			}
		}
		other := chinese(en.path)
		if other == "" {
			continue
		}
		zh := read(t, other)
		var texts [2][]string
		var levels [2][]int
		for i, p := range []*page{en, zh} {
			for _, b := range p.blocks {
				texts[i] = append(texts[i], b.kind+"\n"+p.text(b))
			}
			for _, line := range p.prose() {
				if heading.MatchString(line) {
					levels[i] = append(levels[i], strings.IndexByte(line, ' '))
				}
			}
		}
		if diff := cmp.Diff(texts[0], texts[1]); diff != "" {
			t.Errorf("blocks (-%s +%s):\n%s", en.path, other, diff)
		}
		if diff := cmp.Diff(levels[0], levels[1]); diff != "" {
			t.Errorf("levels of headings (-%s +%s):\n%s", en.path, other, diff)
		}
	}
}

// TestBlocks checks that commands are only in console blocks, and that all other blocks have a known kind.
func TestBlocks(t *testing.T) {
	kinds := []string{"console", "yaml", "text"}
	for _, p := range documents(t) {
		if !strings.HasPrefix(p.path, "README") && !strings.HasPrefix(p.path, "docs/en/") &&
			!strings.HasPrefix(p.path, "docs/zh/") {
			continue
		}
		for _, b := range p.blocks {
			first, _, _ := strings.Cut(p.text(b), "\n")
			if !slices.Contains(kinds, b.kind) {
				t.Errorf("%s:%d: the kind of a block must be one of %v, but is %q", p.path, b.from, kinds, b.kind)
			} else if (b.kind == "console") != strings.HasPrefix(first, "$ ") {
				t.Errorf("%s:%d: a block with commands must be of the kind console, and begin with \"$ \"", p.path,
					b.from)
			}
		}
		for i, line := range p.prose() {
			if strings.HasPrefix(code.ReplaceAllString(line, ""), "    ") {
				t.Errorf("%s:%d: indented block; use a fence", p.path, i+1)
			}
		}
	}
}
