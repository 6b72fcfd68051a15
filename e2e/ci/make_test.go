package ci

import (
	"archive/tar"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// checkout is a Git repository with the files that make build needs, and a directory of programs in front of PATH.
type checkout struct {
	t             *testing.T
	dir, programs string
	path          string // the rest of PATH
	cache         string
}

// newCheckout creates a checkout. Its go command fails.
func newCheckout(t *testing.T) *checkout {
	t.Helper()
	c := &checkout{t: t, dir: filepath.Join(t.TempDir(), "koupsandbox"), programs: t.TempDir(),
		path: os.Getenv("PATH"), cache: t.TempDir()}
	for _, name := range []string{"Makefile", "install.sh", "go.mod", "tools/build", "tools/progress.awk",
		"sandbox/cmd/koupsandbox/internal/doctor/programs.txt", "sandbox/controlplane/go.mod",
		"sandbox/controlplane/go.sum"} {
		text, err := os.ReadFile(filepath.Join(root, name))
		must(t, err)
		c.write(filepath.Join(c.dir, name), string(text))
	}
	for _, args := range [][]string{{"init", "-q"}, {"add", "."},
		{"-c", "user.name=a", "-c", "user.email=a@b", "-c", "commit.gpgSign=false", "commit", "-qm", "files"}} {
		c.git(args...)
	}
	c.program("go", "echo >&2 'go was called'; exit 1")
	return c
}

func (c *checkout) write(path, text string) {
	c.t.Helper()
	must(c.t, os.MkdirAll(filepath.Dir(path), 0o700))
	must(c.t, os.WriteFile(path, []byte(text), 0o700)) //nolint:gosec // some files are programs
}

// program adds a shell script to PATH.
func (c *checkout) program(name, script string) {
	c.write(filepath.Join(c.programs, name), "#!/bin/sh\n"+script+"\n")
}

func (c *checkout) git(args ...string) string {
	c.t.Helper()
	out, err := exec.CommandContext(c.t.Context(), "git", append([]string{"-C", c.dir}, args...)...).Output()
	must(c.t, err)
	return strings.TrimSpace(string(out))
}

// make runs make without a terminal, and returns its output.
func (c *checkout) make(args ...string) (string, error) {
	cmd := exec.CommandContext(c.t.Context(), "make", append([]string{"-C", c.dir, "--no-print-directory"}, args...)...)
	cmd.Env = []string{"PATH=" + c.programs + ":" + c.path, "HOME=" + c.cache, "XDG_CACHE_HOME=" + c.cache, allowHTTP}
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// requireRelease checks that make up uses the binaries of the release and does not call go.
func (c *checkout) requireRelease(args ...string) {
	c.t.Helper()
	out, err := c.make(append([]string{"up"}, args...)...)
	if err != nil || strings.Contains(out, "go was called") || !strings.Contains(out, "release "+version) ||
		!strings.HasSuffix(out, "up --name koup --bases 3\n") {
		c.t.Errorf("make up %v: %v\n%s", args, err, out)
	}
}

// requireFailure checks that make build fails, and that its output contains all words.
func (c *checkout) requireFailure(words []string, args ...string) {
	c.t.Helper()
	out, err := c.make(append([]string{"build"}, args...)...)
	for _, word := range words {
		if err == nil || !strings.Contains(out, word) {
			c.t.Errorf("make build %v: error %v; want the output %q:\n%s", args, err, word, out)
		}
	}
}

// release writes a release to a directory. Its binaries are scripts that were built from the commit.
func (c *checkout) release(dir, commit string) {
	c.t.Helper()
	path := filepath.Join(dir, archiveName())
	must(c.t, os.MkdirAll(dir, 0o700))
	file, err := os.Create(path)
	must(c.t, err)
	zip := gzip.NewWriter(file)
	w := tar.NewWriter(zip)
	script := "#!/bin/sh\n[ \"$1\" != version ] || cat <<END\n{\n  \"koupsandbox\": \"" + version +
		"\",\n  \"commit\": \"" + commit + "\"\n}\nEND\n[ \"$1\" = version ] || echo \"$@\"\n"
	for _, name := range []string{"koupsandbox", "koup-controlplane", "module-controller", "fakebase"} {
		must(c.t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(script))}))
		_, err = w.Write([]byte(script))
		must(c.t, err)
	}
	must(c.t, errors.Join(w.Close(), zip.Close(), file.Close()))
	packed, err := os.ReadFile(path)
	must(c.t, err)
	c.write(filepath.Join(dir, "checksums.txt"),
		fmt.Sprintf("%x  %s\n%064d  kubectl-%[2]s\n", sha256.Sum256(packed), archiveName(), 0))
}

