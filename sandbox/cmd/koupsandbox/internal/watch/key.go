package watch

import (
	"cmp"
	"image/color"
	"slices"
	"strings"

	"github.com/charmbracelet/x/ansi"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// palette gives each version its colour, in the order in which they appear.
type palette struct {
	numbers map[string]int
	// seen are the versions that were asked for since the last names.
	seen map[string]bool
}

func newPalette() *palette { return &palette{numbers: map[string]int{}, seen: map[string]bool{}} }

func (p *palette) of(version string) color.Color {
	n, ok := p.numbers[version]
	if !ok {
		n = len(p.numbers)
		p.numbers[version] = n
	}
	p.seen[version] = true
	return versions[n%len(versions)]
}

// names says which colour is which version, of those that were asked for since it was called last.
func (p *palette) names() string {
	var parts []string
	for version := range p.seen {
		parts = append(parts, version)
	}
	slices.SortFunc(parts, func(a, b string) int { return cmp.Compare(p.numbers[a], p.numbers[b]) })
	for i, version := range parts {
		parts[i] = paint(p.of(version), "■ "+cmp.Or(plain.Text(version), "no version"))
	}
	clear(p.seen)
	return strings.Join(parts, "  ")
}

// signs are the keys of the keyboard, and what the signs mean, in their colours: white where that is
// the version's.
var signs = []string{
	"q end", "+ − time", "space pause", "↑ ↓ scroll", "p Pods",
	serving + " serves", both + " and installs", installing + " installs", inactive + " deactivated", "━ Pod Ready", "╌ not Ready",
	paint(bad, lost+" lost"), paint(bad, failed+" failed"), paint(bad, "x down"), paint(warn, "~ disconnected"),
	paint(good, "─ running"), paint(warn, "= paused"), paint(warn, "▒ fault"), paint(warn, "* struck"), paint(weak, "○ no base"),
}

// keyLines are the signs in as many lines as they need at this width.
func keyLines(width int) []string {
	var lines []string
	used := width
	for _, s := range signs {
		n := ansi.StringWidth(s)
		if used+2+n > width {
			lines, used = append(lines, s), n
			continue
		}
		lines[len(lines)-1] += "  " + s
		used += 2 + n
	}
	return lines
}
