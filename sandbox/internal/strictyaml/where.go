package strictyaml

import (
	"bytes"
	"errors"
	"io"
	"slices"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

const (
	// stride is the number of lines by which the search for a syntax error advances in each step.
	stride = 32
	// maxText is the maximum length in bytes of a text in which syntaxErrorOffset searches for a syntax error. maxTried
	// is the maximum total length in bytes of the text that syntaxErrorOffset parses to find the column of the error.
	// Both limit the run time.
	maxText  = 64 << 10
	maxTried = 4 << 20
)

// syntaxErrorOffset returns the offset of the first syntax error: the text before this offset is valid. It is needed
// because the parser reports only a line, which is often before the line of the error.
func syntaxErrorOffset(data []byte) (offset int, found bool) {
	if len(data) > maxText {
		return 0, false
	}
	if ends, last := open(data); ends != "" && readable(data) {
		return last, true // the text is valid except for its missing end
	}
	starts := []int{0} // of lines
	for i, c := range data {
		if c == '\n' && i+1 < len(data) {
			starts = append(starts, i+1)
		}
	}
	last := (len(starts) - 1) / stride * stride
	for last > 0 && !readable(data[:starts[last]]) {
		last -= stride
	}
	line := min(last+2*stride, len(starts)-1) // a scalar over several lines may hide a valid line
	for line > last && !readable(data[:starts[line]]) {
		line--
	}
	start, end := starts[line], len(data)
	if line+1 < len(starts) {
		end = starts[line+1]
	}
	if (end-start)*end > maxTried {
		return start, true
	}
	for end > start && (end < len(data) && !utf8.RuneStart(data[end]) || !readable(data[:end])) {
		end--
	}
	return end, true
}

// readable reports whether a text is valid YAML once the missing closing brackets are added.
func readable(text []byte) bool {
	ends, _ := open(text)
	return parses(text) || ends != "" && parses([]byte(string(text)+ends))
}

func parses(text []byte) bool {
	dec := yaml.NewDecoder(bytes.NewReader(text))
	for {
		var n yaml.Node
		if err := dec.Decode(&n); err != nil {
			return errors.Is(err, io.EOF)
		}
	}
}

// open returns the closing brackets that are missing at the end of a text, and the offset of the innermost open
// bracket. It also counts brackets in comments and plain scalars.
func open(text []byte) (ends string, last int) {
	var at []int
	quote, before := byte(0), byte(' ')
	for i, c := range text {
		switch {
		case quote != 0:
			if c == quote && (quote == '\'' || before != '\\') {
				quote = 0
			}
		case (c == '"' || c == '\'') && strings.IndexByte(" \t\n[{,:", before) >= 0:
			quote = c
		case c == '[' || c == '{':
			at = append(at, i)
		case (c == ']' || c == '}') && len(at) > 0:
			at = at[:len(at)-1]
		}
		before = c
	}
	for _, i := range slices.Backward(at) {
		ends += string(text[i] + 2) // ] and } in ASCII
		last = max(last, i)
	}
	return ends, last
}

// Excerpt returns a line of text and, below it, a line with a caret at the given column, both indented. Columns are
// counted in characters from 1. Excerpt returns "" if the line is empty or contains only spaces and tabs.
func Excerpt(line string, column int) string {
	text := strings.TrimLeft(line, " \t")
	if text == "" {
		return ""
	}
	const indent = "    "
	column = min(max(column-1-(len(line)-len(text)), 0), len([]rune(text)))
	before := strings.Map(func(r rune) rune {
		if r == '\t' {
			return r
		}
		return ' '
	}, string([]rune(text)[:column]))
	return indent + strings.TrimRight(text, " \t\r\n") + "\n" + indent + before + "^"
}
