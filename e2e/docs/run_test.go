package docs

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
)

var update = flag.Bool("update", false, "write the output of the commands to the pages")

const (
	// commandTimeout is the timeout of a command.
	commandTimeout = 3 * time.Minute
	// Until its output equals the output on the page, a read-only command is repeated every retryInterval, for at
	// most retryTime.
	retryTime, retryInterval = 40 * time.Second, 300 * time.Millisecond
)

// readOnly matches commands that change nothing and may be repeated.
var readOnly = regexp.MustCompile(
	`^(kubectl (get|logs|exec) |koupsandbox (base list|fault list|status|logs|list|why)|curl |grep )`)

// TestPages checks that the commands of README.md and docs/en print the output that the pages show.
func TestPages(t *testing.T) {
	bin, err := box.FindBinaries(root)
	must(t, err)
	for _, binary := range []string{"bash", "kubectl", "curl", "jq", "make"} {
		if _, err := exec.LookPath(binary); err != nil {
			if os.Getenv("E2E_DOCS") == "required" {
				t.Fatalf("the commands of the documentation need %s; install it", binary)
			}
			t.Skipf("*** THE DOCUMENTATION IS NOT TESTED: install %s ***", binary)
		}
	}
	for _, p := range documents(t) {
		if p.path != "README.md" && !strings.HasPrefix(p.path, "docs/en/") || !p.runnable() {
			continue
		}
		t.Run(strings.TrimSuffix(filepath.Base(p.path), ".md"), func(t *testing.T) {
			t.Parallel() // each page has its own sandbox
			execute(t, p, bin)
		})
	}
}

// execute runs the commands of a page in a directory with the files of the repository and with a separate home
// directory. Afterwards, it removes the sandboxes that still exist in this home directory.
func execute(t *testing.T, p *page, bin string) {
	folder, err := os.MkdirTemp("", "koup-docs-") // the path of a socket must be short
	must(t, err)
	e := &execution{page: p, home: filepath.Join(folder, "home")}
	t.Cleanup(func() {
		removeSandboxes(t, bin, e.home)
		_ = os.RemoveAll(folder)
	})
	work := workFolder(t, folder, bin)
	for _, b := range p.blocks {
		if b.kind == "console" && b.notRun != "" {
			t.Logf("%s:%d: not executed: %s", p.path, b.from, b.notRun)
		}
		if b.file != "" {
			file := filepath.Join(work, b.file)
			must(t, os.MkdirAll(filepath.Dir(file), 0o700))
			must(t, os.WriteFile(file, []byte(p.text(b)+"\n"), 0o600))
		}
	}
	e.shell, err = startShell(work, environment(e.home, bin))
	must(t, err)
	t.Cleanup(e.shell.close)
	for _, command := range slices.Concat(p.setup, []string{
		"export KUBECONFIG=$(koupsandbox kubeconfig --path 2>/dev/null || true)",
	}) {
		if out, err := e.run(t.Context(), command, 0); err != nil {
			t.Fatalf("%s: setup: %s: %v\n%s", p.path, command, err, strings.Join(out, "\n"))
		}
	}
	var edits []edit
	for _, b := range p.blocks {
		if b.kind != "console" || b.notRun != "" {
			continue
		}
		for _, c := range p.commands(b) {
			out, err := e.runWithRetries(t.Context(), c)
			if err == nil {
				continue
			}
			if errors.Is(err, errSlow) {
				t.Logf("%s:%d: %s: not compared: %v", p.path, c.from, c.text, err)
				continue
			}
			if !*update {
				t.Fatalf("%s:%d: %s: %v", p.path, c.from, c.text, err)
			}
			t.Logf("%s:%d: %s: %v", p.path, c.from, c.text, err)
			edits = append(edits, edit{c.from, c.to, keepOmissions(trimmed(slices.Clone(p.lines[c.from:c.to])), out)})
		}
	}
	if len(edits) > 0 {
		rewrite(t, p, edits)
	}
}

// execution is the state of one execution of a page.
type execution struct {
	page  *page
	shell *shell
	home  string
}

