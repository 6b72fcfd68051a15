package docs

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

const (
	// maxConsoleLine is the maximum number of characters in a line of a console block. Longer lines wrap in a terminal
	// and on GitHub.
	maxConsoleLine = 100
	// maxWords is the maximum number of words in all English documents, and maxReadmeWords in README.md. Words are
	// counted as wc -w does, including code and tables.
	maxWords, maxReadmeWords = 38_000, 650
)

// Lines of console blocks in README.md and docs/en are short, also in blocks that are not executed.
func TestConsoleLines(t *testing.T) {
	for _, p := range documents(t) {
		if p.path != "README.md" && !strings.HasPrefix(p.path, "docs/en/") {
			continue
		}
		for _, b := range p.blocks {
			if b.kind != "console" {
				continue
			}
			for i, line := range p.lines[b.from:b.to] {
				if n := utf8.RuneCountInString(line); n > maxConsoleLine {
					t.Errorf("%s:%d: %d characters; the maximum is %d", p.path, b.from+i+1, n, maxConsoleLine)
				}
			}
		}
	}
}

// TestWords checks that the English documents are short, including generated sections: docs, README, ARCHITECTURE,
// CONTRIBUTING, SECURITY, CHANGELOG and PROTOCOL. It does not count the short READMEs of directories.
func TestWords(t *testing.T) {
	total := 0
	var pages []string
	for _, p := range documents(t) {
		if strings.HasPrefix(p.path, "docs/zh/") || strings.HasSuffix(p.path, "-zh_CN.md") ||
			strings.HasSuffix(p.path, "/README.md") && !strings.HasPrefix(p.path, "docs/") {
			continue
		}
		n := len(strings.Fields(strings.Join(p.lines, "\n")))
		if p.path == "README.md" && n > maxReadmeWords {
			t.Errorf("README.md has %d words; the maximum is %d", n, maxReadmeWords)
		}
		total += n
		pages = append(pages, fmt.Sprintf("%6d %s", n, p.path))
	}
	if total > maxWords {
		slices.Sort(pages)
		slices.Reverse(pages)
		t.Errorf("the English documents have %d words; the maximum is %d:\n%s", total, maxWords,
			strings.Join(pages, "\n"))
	}
}
