package fuzz

import (
	"fmt"
	"io"
	"os"
	"regexp"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// ofTimeline returns what happened in a run, by its kinds: for each base and Pod, what it came to and
// what it was before. What follows from the schedule itself, such as faults, is left out.
func ofTimeline(r *scenario.Report) (features []string) {
	for _, run := range r.Runs {
		before := map[string]string{}
		for _, e := range run.Timeline {
			about, is := e.Base, fmt.Sprintf("%s %s %s", e.Kind, e.State, e.Code)
			switch e.Kind {
			case timeline.Base, timeline.Node, timeline.Module:
			case timeline.Command:
				is += " " + e.Name
			case timeline.Component:
				about, is = e.Name, is+" "+e.Name
			case timeline.Pod:
				about = e.Pod.UID
				is = fmt.Sprintf("pod %s %s ready=%t deleting=%t gone=%t", e.Pod.Phase, e.Pod.Reason, e.Pod.Ready, e.Pod.Deleting, e.Pod.Gone)
			default:
				continue
			}
			if is != before[about] {
				features = append(features, before[about]+" > "+is)
				before[about] = is
			}
		}
	}
	return features
}

// mostLog is how much of a log is read after a schedule, and kept of a failure.
const mostLog = 1 << 20

// logs remembers how far the logs of controllers have been read, by their files. It must not be used
// concurrently; its zero value has read nothing.
type logs map[string]int64

// next returns the lines that controllers have written since the last call, without what differs from
// one schedule to the next. A log that cannot be read has none: it only tells what is new.
func (l logs) next(status *sandbox.Status) (features []string) {
	for _, c := range status.Components {
		if !strings.HasPrefix(c.Name, controller) || c.Log == "" {
			continue
		}
		text := readLog(c.Log, func(int64) int64 { return l[c.Log] })
		whole := strings.LastIndexByte(string(text), '\n') + 1 // the last line may not be complete
		l[c.Log] += int64(whole)
		for line := range strings.Lines(string(text[:whole])) {
			features = append(features, "log "+plainLine(line))
		}
	}
	return features
}

// readLog reads mostLog of a log, from where from says by its size; nothing if it cannot be read.
func readLog(path string, from func(size int64) int64) []byte {
	f, err := os.Open(path)
	if err != nil {
		return nil
	}
	defer func() { _ = f.Close() }() // it was only read
	info, err := f.Stat()
	if err != nil {
		return nil
	}
	text, err := io.ReadAll(io.NewSectionReader(f, from(info.Size()), mostLog))
	if err != nil {
		return nil
	}
	return text
}

// lastOf returns what the controllers logged last, each line behind the controller's name.
func lastOf(status *sandbox.Status) string {
	var all strings.Builder
	for _, c := range status.Components {
		if !strings.HasPrefix(c.Name, controller) || c.Log == "" {
			continue
		}
		text := readLog(c.Log, func(size int64) int64 { return max(0, size-mostLog) })
		for line := range strings.Lines(string(text)) {
			all.WriteString(c.Name + ": " + strings.TrimSuffix(line, "\n") + "\n")
		}
	}
	return all.String()
}

// variable is a word with a digit in it: a time, a number, an address, or the name or identity of what a
// schedule has made.
var variable = regexp.MustCompile(`[^\s"'=,()\[\]{}\\]*[0-9][^\s"'=,()\[\]{}\\]*`)

// plainLine is a line of a log without what differs from one schedule to the next.
func plainLine(line string) string {
	return variable.ReplaceAllString(strings.TrimSpace(line), "#")
}