func (e *execution) run(ctx context.Context, command string, exits int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, commandTimeout)
	defer cancel()
	out, status, err := e.shell.run(ctx, command)
	for i, line := range out {
		out[i] = strings.TrimRight(strings.ReplaceAll(line, e.home, "/home/me"), " ")
	}
	if err == nil && status != exits {
		err = fmt.Errorf("exit status %d, want %d", status, exits)
	}
	return out, err
}

// errSlow means that a scenario was inconclusive three times, because the machine is too slow.
var errSlow = errors.New("the scenario was inconclusive three times, because this machine was too slow")

// runWithRetries executes a command. It repeats a read-only command until its output equals the output on the page. It
// repeats an inconclusive scenario up to two times, and then returns errSlow.
func (e *execution) runWithRetries(ctx context.Context, c command) (out []string, err error) {
	want := trimmed(slices.Clone(e.page.lines[c.from:c.to]))
	timeout := retryTime
	if *update {
		timeout /= 4
	}
	slow := 0
	for deadline := time.Now().Add(timeout); ; time.Sleep(retryInterval) {
		out, err = e.run(ctx, c.text, c.exits)
		if err == nil && sameOutput(want, out) {
			return out, nil
		}
		if ctx.Err() == nil &&
			slices.ContainsFunc(out, func(line string) bool { return strings.Contains(line, "inconclusive: ") }) {
			slow++
			if slow <= 2 {
				continue
			}
			return out, errSlow
		}
		if !readOnly.MatchString(c.text) || time.Now().After(deadline) || ctx.Err() != nil {
			return out, errors.Join(err,
				fmt.Errorf("output (-page +printed):\n%s\nunmasked:\n%s", cmp.Diff(masked(want), masked(out)),
					strings.Join(out, "\n")))
		}
	}
}

// workFolder returns a new directory with links to all files of the repository. Commands may create files in it.
func workFolder(t *testing.T, folder, bin string) string {
	t.Helper()
	work := filepath.Join(folder, "work")
	must(t, os.MkdirAll(work, 0o700))
	top, err := filepath.Abs(root)
	must(t, err)
	entries, err := os.ReadDir(top)
	must(t, err)
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, ".") && name != "bin" {
			must(t, os.Symlink(filepath.Join(top, name), filepath.Join(work, name)))
		}
	}
	must(t, os.Symlink(bin, filepath.Join(work, "bin")))
	return work
}

// environment returns the complete environment of the commands. It selects the embedded provider, and contains no
// koupsandbox settings of the caller.
func environment(home, bin string) []string {
	return []string{
		"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8",
		"KOUPSANDBOX_PROVIDER=embedded", "KOUPSANDBOX_WAIT=3m",
	}
}

// removeSandboxes removes all sandboxes in a home directory.
func removeSandboxes(t *testing.T, bin, home string) {
	folders, _ := filepath.Glob(filepath.Join(home, ".koupsandbox", "*", "sandbox.yaml"))
	for _, f := range folders {
		b := &box.Box{Bin: bin, Home: filepath.Join(home, ".koupsandbox"), Name: filepath.Base(filepath.Dir(f))}
		if err := b.Down(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// edit replaces a range of lines of a page.
type edit struct {
	from, to int
	lines    []string
}

// rewrite writes a page with edits to its file, and copies the blocks of the page to its Chinese translation.
func rewrite(t *testing.T, p *page, edits []edit) {
	t.Helper()
	for _, e := range slices.Backward(edits) {
		p.lines = slices.Replace(p.lines, e.from, e.to, e.lines...)
	}
	write := func(p *page) {
		must(t, os.WriteFile(filepath.Join(root, p.path), []byte(strings.Join(p.lines, "\n")), 0o644))
	}
	write(p)
	english, other := read(t, p.path), read(t, chinese(p.path))
	if len(english.blocks) != len(other.blocks) {
		t.Fatalf("%s has %d blocks, %s %d", p.path, len(english.blocks), other.path, len(other.blocks))
	}
	for i, b := range slices.Backward(other.blocks) {
		from := english.blocks[i]
		other.lines = slices.Replace(other.lines, b.from, b.to, english.lines[from.from:from.to]...)
	}
	write(other)
}
