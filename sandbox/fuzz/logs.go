package fuzz

import (
	"io"
	"os"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox"
)

// maxLogBytes is how many bytes at the end of each controller log are saved with a failure.
const maxLogBytes = 1 << 20

// controllerLogs returns the end of each controller log. Each line starts with the name of the controller.
func controllerLogs(status *sandbox.Status) string {
	var all strings.Builder
	for _, c := range status.Components {
		if !strings.HasPrefix(c.Name, controller) || c.Log == "" {
			continue
		}
		for line := range strings.Lines(readEnd(c.Log)) {
			all.WriteString(c.Name + ": " + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return all.String()
}

// readEnd returns the last maxLogBytes bytes of a file, or the empty string if the file cannot be read.
func readEnd(path string) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return ""
	}
	text, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-maxLogBytes), maxLogBytes))
	if err != nil {
		return ""
	}
	return string(text)
}
