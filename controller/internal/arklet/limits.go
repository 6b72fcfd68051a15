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

// Limits for strings of bases and users, because any client can send anything. Package workload applies them to Pods.
const (
	// MaxIdentity is the maximum length of an identity in bytes, as of a DNS name.
	MaxIdentity = 253
	// MaxName is the maximum length of any other name in bytes.
	MaxName = 256
	// MaxURL is the maximum length of the URL of a jar in bytes.
	MaxURL = 8 << 10
	// MaxText is the maximum length of a human-readable text in bytes. Longer stack traces lose their frames and are
	// truncated.
	MaxText = 4 << 10
	// MaxModules is the maximum number of modules in a list or a baseline.
	MaxModules = 5000
	// maxRecords is the number of records of a module that are kept, the newest ones.
	maxRecords = 100
)

// ErrLimit reports a message beyond the limits, which is ignored.
var ErrLimit = errors.New("beyond the limits")

// ErrDropped reports invalid entries of a list. The list returned with it contains the valid entries. It wraps
// ErrLimit.
var ErrDropped = fmt.Errorf("an entry of the list was ignored: %w", ErrLimit)

// CheckIdentity returns an error for an identity that cannot be a level of an MQTT topic (MQTT 3.1.1, 4.7) or a part
// of the name of a Node.
func CheckIdentity(identity string) error {
	switch {
	case identity == "":
		return fmt.Errorf("%w: an empty identity", ErrLimit)
	case strings.ContainsAny(identity, "/+#"):
		return fmt.Errorf("%w: the identity %.80q has one of / + #", ErrLimit, identity)
	}
	return checkName("identity", identity, MaxIdentity)
}

// checkNames checks names in pairs of field and value.
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

// Printable reports whether a text is valid UTF-8 and has only printable characters.
func Printable(s string) bool {
	return utf8.ValidString(s) && !strings.ContainsFunc(s, func(c rune) bool { return !unicode.IsPrint(c) })
}

// Text sanitizes a text of a base for display: at most MaxText bytes of printable characters, line ends and tabs,
// without credentials in URLs. Longer stack traces first lose their frames, so that every exception stays.
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

// cut marks an omission.
const cut = "…"

// withoutFrames removes the frames of a stack trace.
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

// beyond is the first time that the JSON of the Kubernetes API cannot represent (RFC 3339).
var beyond = time.Date(10000, 1, 1, 0, 0, 0, 0, time.UTC).UnixMilli()

// fromMillis converts a time of a base; 0 is none.
func fromMillis(what string, ms int64) (time.Time, error) {
	switch {
	case ms < 0 || ms >= beyond:
		return time.Time{}, fmt.Errorf("%w: %s %d is before 1970 or after 9999", ErrLimit, what, ms)
	case ms == 0:
		return time.Time{}, nil
	}
	return time.UnixMilli(ms), nil
}
