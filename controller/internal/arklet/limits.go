package arklet

import (
	"errors"
	"fmt"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/koupleless/koupsandbox/controller/redact"
)

// Limits for strings that bases and users send, because any client can send messages. Package workload applies the
// same limits to Pods.
const (
	// MaxIdentity is the maximum length of an identity in bytes, the same as the maximum length of a DNS name.
	MaxIdentity = 253
	// MaxName is the maximum length of a name in bytes, except for identities.
	MaxName = 256
	// MaxURL is the maximum length of a jar URL in bytes.
	MaxURL = 8 << 10
	// MaxText is the maximum length of a human-readable text in bytes. In a longer text, the stack frames are removed
	// before the text is truncated.
	MaxText = 4 << 10
	// MaxModules is the maximum number of modules in a list or a baseline.
	MaxModules = 5000
	// maxLabels is the maximum number of labels that a base reports for its Node. Further labels are ignored.
	maxLabels = 32
	// maxRecords is the maximum number of state records of a module. Only the newest records are kept.
	maxRecords = 100
)

// ErrLimit is the error for a message that exceeds the limits and is therefore ignored.
var ErrLimit = errors.New("limit exceeded")

// ErrDropped is the error for a list with invalid entries. The list returned with this error contains the valid
// entries. ErrDropped wraps ErrLimit.
var ErrDropped = fmt.Errorf("ignored an invalid list entry: %w", ErrLimit)

// CheckIdentity returns an error if the identity cannot be a level of an MQTT topic (MQTT 3.1.1, 4.7) or a part of a
// Node name.
func CheckIdentity(identity string) error {
	switch {
	case identity == "":
		return fmt.Errorf("%w: the identity is empty", ErrLimit)
	case strings.ContainsAny(identity, "/+#"):
		return fmt.Errorf("%w: identity %.80q contains /, + or #", ErrLimit, identity)
	}
	return checkName("identity", identity, MaxIdentity)
}

// checkNames checks names. pairs alternates between field names and values.
func checkNames(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if err := checkName(pairs[i], pairs[i+1], MaxName); err != nil { //nolint:gosec // callers pass pairs
			return err
		}
	}
	return nil
}

func checkName(what, name string, limit int) error {
	switch {
	case len(name) > limit:
		return fmt.Errorf("%w: %s %.40q… has %d bytes; the maximum is %d", ErrLimit, what, name, len(name), limit)
	case !Printable(name):
		return fmt.Errorf("%w: %s %q contains a character that is not printable", ErrLimit, what, name)
	}
	return nil
}

// Printable reports whether a text is valid UTF-8 and contains only printable characters.
func Printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) })
}

// SanitizeText makes a text from a base safe to display. The result has at most MaxText bytes. It contains only
// printable characters, line feeds and tabs, and no credentials in URLs. If the text is too long, the frames of its
// stack traces are removed first, so that all exceptions remain.
func SanitizeText(s string) string {
	s = redact.Text(strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > MaxText {
		s = withoutFrames(s)
	}
	if len(s) > MaxText {
		end := MaxText - len(ellipsis)
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + ellipsis
	}
	s = strings.Map(func(c rune) rune {
		if c != '\n' && c != '\t' && !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, s)
	return strings.Clone(s) // so that the message can be garbage-collected
}

// FirstLine returns the first line of a text.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// RootCause returns the last "Caused by" line of a stack trace without its prefix, or an empty string if the trace has
// none.
func RootCause(trace string) string {
	cause := ""
	for line := range strings.Lines(trace) {
		if c, found := strings.CutPrefix(strings.TrimSpace(line), "Caused by: "); found {
			cause = c
		}
	}
	return cause
}

// ellipsis is the mark at the end of truncated texts.
const ellipsis = "…"

// withoutFrames removes the stack frames from a stack trace.
func withoutFrames(s string) string {
	var b strings.Builder
	for line := range strings.Lines(s) {
		if t := strings.TrimSpace(line); strings.HasPrefix(t, "at ") || strings.HasPrefix(t, "... ") {
			continue
		}
		b.WriteString(line)
	}
	return b.String()
}

// maxMillis is the first time, in milliseconds since 1970, that the Kubernetes API cannot represent in JSON (RFC
// 3339).
var maxMillis = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// fromMillis converts a timestamp from a base. For 0, it returns the zero time.
func fromMillis(what string, ms int64) (time.Time, error) {
	switch {
	case ms < 0 || ms >= maxMillis:
		return time.Time{}, fmt.Errorf("%w: %s %d is before 1970 or after 9999", ErrLimit, what, ms)
	case ms == 0:
		return time.Time{}, nil
	}
	return time.UnixMilli(ms), nil
}
