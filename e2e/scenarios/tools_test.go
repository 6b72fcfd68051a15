package scenarios

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// TestDemo checks that the demo loses requests only with the DaemonSet, writes its report, and removes its sandbox.
func TestDemo(t *testing.T) {
	t.Parallel()
	b := &box.Box{Bin: binDir, Home: home, Name: envconf.RandomName("demo", 10)}
	t.Cleanup(func() {
		if err := b.Down(context.Background()); err != nil { // a failed demo can leave its sandbox
			t.Error(err)
		}
	})
	page := filepath.Join(t.TempDir(), "demo.html")
	r, err := b.Run(t.Context(), "demo", "--name", b.Name, "--html", page)
	must(t, err)
	if r.Status != 0 {
		t.Fatalf("exit status %d:\n%s%s", r.Status, r.Out, r.Err)
	}
	for what, pattern := range map[string]string{
		"the Deployment loses nothing": `(?m)^✓ Deployment  [1-9][\d,]* requests sent, 0 lost$`,
		"the DaemonSet loses requests": `(?m)^✗ DaemonSet   [1-9][\d,]* requests sent, [1-9][\d,]* lost$`,
		"the path of the report":       `(?m)^Report with both timelines: ` + regexp.QuoteMeta(page) + `$`,
		"the sandbox was removed":      `(?m)^The demo took \d+s; its sandbox was removed\.`,
	} {
		if !regexp.MustCompile(pattern).MatchString(r.Out) {
			t.Errorf("the output does not contain: %s\n%s", what, r.Out)
		}
	}
	if _, err := os.Stat(page); err != nil {
		t.Errorf("the report was not written: %v", err)
	}
	if _, err := os.Stat(b.Dir()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the state directory still exists: %v", err)
	}
}

// TestWatch checks that the watch command prints the current state and all changes until Ctrl-C, both as JSON and as
// text lines.
func TestWatch(t *testing.T) {
	t.Parallel()
	for form, c := range map[string]struct {
		args    []string
		matches func(line, base, state string) bool
	}{
		"json": {[]string{"-o", "json"}, func(line, base, state string) bool {
			var e events.Event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Errorf("decoding the event %s: %v", line, err)
			}
			return e.Base != nil && e.Base.Base == base && string(e.Base.Change) == state && !e.Time.IsZero()
		}},
		"plain": {[]string{"--plain"}, func(line, base, state string) bool {
			fields := strings.Fields(line)
			return len(fields) >= 4 && slices.Equal(fields[1:4], []string{"base", base, state})
		}},
	} {
		t.Run(form, func(t *testing.T) {
			t.Parallel()
			group := envconf.RandomName("watched", 14)
			// a watch without output must not block the other tests
			ctx, cancel := context.WithTimeout(t.Context(), timeout)
			defer cancel()
			cmd := shared.Command(ctx, append([]string{"watch", "--group", group}, c.args...)...)
			out, err := cmd.StdoutPipe()
			must(t, err)
			var stderr strings.Builder
			cmd.Stderr = &stderr
			must(t, cmd.Start())
			lines := bufio.NewScanner(out)
			waitEvent := func(base, state string) {
				t.Helper()
				for lines.Scan() {
					if c.matches(lines.Text(), base, state) {
						return
					}
				}
				t.Fatalf("the output ended before base %q was %q: %v %s", base, state, lines.Err(), stderr.String())
			}
			_, err = up.AddBases(t.Context(), sandbox.AddRequest{Count: 1, Group: group, Set: "s"})
			must(t, err)
			waitEvent("s-1", "up")
			_, err = up.RemoveBases(t.Context(), sandbox.RemoveRequest{Group: group})
			must(t, err)
			waitEvent("s-1", "removed")
			must(t, cmd.Process.Signal(os.Interrupt))
			_, err = io.Copy(io.Discard, out)
			must(t, err)
			if err := cmd.Wait(); err != nil {
				t.Errorf("after Ctrl-C: %v %s", err, stderr.String())
			}
		})
	}
}
