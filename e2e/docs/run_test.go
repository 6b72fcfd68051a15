package docs

import (
	"context"
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

var (
	update = flag.Bool("update", false, "write what the commands print into the pages, where that is not what they say")
	all    = flag.Bool("all", false, "with -update: also where only masked parts differ")
)

const (
	// atMost is how long a command may take: some run scenarios, on a busy machine.
	atMost = 3 * time.Minute
	// settle is how long a command that only looks may show something else before.
	settle, again = 40 * time.Second, 300 * time.Millisecond
)

// looks are commands that only look: they are repeated until they show what the page says.
var looks = regexp.MustCompile(`^(kubectl (get|logs|exec) |koupsandbox (base list|base faults|status|logs|list|why)|curl |grep )`)

func TestPages(t *testing.T) {
	bin, err := box.FindPrograms(root)
	if err != nil {
		t.Fatal(err)
	}
	for _, program := range []string{"bash", "kubectl", "curl", "jq", "make"} {
		if _, err := exec.LookPath(program); err != nil {
			if os.Getenv("E2E_DOCS") == "required" {
				t.Fatalf("the documents need %s: install it", program)
			}
			t.Skipf("*** THE DOCUMENTS ARE NOT EXECUTED: install %s ***", program)
		}
	}
	for _, path := range documents(t) {
		if path != "README.md" && !strings.HasPrefix(path, "docs/en/") {
			continue
		}
		p, err := readPage(path)
		if err != nil {
			t.Fatal(err)
		}
		for _, b := range p.blocks {
			if b.kind == "console" && b.notRun != "" {
				t.Logf("%s:%d is not run: %s", path, b.from, b.notRun)
			}
		}
		if p.runnable() {
			t.Run(strings.TrimSuffix(filepath.Base(path), ".md"), func(t *testing.T) {
				t.Parallel() // each page has a sandbox of its own
				execute(t, p, bin)
			})
		}
	}
}

// execute runs the commands of a page in a folder that looks like the repository, with a home of its
// own, and takes down every sandbox that they leave.
func execute(t *testing.T, p *page, bin string) {
	start := time.Now()
	folder, err := os.MkdirTemp("", "koup-docs-") // a short path, because sockets go there
	if err != nil {
		t.Fatal(err)
	}
	home := filepath.Join(folder, "home")
	t.Cleanup(func() {
		takeDown(t, bin, home)
		_ = os.RemoveAll(folder)
	})
	work, err := workFolder(folder, bin)
	if err != nil {
		t.Fatal(err)
	}
	for _, b := range p.blocks {
		if b.file != "" {
			if err := os.WriteFile(filepath.Join(work, b.file), []byte(p.text(b)+"\n"), 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := startShell(work, environment(home, bin))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.close)
	e := &execution{page: p, shell: s, home: home}
	for _, command := range slices.Concat(p.setup, []string{
		"make() { command make -s -o build \"$@\"; }", // what make e2e has built is not built again
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
			out, err := e.try(t.Context(), c)
			if err != nil && !*update {
				t.Fatalf("%s:%d: %s: %v", p.path, c.from, c.text, err)
			} else if err != nil {
				t.Logf("%s:%d: %s: %v", p.path, c.from, c.text, err)
				edits = append(edits, edit{c.from, c.to, out})
			} else if *update && *all {
				edits = append(edits, edit{c.from, c.to, renewed(trimmed(p.lines[c.from:c.to]), out)})
			}
		}
	}
	if *update {
		if err := rewrite(p, edits); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("%s is true, after %.1fs", p.path, time.Since(start).Seconds())
}

// execution is a page under execution.
type execution struct {
	page  *page
	shell *shell
	home  string
}

func (e *execution) run(ctx context.Context, command string, exits int) ([]string, error) {
	ctx, cancel := context.WithTimeout(ctx, atMost)
	defer cancel()
	out, status, err := e.shell.run(ctx, command)
	for i, line := range out {
		out[i] = strings.TrimRight(strings.ReplaceAll(line, e.home, "/home/me"), " ")
	}
	if err == nil && status != exits {
		err = fmt.Errorf("it ended with status %d, not %d", status, exits)
	}
	return out, err
}

// try executes a command until it prints what the page says; only one that looks gets another chance.
func (e *execution) try(ctx context.Context, c command) ([]string, error) {
	want := trimmed(slices.Clone(e.page.lines[c.from:c.to]))
	patience := settle
	if *update {
		patience /= 4 // what is written for the first time never fits
	}
	for deadline := time.Now().Add(patience); ; {
		out, err := e.run(ctx, c.text, c.exits)
		if err == nil && same(want, out) {
			return out, nil
		}
		if looks.MatchString(c.text) && time.Now().Before(deadline) && ctx.Err() == nil {
			time.Sleep(again)
			continue
		}
		if err != nil {
			return out, fmt.Errorf("%w; it printed:\n%s", err, strings.Join(out, "\n"))
		}
		return out, fmt.Errorf("it printed something else (-page +printed):\n%s\nunmasked:\n%s", cmp.Diff(masked(want), masked(out)), strings.Join(out, "\n"))
	}
}

// workFolder makes a folder with everything of the repository, where files may be written.
func workFolder(folder, bin string) (string, error) {
	work := filepath.Join(folder, "work")
	if err := os.MkdirAll(work, 0o700); err != nil {
		return "", fmt.Errorf("making a folder for the commands: %w", err)
	}
	top, err := filepath.Abs(root)
	if err != nil {
		return "", fmt.Errorf("finding the repository: %w", err)
	}
	entries, err := os.ReadDir(top)
	if err != nil {
		return "", fmt.Errorf("reading the repository: %w", err)
	}
	for _, e := range entries {
		if name := e.Name(); !strings.HasPrefix(name, ".") && name != "bin" {
			if err := os.Symlink(filepath.Join(top, name), filepath.Join(work, name)); err != nil {
				return "", fmt.Errorf("making a folder for the commands: %w", err)
			}
		}
	}
	return work, os.Symlink(bin, filepath.Join(work, "bin"))
}

// environment is that of a reader with nothing set, on a machine without a container engine.
func environment(home, bin string) []string {
	return []string{
		"HOME=" + home, "PATH=" + bin + ":" + os.Getenv("PATH"), "TMPDIR=" + os.TempDir(), "LANG=C.UTF-8",
		"KOUPSANDBOX_PROVIDER=embedded", "KOUPSANDBOX_WAIT=3m",
	}
}

// takeDown ends every sandbox that is left in a home.
func takeDown(t *testing.T, bin, home string) {
	folders, _ := filepath.Glob(filepath.Join(home, ".koupsandbox", "*", "sandbox.yaml"))
	for _, f := range folders {
		b := &box.Box{Bin: bin, Home: filepath.Join(home, ".koupsandbox"), Name: filepath.Base(filepath.Dir(f))}
		if err := b.Down(context.Background()); err != nil {
			t.Error(err)
		}
	}
}

// edit is what lines of a page become.
type edit struct {
	from, to int
	lines    []string
}

// rewrite puts what the commands have printed into a page, and its blocks into the Chinese one.
func rewrite(p *page, edits []edit) error {
	for _, e := range slices.Backward(edits) {
		p.lines = slices.Replace(p.lines, e.from, e.to, e.lines...)
	}
	text := strings.Join(p.lines, "\n")
	if err := os.WriteFile(filepath.Join(root, p.path), []byte(text), 0o644); err != nil {
		return fmt.Errorf("writing a page: %w", err)
	}
	english, err := parsePage(p.path, text)
	if err != nil {
		return err
	}
	other, err := readPage(chinese(p.path))
	if err != nil {
		return err
	}
	if len(english.blocks) != len(other.blocks) {
		return fmt.Errorf("%s has %d blocks, %s %d", p.path, len(english.blocks), other.path, len(other.blocks))
	}
	for i, b := range slices.Backward(other.blocks) {
		from := english.blocks[i]
		other.lines = slices.Replace(other.lines, b.from, b.to, english.lines[from.from:from.to]...)
	}
	if err := os.WriteFile(filepath.Join(root, other.path), []byte(strings.Join(other.lines, "\n")), 0o644); err != nil {
		return fmt.Errorf("writing a page: %w", err)
	}
	return nil
}
