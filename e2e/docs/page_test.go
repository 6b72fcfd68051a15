package docs

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

// root is the path of the repository.
const root = "../.."

var must = check.Must

// page is one Markdown document of the repository.
type page struct {
	path   string // relative to the root of the repository
	lines  []string
	setup  []string // commands that are executed first; their output is ignored
	blocks []block
}

// block is one fenced block of a page.
type block struct {
	from, to int    // indexes in page.lines: the first line after the opening fence, and the closing fence
	kind     string // console, yaml, text, ...
	file     string // name of the file to write with the content of the block
	notRun   string // reason why the commands of the block are not executed
	exits    int    // expected exit status of the last command
}

// command is a command of a console block.
type command struct {
	text     string
	from, to int // indexes in page.lines of the expected output
	exits    int
}

var directive = regexp.MustCompile(`^<!-- (setup|file|not run|exits): (.*) -->$`)

// read parses a document of the repository.
func read(t *testing.T, path string) *page {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, path))
	must(t, err)
	p, err := parsePage(path, string(text))
	must(t, err)
	return p
}

// parsePage parses a document. It returns an error if a directive comment does not precede a block, or if a block has
// no closing fence.
func parsePage(path, text string) (*page, error) {
	p := &page{path: path, lines: strings.Split(text, "\n")}
	var next block
	open := false
	for i, line := range p.lines {
		switch m := directive.FindStringSubmatch(line); {
		case strings.HasPrefix(line, "```") && open:
			p.blocks[len(p.blocks)-1].to, open = i, false
		case strings.HasPrefix(line, "```"):
			next.from, next.kind, open = i+1, strings.TrimPrefix(line, "```"), true
			p.blocks = append(p.blocks, next)
			next = block{}
		case open:
		case m == nil:
			if line != "" && (next != block{}) {
				return nil, fmt.Errorf("%s:%d: a comment for a block is not followed by a block", path, i+1)
			}
		case m[1] == "setup":
			p.setup = append(p.setup, m[2])
		case m[1] == "file":
			next.file = m[2]
		case m[1] == "not run":
			next.notRun = m[2]
		default:
			n, err := strconv.Atoi(m[2])
			if err != nil {
				return nil, fmt.Errorf("%s:%d: exits: %w", path, i+1, err)
			}
			next.exits = n
		}
	}
	if open {
		return nil, fmt.Errorf("%s: a block has no closing fence", path)
	}
	return p, nil
}

func (p *page) text(b block) string { return strings.Join(p.lines[b.from:b.to], "\n") }

// commands returns the commands of a block, each with the position of its output in page.lines.
func (p *page) commands(b block) []command {
	var list []command
	for i := b.from; i < b.to; i++ {
		line := p.lines[i]
		last := len(list) - 1
		switch {
		case strings.HasPrefix(line, "$ "):
			list = append(list, command{text: line[2:], from: i + 1, to: i + 1})
		case last >= 0 && strings.HasPrefix(line, "> ") && list[last].from == i:
			list[last].text += "\n" + line[2:]
			list[last].from, list[last].to = i+1, i+1
		case last >= 0:
			list[last].to = i + 1
		}
	}
	if len(list) > 0 {
		list[len(list)-1].exits = b.exits
	}
	return list
}

// runnable reports whether at least one command of the page is executed.
func (p *page) runnable() bool {
	return slices.ContainsFunc(p.blocks, func(b block) bool { return b.kind == "console" && b.notRun == "" })
}

// documents parses every document of the repository.
func documents(t *testing.T) []*page {
	t.Helper()
	var list []*page
	must(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name := d.Name()
		if d.IsDir() && path != root &&
			(strings.HasPrefix(name, ".") ||
				slices.Contains([]string{"bin", "dist", "artifacts", "target", "testdata", "node_modules"}, name)) {
			return filepath.SkipDir
		}
		if strings.HasSuffix(name, ".md") {
			rel, err := filepath.Rel(root, path)
			must(t, err)
			list = append(list, read(t, filepath.ToSlash(rel)))
		}
		return nil
	}))
	return list
}

// chinese returns the path of the Chinese translation of an English page, or an empty string if there is none.
func chinese(path string) string {
	if rest, found := strings.CutPrefix(path, "docs/en/"); found {
		return "docs/zh/" + rest
	}
	if strings.HasSuffix(path, "README.md") && !strings.HasPrefix(path, "docs/") {
		return strings.TrimSuffix(path, ".md") + "-zh_CN.md"
	}
	return ""
}