// TestMakeUpUsesARelease checks that make up does not call the compiler if a release of the same commit is available.
func TestMakeUpUsesARelease(t *testing.T) {
	t.Run("directory", func(t *testing.T) {
		c, dir := newCheckout(t), t.TempDir()
		c.release(dir, c.git("rev-parse", "HEAD"))
		c.requireRelease("KOUPSANDBOX_RELEASE=" + dir)
		must(t, os.RemoveAll(dir))
		c.requireRelease() // the binaries are in bin
		c.requireFailure([]string{"go was called"}, "KOUPSANDBOX_RELEASE=none")
		c.release(dir, c.git("rev-parse", "HEAD"))
		c.requireRelease("KOUPSANDBOX_RELEASE=" + dir)
		c.write(filepath.Join(c.dir, "fakebase", "new.go"), "package fakebase\n")
		c.requireFailure([]string{"go was called"})
	})
	t.Run("URL, then cache", func(t *testing.T) {
		c, dir := newCheckout(t), t.TempDir()
		c.release(dir, c.git("rev-parse", "HEAD"))
		server := httptest.NewServer(http.FileServer(http.Dir(dir)))
		t.Cleanup(server.Close)
		c.requireRelease("KOUPSANDBOX_RELEASE="+server.URL, skipAttestation)
		server.Close()
		must(t, os.RemoveAll(filepath.Join(c.dir, "bin")))
		c.requireRelease()
	})
	for _, place := range []string{"..", "dist/release"} {
		t.Run(place, func(t *testing.T) {
			c := newCheckout(t)
			c.release(filepath.Join(c.dir, place), c.git("rev-parse", "HEAD"))
			c.requireRelease()
		})
	}
}

// TestMakeBuildRefusesAnotherRelease checks that make build does not use a release of another commit, or a damaged
// release.
func TestMakeBuildRefusesAnotherRelease(t *testing.T) {
	c, dir := newCheckout(t), t.TempDir()
	commit, other := c.git("rev-parse", "HEAD"), strings.Repeat("a", 40)
	c.release(dir, other)
	c.requireFailure([]string{version + " of commit " + other, "this checkout is commit " + commit},
		"KOUPSANDBOX_RELEASE="+dir)
	c.release(filepath.Join(c.dir, ".."), commit+"-dirty")
	c.requireFailure([]string{"Compiling this commit: ", version + " of commit " + commit + "-dirty", "go was called"})
	c.release(dir, commit)
	c.requireFailure([]string{"/absent is not an https:// URL or a directory"}, "KOUPSANDBOX_RELEASE=/absent")
	c.write(filepath.Join(dir, archiveName()), "damaged")
	c.requireFailure([]string{"has the checksum"}, "KOUPSANDBOX_RELEASE="+dir)
	c.write(filepath.Join(c.dir, "go.mod"), "module changed\n")
	c.requireFailure([]string{"KOUPSANDBOX_RELEASE is set", "commit or revert"}, "KOUPSANDBOX_RELEASE="+dir)
	if left, err := filepath.Glob(filepath.Join(c.dir, "bin", "*")); err != nil || len(left) > 0 {
		t.Errorf("files in bin: %v, %v", left, err)
	}
}

