package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

// TestOpenBrowser checks that openBrowser does not pass the token of the web UI in process arguments. The token must
// be in a file that only the user can read, and each call must replace the file.
func TestOpenBrowser(t *testing.T) {
	bin, dir := t.TempDir(), t.TempDir()
	pipe := filepath.Join(bin, "pipe")
	check.Must(t, unix.Mkfifo(pipe, 0o600))
	for _, name := range []string{"xdg-open", "open"} {
		check.Must(t, os.WriteFile(filepath.Join(bin, name), []byte("#!/bin/sh\necho \"$@\" > "+pipe+"\n"), 0o700))
	}
	t.Setenv("PATH", bin)
	t.Setenv("DISPLAY", ":0")
	t.Setenv("TMPDIR", t.TempDir())
	for _, in := range []string{dir, dir, ""} {
		url := `http://127.0.0.1:1/?a="b"&c#token=secret-` + time.Now().String()
		redirect, err := openBrowser(t.Context(), in, url)
		check.Must(t, err)
		arguments, err := os.ReadFile(pipe) // blocks until the program has started
		check.Must(t, err)
		if got := strings.TrimSpace(string(arguments)); got != redirect || in != "" && filepath.Dir(redirect) != in {
			t.Errorf("in directory %q: arguments %q, redirect file %q", in, got, redirect)
		}
		page, err := os.ReadFile(redirect)
		if want := `content="0; url=` + strings.NewReplacer("&", "&amp;", `"`, "&#34;").Replace(url) +
			`">`; err != nil || !strings.Contains(string(page), want) {
			t.Errorf("redirect page %s (error %v) does not contain %s", page, err, want)
		}
		if info, err := os.Stat(redirect); err != nil || info.Mode().Perm() != 0o600 {
			t.Errorf("mode of the redirect file: %v, %v", info, err)
		}
	}
}
