package api

import (
	"fmt"
	"regexp"
	"strings"
	"time"
)

// nextAttempt is the text that precedes the time in the result of NextAttempt.
const nextAttempt = "the next one is at "

// NextAttempt returns the prefix of a message that states when a failed command is retried. The caller appends ": "
// and the cause. CutNextAttempt parses the message.
func NextAttempt(failed int, next time.Time) string {
	return fmt.Sprintf("attempt %d failed, %s%s", failed, nextAttempt, next.UTC().Format(time.RFC3339))
}

// CutNextAttempt removes the prefix that NextAttempt creates from message, and returns the time in the prefix. found
// reports whether message has the prefix.
func CutNextAttempt(message string) (next time.Time, rest string, found bool) {
	head, rest, _ := strings.Cut(message, "Z: ")
	_, at, _ := strings.Cut(head, nextAttempt)
	next, err := time.Parse(time.RFC3339, at+"Z")
	if err != nil {
		return time.Time{}, message, false
	}
	return next, rest, true
}

var pathTaken = regexp.MustCompile(`Child name \[([^\]]*)\] is not unique`)

// WebContextTaken finds the exception that the web server of a base throws if two modules use the same web context
// path. It returns the path without slashes. taken is false if text does not contain the exception.
func WebContextTaken(text string) (path string, taken bool) {
	match := pathTaken.FindStringSubmatch(text)
	if match == nil {
		return "", false
	}
	return strings.Trim(match[1], "/"), true
}

// LogTime is the layout of the UTC time at the start of each line of a module log. For a command, the line continues
// with " MODULE:VERSION COMMAND " and one of LogSent, LogAnswered and LogUnanswered.
const LogTime = "2006-01-02 15:04:05.000"

// Events of a command in a module log.
const (
	LogSent       = "sent"
	LogAnswered   = "answered"
	LogUnanswered = "not answered"
)

// LogCommand is one event of a command in a module log.
type LogCommand struct {
	At              time.Time
	Module, Version string
	// Command is the name of the command, such as installBiz. Event is LogSent, LogAnswered or LogUnanswered.
	Command, Event string
}

// ParseLogCommand parses a line of a module log. It returns false if the line does not describe an event of a
// command.
func ParseLogCommand(line string) (LogCommand, bool) {
	if len(line) <= len(LogTime) {
		return LogCommand{}, false
	}
	at, err := time.Parse(LogTime, line[:len(LogTime)])
	words := strings.SplitN(strings.TrimSpace(line[len(LogTime):]), " ", 3)
	if err != nil || len(words) < 3 {
		return LogCommand{}, false
	}
	c := LogCommand{At: at, Command: words[1]}
	c.Module, c.Version, _ = strings.Cut(words[0], ":")
	c.Event, _, _ = strings.Cut(words[2], ":")
	return c, c.Event == LogSent || c.Event == LogAnswered || c.Event == LogUnanswered
}
