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

// Bounds of the strings that a base or a user supplies. Any client of the broker or of the port can send anything,
// and any author of a Pod can write anything. The controller refuses or cuts longer strings before they reach
// Nodes, Pods, Events and logs. Package workload applies the same bounds to the names, versions and URLs of Pods,
// so that a base is never asked to install what its list could not show.
const (
	// MaxIdentity is the maximum length in bytes of an identity: a DNS name is not longer.
	MaxIdentity = 253
	// MaxName is the maximum length in bytes of any other name: of a module, a version, a host, an
	// annotation that the controller reads.
	MaxName = 256
	// MaxURL is the maximum length in bytes of the URL of a jar: web servers usually refuse longer ones.
	MaxURL = 8 << 10
	// MaxText is the maximum length in bytes of a human-readable text. Longer stack traces, as real bases send
	// them, are truncated after their frames are removed.
	MaxText = 4 << 10
	// MaxModules is the maximum number of modules in a list or a baseline.
	MaxModules = 5000
	// maxRecords is how many records of a module are kept, the newest; a list of them may be as long
	// as a message.
	maxRecords = 100
)

// ErrLimit reports that a message exceeds the limits. The message is ignored.
var ErrLimit = errors.New("beyond the limits")

// ErrDropped reports that entries of a list are invalid. The list returned with the error contains the valid
// entries. ErrDropped wraps ErrLimit.
var ErrDropped = fmt.Errorf("an entry of the list was ignored: %w", ErrLimit)

// CheckIdentity says why a base cannot have an identity: it is one level of an MQTT topic (MQTT 3.1.1,
// 4.7), and a part of the names of Nodes.
func CheckIdentity(identity string) error {
	switch {
	case identity == "":
		return fmt.Errorf("%w: an empty identity", ErrLimit)
	case strings.ContainsAny(identity, "/+#"):
		return fmt.Errorf("%w: the identity %.80q has one of / + #", ErrLimit, identity)
	}
	return checkName("identity", identity, MaxIdentity)
}

// checkNames takes pairs of what it is and the name.
func checkNames(pairs ...string) error {
	for i := 0; i < len(pairs); i += 2 {
		if err := checkName(pairs[i], pairs[i+1], MaxName); err != nil { //nolint:gosec // they are pairs
			return err
		}
	}
	return nil
}

func checkName(what, name string, limit int) error {
	switch {
	case len(name) > limit:
		return fmt.Errorf("%w: %s of %d bytes, %.40q…: at most %d", ErrLimit, what, len(name), name, limit)
	case !Printable(name):
		return fmt.Errorf("%w: %s %q has a character that cannot be printed", ErrLimit, what, name)
	}
	return nil
}

// Printable reports whether a text is valid UTF-8 and has only characters that can be printed.
func Printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) })
}

// Text sanitizes a text from a base for display. The result has at most MaxText bytes of printable characters, line
// ends and tabs, and no credentials in URLs. If a stack trace is longer, its frames are removed first, so that
// every exception and every cause stays.
func Text(s string) string {
	s = redact.Text(strings.ToValidUTF8(s, "\uFFFD"))
	if len(s) > MaxText {
		s = withoutFrames(s)
	}
	if len(s) > MaxText {
		end := MaxText - len(cut)
		for end > 0 && !utf8.RuneStart(s[end]) {
			end--
		}
		s = s[:end] + cut
	}
	s = strings.Map(func(c rune) rune {
		if c != '\n' && c != '\t' && !unicode.IsPrint(c) {
			return -1
		}
		return c
	}, s)
	return strings.Clone(s) // and let go of the message
}

// FirstLine returns the first line of a text.
func FirstLine(s string) string {
	line, _, _ := strings.Cut(s, "\n")
	return line
}

// cut marks what was left out.
const cut = "…"

// withoutFrames leaves out the lines of a stack trace that say where, and those that count more.
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

// beyond is the first moment that JSON of the Kubernetes API cannot hold (RFC 3339).
var beyond = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// fromMillis reads a time of a base; 0 is none.
func fromMillis(what string, ms int64) (time.Time, error) {
	switch {
	case ms < 0 || ms >= beyond:
		return time.Time{}, fmt.Errorf("%w: %s %d is before 1970 or after 9999", ErrLimit, what, ms)
	case ms == 0:
		return time.Time{}, nil
	}
	return time.UnixMilli(ms), nil
}
