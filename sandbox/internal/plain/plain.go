// Package plain makes untrusted texts (versions, reasons, messages, names) safe for a terminal. It also
// suggests similar names, and formats a number with its noun.
package plain

import (
	"strconv"
	"strings"
	"unicode"
)

// Count returns a number followed by a noun in the singular or the plural, such as "1 Node" or "3 Nodes".
func Count(n int, noun string) string {
	if n == 1 {
		return "1 " + noun
	}
	return strconv.Itoa(n) + " " + noun + "s"
}

// FirstLine returns the first line of a text, without surrounding white space.
func FirstLine(text string) string {
	line, _, _ := strings.Cut(strings.TrimSpace(text), "\n")
	return strings.TrimSpace(line)
}

// Text returns a text as one line without control characters. It replaces line ends, tabs, other control characters,
// and characters that change the writing direction with Go escapes such as
// or \x1b, and invalid UTF-8 with U+FFFD.
func Text(text string) string { return escape(text, isControl) }

// Lines is like Text, but keeps line ends and tabs.
func Lines(text string) string {
	return escape(text, func(r rune) bool { return r != '\n' && r != '\t' && isControl(r) })
}

// isControl reports whether a terminal interprets a character instead of displaying it. It also returns true for U+FFFE
// and U+FFFF, which XML cannot represent.
func isControl(r rune) bool {
	return unicode.IsControl(r) || unicode.Is(unicode.Bidi_Control, r) || r == 0xFFFE || r == 0xFFFF
}

func escape(text string, which func(rune) bool) string {
	text = strings.ToValidUTF8(text, "\uFFFD")
	if strings.IndexFunc(text, which) < 0 {
		return text
	}
	var b strings.Builder
	for _, r := range text {
		if which(r) {
			b.WriteString(strings.Trim(strconv.QuoteRuneToASCII(r), "'"))
		} else {
			b.WriteRune(r)
		}
	}
	return b.String()
}
