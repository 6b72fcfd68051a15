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

// The demo shows what it promises, and leaves nothing.
func TestDemo(t *testing.T) {
	t.Parallel()
	b := &box.Box{Bin: programs, Home: home, Name: envconf.RandomName("demo", 10)}
	t.Cleanup(func() {
		if err := b.Down(context.Background()); err != nil { // after a failure there may be something
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
		"where the timelines are":      `(?m)^The timelines of both: ` + regexp.QuoteMeta(page) + `$`,
		"the sandbox is gone":          `(?m)^All of it took \d+s, and the sandbox is gone again\.`,
	} {
		if !regexp.MustCompile(pattern).MatchString(r.Out) {
			t.Errorf("it does not tell: %s\n%s", what, r.Out)
		}
	}
	if _, err := os.Stat(page); err != nil {
		t.Errorf("the timelines were not written: %v", err)
	}
	if _, err := os.Stat(b.Folder()); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("its state folder is left: %v", err)
	}
}

// watch prints the current state and all changes, as JSON and as lines, until Ctrl-C.
func TestWatch(t *testing.T) {
	t.Parallel()
	for form, c := range map[string]struct {
		args []string
		is   func(line, base, state string) bool
	}{
		"json": {[]string{"-o", "json"}, func(line, base, state string) bool {
			var e events.Event
			if err := json.Unmarshal([]byte(line), &e); err != nil {
				t.Errorf("%s is no event: %v", line, err)
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
			// one that tells nothing must not hold up the others
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			cmd := shared.Command(ctx, append([]string{"watch", "--group", group}, c.args...)...)
			out, err := cmd.StdoutPipe()
			must(t, err)
			var said strings.Builder
			cmd.Stderr = &said
			must(t, cmd.Start())
			seen := bufio.NewScanner(out)
			until := func(base, state string) {
				t.Helper()
				for seen.Scan() {
					if c.is(seen.Text(), base, state) {
						return
					}
				}
				t.Fatalf("it ended before base %q was %q: %v %s", base, state, seen.Err(), said.String())
			}
			_, err = up.AddBases(t.Context(), sandbox.AddRequest{Count: 1, Group: group, Set: "s"})
			must(t, err)
			until("s-1", "up")
			_, err = up.RemoveBases(t.Context(), sandbox.RemoveRequest{Group: group})
			must(t, err)
			until("s-1", "removed")
			must(t, cmd.Process.Signal(os.Interrupt))
			_, err = io.Copy(io.Discard, out)
			must(t, err)
			if err := cmd.Wait(); err != nil {
				t.Errorf("after Ctrl-C: %v %s", err, said.String())
			}
		})
	}
}
