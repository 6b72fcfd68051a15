package fuzz

import (
	"io"
	"os"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox"
)

// mostLog is the maximum number of bytes of a log that are kept with a failure.
const mostLog = 1 << 20

// controllerLogs returns the end of the controllers' logs. Each line begins with the name of the controller.
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

// readEnd returns the last mostLog bytes of a file. It returns an empty text if the file cannot be read.
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
	text, err := io.ReadAll(io.NewSectionReader(f, max(0, info.Size()-mostLog), mostLog))
	if err != nil {
		return ""
	}
	return string(text)
}