// TestMakeBuildNamesAllMissingPrograms checks that make build reports all missing programs in one message.
func TestMakeBuildNamesAllMissingPrograms(t *testing.T) {
	c := newCheckout(t)
	for _, tool := range []string{"bash", "env", "sed", "awk", "mktemp", "rm", "dirname", "mkdir",
		"sh", "find", "make"} {
		path, err := exec.LookPath(tool)
		must(t, err)
		must(t, os.Symlink(path, filepath.Join(c.programs, tool)))
	}
	c.path = ""
	c.program("go", "echo go version go1.19.8 linux/amd64")
	c.requireFailure([]string{
		"missing programs: git go (1.26 or later; this is 1.19) kubectl. Install them with:",
		"Debian, Ubuntu: sudo apt-get install git golang-go kubernetes-client\n",
		"Fedora:         sudo dnf install git golang /usr/bin/kubectl\n",
		"macOS:          brew install git go kubernetes-cli\n",
	})
}

// fakeGo is a go command that lists ten packages of 2 MB below $DIR, and compiles them without doing anything. If the
// file $DIR/mistake exists, it fails with this file as its output.
const fakeGo = `DIR='%s'
case $1 in
version) echo go version go1.26.0 linux/amd64 ;;
env) echo "$DIR" ;;
list)
  echo 'go: downloading example.com/a v1.0.0' >&2
  echo 'go: downloading example.com/b v1.0.0' >&2
  for i in 0 1 2 3 4 5 6 7 8 9; do printf 'example.com/%%s\n%%s\n' $i "$DIR/$i/a b.go"; done ;;
build)
  if [ -f "$DIR/mistake" ]; then cat "$DIR/mistake" >&2; exit 1; fi
  case "$*" in *" -v "*) for i in 0 1 2 3 4 5 6 7 8 9; do echo example.com/$i >&2; done ;; esac
  while [ "$1" != -o ]; do shift; done
  touch "$2"; chmod 755 "$2" ;;
esac`

// TestMakeBuildShowsProgress checks the output of make build without a terminal, and after a mistake in the code.
func TestMakeBuildShowsProgress(t *testing.T) {
	c, dir := newCheckout(t), t.TempDir()
	c.program("go", fmt.Sprintf(fakeGo, dir))
	c.program("getconf", "echo 2")
	c.program("kubectl", "")
	for i := range 10 {
		path := filepath.Join(dir, fmt.Sprint(i), "a b.go")
		c.write(path, "")
		must(t, os.Truncate(path, 2<<20))
	}
	numbers := regexp.MustCompile(`\d+:\d+|\d+ (minutes?|min|s\b)|find: .*\n`)
	c.requireBuild(numbers, "Downloading Go modules\n"+
		"Compiling 10 packages takes about N on 2 CPU cores. Later builds take seconds.\n"+
		" 10 % compiled after N, about N left\n 20 % compiled after N, about N left\n"+
		" 30 % compiled after N, about N left\n 40 % compiled after N, about N left\n"+
		" 50 % compiled after N, about N left\n 60 % compiled after N, about N left\n"+
		" 70 % compiled after N, about N left\n 80 % compiled after N, about N left\n"+
		"100 % compiled after N, linking the binaries\nCompiled in N N.\n")
	c.requireBuild(numbers, "Compiling koupsandbox\nCompiling module-controller\nCompiling fakebase\n")
	must(t, os.RemoveAll(filepath.Join(c.dir, "bin")))
	c.write(filepath.Join(dir, "mistake"), "# example.com/0\na b.go:1:1: undefined: x\n")
	c.requireFailure([]string{"# example.com/0\na b.go:1:1: undefined: x\n", "Error 1"})
}

func (c *checkout) requireBuild(numbers *regexp.Regexp, want string) {
	c.t.Helper()
	out, err := c.make("build")
	if diff := cmp.Diff(want, numbers.ReplaceAllStringFunc(out, func(number string) string {
		if strings.HasPrefix(number, "find: ") {
			return ""
		}
		return "N"
	})); err != nil || diff != "" {
		c.t.Errorf("make build: %v (-want +got):\n%s", err, diff)
	}
}
