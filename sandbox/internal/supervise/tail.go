package supervise

import (
	"io"
	"os"
	"regexp"
	"strings"
)

const tailBytes = 64 << 10

// stackTrace matches the lines of a Go stack trace: the header, and each function with its location.
var stackTrace = regexp.MustCompile(`(?m)^(\S.*\n\t\S+\.go:\d+.*(\n|\z)|goroutine \d+ .*\n|\n)`)

// Tail returns the last lines of a log file, at most count. It ignores the first skip bytes of the file and all Go
// stack traces. It returns nil if no lines remain or the file cannot be read.
func Tail(path string, skip int64, count int) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // opened for reading
	if info, err := f.Stat(); err == nil {
		skip = max(skip, info.Size()-tailBytes)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, skip, tailBytes))
	if err != nil {
		return nil
	}
	text := strings.TrimRight(stackTrace.ReplaceAllString(string(data), ""), "\n")
	if text == "" {
		return nil
	}
	lines := strings.Split(text, "\n")
	return lines[max(0, len(lines)-count):]
}
