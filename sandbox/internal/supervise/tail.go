package supervise

import (
	"io"
	"os"
	"regexp"
	"strings"
)

const tailBytes = 64 << 10

// stackTrace is a function of a Go stack with its place, or the head of such a stack.
var stackTrace = regexp.MustCompile(`(?m)^(\S.*\n\t\S+\.go:\d+.*(\n|\z)|goroutine \d+ .*\n|\n)`)

// Tail returns the last lines of a log file that tell people something, Go stacks left out: at most count, of what comes
// after the first skip bytes. It is nil when there are none, or the file cannot be read.
func Tail(path string, skip int64, count int) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // it was only read
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
