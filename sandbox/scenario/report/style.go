package report

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// red and the following constants are ANSI codes for terminal colours.
const (
	red    = "31"
	green  = "32"
	yellow = "33"
	faint  = "2"
	bold   = "1"
)

// colorize adds a terminal colour to a text. The text must contain no control characters, see package plain.
func (p *printer) colorize(colour, text string) string {
	if !p.o.Color || text == "" {
		return text
	}
	return "\x1b[" + colour + "m" + text + "\x1b[0m"
}

// mark returns the symbol for a result.
func (p *printer) mark(v scenario.Result) string {
	switch v {
	case scenario.Passed:
		return p.colorize(green, "✓")
	case scenario.Skipped:
		return p.colorize(yellow, "-")
	case scenario.Errored:
		return p.colorize(red, "!")
	default:
		return p.colorize(red, "✗")
	}
}

func indent(text, by string) string {
	return by + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n"+by)
}

func seconds(d time.Duration) string { return fmt.Sprintf("%.1fs", d.Seconds()) }

func length(d time.Duration) string {
	switch {
	case d >= time.Second:
		return strconv.FormatFloat(d.Seconds(), 'f', 2, 64) + "s"
	case d >= time.Millisecond:
		return strconv.FormatInt(d.Milliseconds(), 10) + "ms"
	default:
		return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', 1, 64) + "ms"
	}
}

// since formats a time as the duration since the start of a run.
func since(run *scenario.Run, t time.Time) string {
	return fmt.Sprintf("%+.3fs", t.Sub(run.Started).Seconds())
}

// Number formats an integer with thousands separators, such as 1,234.
func Number(n int) string {
	text := strconv.Itoa(n)
	for i := len(text) - 3; i > 0 && text[i-1] != '-'; i -= 3 {
		text = text[:i] + "," + text[i:]
	}
	return text
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Number(n) + " " + many
}
