package state

import (
	"io"
	"os"
	"strings"
)

// tailBytes is how far back Tail looks.
const tailBytes = 64 << 10

// Tail returns the last lines of a log file: at most count, and nothing when it
// cannot be read.
func Tail(path string, count int) []string {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // it was only read
	var offset int64
	if info, err := f.Stat(); err == nil {
		offset = max(0, info.Size()-tailBytes)
	}
	data, err := io.ReadAll(io.NewSectionReader(f, offset, tailBytes))
	if err != nil || len(data) == 0 {
		return nil
	}
	lines := strings.Split(strings.TrimRight(string(data), "\n"), "\n")
	return lines[max(0, len(lines)-count):]
}
