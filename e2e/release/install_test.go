// Package release tests install.sh, the container images, and binaries of different versions:
//
//	go test ./e2e/release     # with bin/koup-controlplane; also a part of make e2e
//	make release-check        # builds a release twice and compares the files
package release

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/pem"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

// shells maps the shells that install.sh supports to their command lines.
var shells = map[string][]string{"sh": {"sh"}, "dash": {"dash"}, "busybox": {"busybox", "sh"},
	"bash": {"bash", "--posix"}}

// linked lists the files of an archive for which install.sh creates links.
var linked = []string{
	"koupsandbox", "completions/koupsandbox.bash", "completions/_koupsandbox", "completions/koupsandbox.fish",
	"man/man1/koupsandbox.1",
}

// binary is the content of each file in an archive.
const binary = "#!/bin/sh\necho koupsandbox VERSION\n"

// mirror starts a server with the given releases, and returns its URL.
func mirror(t *testing.T, versions ...string) string {
	t.Helper()
	server := httptest.NewServer(http.FileServer(http.Dir(releases(t, versions...))))
	t.Cleanup(server.Close)
	return server.URL
}

// releases writes the given releases to subdirectories of a new directory, and returns this directory.
func releases(t *testing.T, versions ...string) string {
	t.Helper()
	root := t.TempDir()
	for _, version := range versions {
		top := "koupsandbox_" + version + "_" + runtime.GOOS + "_" + runtime.GOARCH
		var archive bytes.Buffer
		zip := gzip.NewWriter(&archive)
		w := tar.NewWriter(zip)
		for _, name := range linked {
			text := strings.ReplaceAll(binary, "VERSION", version)
			check.Must(t, w.WriteHeader(&tar.Header{Name: name, Mode: 0o755, Size: int64(len(text))}))
			_, err := w.Write([]byte(text))
			check.Must(t, err)
		}
		check.Must(t, errors.Join(w.Close(), zip.Close()))
		writeFile(t, filepath.Join(root, version, top+".tar.gz"), archive.String())
		writeFile(t, filepath.Join(root, version, "checksums.txt"),
			fmt.Sprintf("%x  %s.tar.gz\n", sha256.Sum256(archive.Bytes()), top))
	}
	return root
}

// writeFile writes a file, and creates its parent directories.
func writeFile(t *testing.T, path, text string) {
	t.Helper()
	check.Must(t, os.MkdirAll(filepath.Dir(path), 0o755))
	check.Must(t, os.WriteFile(path, []byte(text), 0o600))
}

// installer runs install.sh in one shell.
type installer struct {
	t     *testing.T
	shell []string
	dir   string // installation directory
	path  string
	// env contains the environment variables of install.sh. nil allows HTTP and skips the attestation. command
	// overrides PATH, HOME, KOUPSANDBOX_DIR and TMPDIR.
	env []string
}

func (i installer) command(ctx context.Context, args ...string) *exec.Cmd {
	shell, err := exec.LookPath(i.shell[0])
	check.Must(i.t, err)
	script, err := filepath.Abs("../../install.sh")
	check.Must(i.t, err)
	args = append(append(append([]string{}, i.shell[1:]...), script), args...)
	cmd := exec.CommandContext(ctx, shell, args...)
	if i.env == nil {
		i.env = []string{"KOUPSANDBOX_ALLOW_HTTP=1", "KOUPSANDBOX_SKIP_ATTESTATION=1"}
	}
	cmd.Env = append(slices.Clone(i.env), "PATH="+i.path, "HOME="+i.t.TempDir(), "KOUPSANDBOX_DIR="+i.dir,
		"TMPDIR="+i.t.TempDir())
	return cmd
}

// run runs install.sh, and returns its output and its exit status. It fails the test if install.sh leaves temporary
// files.
func (i installer) run(args ...string) (string, int) {
	cmd := i.command(i.t.Context(), args...)
	out, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		i.t.Fatal(err)
	}
	if left, err := os.ReadDir(cmd.Env[len(cmd.Env)-1][len("TMPDIR="):]); err != nil || len(left) > 0 {
		i.t.Errorf("%d temporary files still exist (%v)", len(left), err)
	}
	return string(out), cmd.ProcessState.ExitCode()
}

// must fails the test if install.sh fails.
func (i installer) must(args ...string) {
	i.t.Helper()
	if out, code := i.run(args...); code != 0 {
		i.t.Fatalf("install.sh %v: exit status %d:\n%s", args, code, out)
	}
}

// tree returns the files below dir with their contents, and the symbolic links with their targets.
func (i installer) tree() map[string]string {
	all := map[string]string{}
	err := filepath.WalkDir(i.dir, func(path string, d fs.DirEntry, err error) error {
		if errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		check.Must(i.t, err)
		name := strings.TrimPrefix(strings.TrimPrefix(path, i.dir), "/")
		switch {
		case d.IsDir():
			all[name+"/"] = ""
		case d.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(path)
			check.Must(i.t, err)
			all[name] = "-> " + strings.TrimPrefix(target, i.dir)
		default:
			text, err := os.ReadFile(path)
			check.Must(i.t, err)
			all[name] = strings.ReplaceAll(string(text), i.dir, "DIR")
		}
		return nil
	})
	check.Must(i.t, err)
	return all
}

// inEachShell runs a subtest for each supported shell that is installed.
func inEachShell(t *testing.T, test func(t *testing.T, i installer)) {
	for name, shell := range shells {
		t.Run(name, func(t *testing.T) {
			if _, err := exec.LookPath(shell[0]); err != nil {
				t.Skipf("%s is not installed", shell[0])
			}
			t.Parallel()
			test(t, installer{t: t, shell: shell, dir: filepath.Join(t.TempDir(), "some folder", "local"),
				path: os.Getenv("PATH")})
		})
	}
}

// pathOf creates a directory with links to the given tools and to the tools that install.sh always needs, and returns
// the directory for use as PATH.
func pathOf(t *testing.T, tools ...string) string {
	t.Helper()
	folder := t.TempDir()
	for _, tool := range append(tools, "uname", "sed", "cat", "readlink", "mktemp", "rm", "awk", "dirname", "mkdir",
		"rmdir") {
		path, err := exec.LookPath(tool)
		if err != nil {
			t.Skipf("%s is not installed", tool)
		}
		check.Must(t, os.Symlink(path, filepath.Join(folder, tool)))
	}
	return folder
}

func TestInstallAndUninstall(t *testing.T) {
	url := mirror(t, "v1.2.3", "v1.3.0")
	inEachShell(t, func(t *testing.T, i installer) {
		neighbour := filepath.Join(i.dir, "share/man/man1/other.1")
		writeFile(t, neighbour, "foreign")
		before := i.tree()
		for _, version := range []string{"v1.2.3", "v1.2.3", "v1.3.0"} {
			i.must("--mirror", url, "--version", version)
			text := strings.ReplaceAll(binary, "VERSION", version)
			want := map[string]string{
				"/": "", "bin/": "", "lib/": "", "lib/koupsandbox/": "", "lib/koupsandbox/man/": "",
				"lib/koupsandbox/man/man1/": "", "lib/koupsandbox/completions/": "",
				"share/": "", "share/man/": "", "share/man/man1/": "", "share/man/man1/other.1": "foreign",
				"share/bash-completion/": "", "share/bash-completion/completions/": "", "share/zsh/": "",
				"share/zsh/site-functions/": "", "share/fish/": "", "share/fish/vendor_completions.d/": "",
				"lib/koupsandbox/.made": "DIR/lib\nDIR/bin\nDIR/share/bash-completion\n" +
					"DIR/share/bash-completion/completions\nDIR/share/zsh\nDIR/share/zsh/site-functions\n" +
					"DIR/share/fish\nDIR/share/fish/vendor_completions.d\n",
				"bin/koupsandbox":                                  "-> /lib/koupsandbox/koupsandbox",
				"share/man/man1/koupsandbox.1":                     "-> /lib/koupsandbox/man/man1/koupsandbox.1",
				"share/bash-completion/completions/koupsandbox":    "-> /lib/koupsandbox/completions/koupsandbox.bash",
				"share/zsh/site-functions/_koupsandbox":            "-> /lib/koupsandbox/completions/_koupsandbox",
				"share/fish/vendor_completions.d/koupsandbox.fish": "-> /lib/koupsandbox/completions/koupsandbox.fish",
			}
			for _, name := range linked {
				want["lib/koupsandbox/"+name] = text
			}
			if diff := cmp.Diff(want, i.tree()); diff != "" {
				t.Fatalf("installed %s (-want +got):\n%s", version, diff)
			}
			out, err := exec.CommandContext(t.Context(), filepath.Join(i.dir, "bin/koupsandbox")).Output()
			if want := "koupsandbox " + version + "\n"; err != nil || string(out) != want {
				t.Errorf("output %q, want %q (%v)", out, want, err)
			}
		}
		i.must("--uninstall")
		if diff := cmp.Diff(before, i.tree()); diff != "" {
			t.Errorf("files after the uninstall (-before +after):\n%s", diff)
		}
	})
}

// TestInstallErrors checks that if install.sh cannot install a release, it reports the reason and changes no files.
func TestInstallErrors(t *testing.T) {
	url := mirror(t, "v1.2.3", "v1.3.0")
	name := "koupsandbox_v1.2.3_" + runtime.GOOS + "_" + runtime.GOARCH + ".tar.gz"
	badArchive := func(answer http.HandlerFunc) func(t *testing.T, i *installer) string {
		return func(t *testing.T, _ *installer) string {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if strings.HasSuffix(r.URL.Path, "/checksums.txt") {
					_, _ = fmt.Fprintf(w, "%064d  %s\n", 0, name)
					return
				}
				answer(w, r)
			}))
			t.Cleanup(server.Close)
			return server.URL
		}
	}
	// only sets a PATH with only these tools.
	only := func(tools ...string) func(t *testing.T, i *installer) string {
		return func(t *testing.T, i *installer) string {
			i.path = pathOf(t, tools...)
			return url
		}
	}
	existing := func(path string) func(t *testing.T, i *installer) string {
		return func(t *testing.T, i *installer) string {
			writeFile(t, filepath.Join(i.dir, path), "foreign")
			return url
		}
	}
	for what, tc := range map[string]struct {
		prepare func(t *testing.T, i *installer) (url string)
		args    []string
		want    string
	}{
		"wrong checksum": {badArchive(
			func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte("another")) }),
			nil, fmt.Sprintf("%s %x", name, sha256.Sum256([]byte("another")))},
		"incomplete archive": {badArchive(func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Content-Length", "100")
			_, _ = w.Write([]byte("half"))
		}), nil, "/" + name},
		"incomplete archive, wget": {func(t *testing.T, i *installer) string {
			i.path = pathOf(t, "gzip", "tar", "sha256sum", "wget")
			return badArchive(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Length", "100")
				_, _ = w.Write([]byte("half"))
			})(t, i)
		}, nil, "/" + name},
		"no archive":        {badArchive(http.NotFound), nil, "/" + name},
		"no such version":   {nil, []string{"--version", "v9.9.9"}, "/v9.9.9/checksums.txt --mirror"},
		"other system only": {func(t *testing.T, _ *installer) string { return otherSystem(t) }, nil, "v1.2.3 " + name},
		"no network": {func(_ *testing.T, _ *installer) string {
			s := httptest.NewServer(http.NotFoundHandler())
			s.Close()
			return s.URL
		}, nil, "/checksums.txt --mirror"},
		"no tar":           {only("gzip", "curl", "sha256sum"), nil, "tar"},
		"no curl":          {only("gzip", "tar", "sha256sum"), nil, "curl wget"},
		"no checksum tool": {only("gzip", "tar", "curl"), nil, "sha256sum shasum openssl"},
		"foreign binary":   {existing("bin/koupsandbox"), nil, "bin/koupsandbox --dir"},
		"foreign man page": {existing("share/man/man1/koupsandbox.1"), nil,
			"share/man/man1/koupsandbox.1 --dir"},
		"foreign directory": {existing("lib/koupsandbox/x"), nil, "lib/koupsandbox --dir"},
		"uninstall of a foreign directory": {existing("lib/koupsandbox/x"), []string{"--uninstall"},
			"lib/koupsandbox"},
		"uninstall without an installation": {nil, []string{"--uninstall"}, "--dir"},
		"mirror without https": {func(_ *testing.T, i *installer) string { i.env = []string{"A=b"}; return url }, nil,
			"https:// KOUPSANDBOX_ALLOW_HTTP=1"},
		"mirror is not a URL": {func(_ *testing.T, _ *installer) string { return "/srv/mirror" }, nil,
			"/srv/mirror https://"},
		"wget that follows all redirects": {func(t *testing.T, i *installer) string {
			i.path = pathOf(t, "gzip", "tar", "sha256sum")
			writeScript(t, i.path, "wget", "exit 1")
			return url
		}, nil, "wget curl GNU"},
		"empty version":    {nil, []string{"--version", ""}, "--version needs a value"},
		"invalid version":  {nil, []string{"--version", "1.2.3"}, "install.sh: 1.2.3 v1.2.3"},
		"unknown argument": {nil, []string{"--prefix"}, "--prefix --help"},
		"file instead of a directory": {
			func(t *testing.T, i *installer) string { writeFile(t, filepath.Join(i.dir, "lib"), ""); return url }, nil,
			"/lib --dir"},
	} {
		t.Run(what, func(t *testing.T) {
			inEachShell(t, func(t *testing.T, i installer) {
				from := url
				if tc.prepare != nil {
					from = tc.prepare(t, &i)
				}
				before := i.tree()
				out, code := i.run(append([]string{"--mirror", from, "--version", "v1.2.3"}, tc.args...)...)
				if code != 1 || !strings.Contains(out, "install.sh: ") || !containsAll(out, tc.want) {
					t.Errorf("exit status %d, want 1 and %q:\n%s", code, tc.want, out)
				}
				if diff := cmp.Diff(before, i.tree()); diff != "" {
					t.Errorf("(-before +after):\n%s", diff)
				}
			})
		})
	}
}

// otherSystem starts a server whose release has no archive for this system, and returns its URL.
func otherSystem(t *testing.T) string {
	t.Helper()
	root := t.TempDir()
	writeFile(t, filepath.Join(root, "v1.2.3/checksums.txt"),
		strings.Repeat("0", 64)+"  koupsandbox_v1.2.3_plan9_386.tar.gz\n")
	server := httptest.NewServer(http.FileServer(http.Dir(root)))
	t.Cleanup(server.Close)
	return server.URL
}

// TestInstallFromDirectory checks that install.sh installs the release in a local directory without a download program,
// and refuses a directory with another version or with several versions.
func TestInstallFromDirectory(t *testing.T) {
	root := releases(t, "v1.2.3", "v1.3.0")
	inEachShell(t, func(t *testing.T, i installer) {
		i.path = pathOf(t, "gzip", "tar", "sha256sum", "mv", "cp", "ln", "chmod")
		i.env = []string{"KOUPSANDBOX_RELEASE=" + filepath.Join(root, "v1.2.3")}
		i.must()
		out, err := exec.CommandContext(t.Context(), filepath.Join(i.dir, "bin/koupsandbox")).Output()
		if err != nil || string(out) != "koupsandbox v1.2.3\n" {
			t.Errorf("output %q (%v)", out, err)
		}
		both, before := t.TempDir(), i.tree()
		writeFile(t, filepath.Join(both, "checksums.txt"),
			read(t, root, "v1.2.3/checksums.txt")+read(t, root, "v1.3.0/checksums.txt"))
		writeFile(t, filepath.Join(both, "damaged", "checksums.txt"), read(t, root, "v1.3.0/checksums.txt"))
		archive := strings.Fields(read(t, root, "v1.3.0/checksums.txt"))[1]
		writeFile(t, filepath.Join(both, "damaged", archive), "damaged")
		for want, args := range map[string][]string{
			"has the version v1.3.0 instead of v1.2.3": {"--release", root + "/v1.3.0", "--version", "v1.2.3"},
			"has more than one version":                {"--release", both},
			"has the checksum":                         {"--release", both + "/damaged"},
			"/checksums.txt: check --release":          {"--release", root},
			"is not an https:// URL or a directory":    {"--release", root + "/v1.4.0"},
		} {
			if out, code := i.run(args...); code != 1 || !strings.Contains(out, want) {
				t.Errorf("install.sh %v: exit status %d, want 1 and %q:\n%s", args, code, want, out)
			}
		}
		if diff := cmp.Diff(before, i.tree()); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
}

// TestInterruptedInstall checks that an interrupted download leaves the installed version unchanged.
func TestInterruptedInstall(t *testing.T) {
	url := mirror(t, "v1.2.3")
	inEachShell(t, func(t *testing.T, i installer) {
		i.must("--mirror", url, "--version", "v1.2.3")
		before := i.tree()
		requested := make(chan struct{})
		hanging := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
			close(requested)
			<-r.Context().Done()
		}))
		t.Cleanup(hanging.Close)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		cmd := i.command(ctx, "--mirror", hanging.URL, "--version", "v1.3.0")
		// the signal goes to the whole process group, as from a terminal
		cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
		check.Must(t, cmd.Start())
		select {
		case <-requested:
		case <-ctx.Done():
			t.Fatal("install.sh sent no request")
		}
		check.Must(t, syscall.Kill(-cmd.Process.Pid, syscall.SIGTERM))
		if err := cmd.Wait(); err == nil {
			t.Error("install.sh succeeded after SIGTERM")
		}
		if diff := cmp.Diff(before, i.tree()); diff != "" {
			t.Errorf("(-before +after):\n%s", diff)
		}
	})
}

// writeScript writes an executable shell script to a directory.
func writeScript(t *testing.T, folder, name, text string) {
	t.Helper()
	check.Must(t, os.WriteFile(filepath.Join(folder, name), []byte("#!/bin/sh\n"+text+"\n"),
		0o700)) //nolint:gosec // the file is executed
}

// TestInstallFollowsRedirectsToHTTPSOnly checks that install.sh follows redirects to https, and does not follow
// redirects to http.
func TestInstallFollowsRedirectsToHTTPSOnly(t *testing.T) {
	var mu sync.Mutex
	asked := 0
	plain := mirror(t, "v1.2.3")
	counted := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		defer mu.Unlock()
		asked++
		relay(t, w, plain+r.URL.Path)
	}))
	t.Cleanup(counted.Close)
	secure := httptest.NewTLSServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		path, archive := r.URL.Path, strings.HasSuffix(r.URL.Path, ".tar.gz")
		switch {
		case strings.HasPrefix(path, "/to-http/") && archive:
			http.Redirect(w, r, counted.URL+strings.TrimPrefix(path, "/to-http"), http.StatusFound)
			return
		case strings.HasPrefix(path, "/to-https/") && archive:
			http.Redirect(w, r, "https://"+r.Host+"/served"+strings.TrimPrefix(path, "/to-https"), http.StatusFound)
			return
		case strings.HasPrefix(path, "/for-ever/"):
			http.Redirect(w, r, "https://"+r.Host+path, http.StatusFound)
			return
		}
		_, file, _ := strings.Cut(strings.TrimPrefix(path, "/"), "/")
		relay(t, w, plain+"/"+file)
	}))
	t.Cleanup(secure.Close)
	authority := filepath.Join(t.TempDir(), "ca.pem")
	writeFile(t, authority, string(pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE",
		Bytes: secure.Certificate().Raw})))
	writeFile(t, authority+".wgetrc", "ca_certificate = "+authority+"\n")
	for _, tool := range []string{"curl", "wget"} {
		t.Run(tool, func(t *testing.T) {
			inEachShell(t, func(t *testing.T, i installer) {
				i.path = pathOf(t, "gzip", "tar", "sha256sum", "mv", "cp", "ln", "chmod", tool)
				i.env = []string{"CURL_CA_BUNDLE=" + authority, "WGETRC=" + authority + ".wgetrc"}
				before := i.tree()
				for from, want := range map[string]string{"to-http": ".tar.gz", "for-ever": "/checksums.txt"} {
					out, code := i.run("--mirror", secure.URL+"/"+from, "--version", "v1.2.3")
					if code != 1 || !strings.Contains(out, want) {
						t.Errorf("%s: exit status %d, want 1 and %q:\n%s", from, code, want, out)
					}
				}
				if diff := cmp.Diff(before, i.tree()); diff != "" {
					t.Errorf("(-before +after):\n%s", diff)
				}
				i.must("--mirror", secure.URL+"/to-https", "--version", "v1.2.3")
				// KOUPSANDBOX_ALLOW_HTTP applies only to the mirror, not to redirects
				i.env = append(i.env, "KOUPSANDBOX_ALLOW_HTTP=1")
				if out, code := i.run("--mirror", secure.URL+"/to-http", "--version", "v1.2.3"); code != 1 {
					t.Errorf("exit status %d:\n%s", code, out)
				}
				i.must("--mirror", plain, "--version", "v1.2.3")
			})
		})
	}
	if asked > 0 {
		t.Errorf("the server without TLS received %d requests", asked)
	}
}

// TestInstallVerifiesTheAttestation checks that install.sh verifies the attestation of the archive with gh or cosign,
// if one of them is installed.
func TestInstallVerifiesTheAttestation(t *testing.T) {
	plain := mirror(t, "v1.2.3", "v1.3.0")
	inEachShell(t, func(t *testing.T, i installer) {
		folder, url := t.TempDir(), plain
		i.path, i.env = folder+":"+os.Getenv("PATH"), []string{"KOUPSANDBOX_ALLOW_HTTP=1"}
		refuses := func(what, want string) {
			t.Helper()
			before := i.tree()
			if out, code := i.run("--mirror", url, "--version", "v1.3.0"); code != 1 || !strings.Contains(out, want) {
				t.Errorf("%s: exit status %d, want 1 and %q:\n%s", what, code, want, out)
			}
			if diff := cmp.Diff(before, i.tree()); diff != "" {
				t.Errorf("%s (-before +after):\n%s", what, diff)
			}
		}
		says := func(what, version, want string) {
			t.Helper()
			if out, code := i.run("--mirror", url, "--version", version); code != 0 || strings.Count(out, want) != 1 {
				t.Errorf("%s: exit status %d, want 0 and %q:\n%s", what, code, want, out)
			}
		}
		old := "exit 1" // a version of gh or cosign without attestations
		writeScript(t, folder, "gh", old)
		writeScript(t, folder, "cosign", old)
		says("without a tool", "v1.2.3", "gh or cosign")

		log := filepath.Join(t.TempDir(), "log")
		answers := func(tool, answer string) {
			writeScript(t, folder, tool,
				`case "$*" in *--help*) echo "--new-bundle-format"; exit 0;; esac; printf '%s ' "$@" >`+"'"+log+"'; "+
					answer)
		}
		answers("gh", "exit 0")
		refuses("no attestation", "/v1.3.0/attestation.json")
		url = attestedMirror(t, plain)
		says("gh confirms", "v1.3.0", "gh has verified")
		const workflow = "https://github.com/koupleless/koupsandbox/.github/workflows/release.yml@refs/tags/v1.3.0"
		wants := func(tool string, args ...string) {
			t.Helper()
			got, err := os.ReadFile(log)
			check.Must(t, err)
			for _, want := range append(args, "/archive ", "/attestation.json ") {
				if !strings.Contains(string(got), want) {
					t.Errorf("%s was called with %q; want %q", tool, got, want)
				}
			}
		}
		wants("gh", "attestation verify ", "--repo koupleless/koupsandbox ", "--cert-identity "+workflow+" ",
			"--bundle ")
		answers("gh", "echo the digest differs; exit 1")
		refuses("gh does not confirm", "gh does not confirm")
		refuses("gh does not confirm", "the digest differs")
		refuses("gh cannot reach Sigstore", "KOUPSANDBOX_SKIP_ATTESTATION=1")
		writeScript(t, folder, "gh", old)
		answers("cosign", "exit 0")
		says("cosign confirms", "v1.3.0", "cosign has verified")
		wants("cosign", "verify-blob-attestation ", "--certificate-identity "+workflow+" ",
			"--certificate-oidc-issuer https://token.actions.githubusercontent.com ")
		answers("cosign", "exit 1")
		refuses("cosign does not confirm", "cosign does not confirm")
		i.env = append(i.env, "KOUPSANDBOX_SKIP_ATTESTATION=1")
		says("skipped", "v1.3.0", "KOUPSANDBOX_SKIP_ATTESTATION")
	})
}

// containsAll reports whether text contains each of the words, which are separated by spaces.
func containsAll(text, words string) bool {
	return !slices.ContainsFunc(strings.Fields(words), func(word string) bool { return !strings.Contains(text, word) })
}

// attestedMirror starts a server that serves the files of the mirror at url, and an attestation of each release. It
// returns the URL of the server.
func attestedMirror(t *testing.T, url string) string {
	t.Helper()
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/attestation.json") {
			_, _ = w.Write([]byte("{}"))
			return
		}
		relay(t, w, url+r.URL.Path)
	}))
	t.Cleanup(server.Close)
	return server.URL
}

// relay sends a GET request to url, and forwards the response to w.
func relay(t *testing.T, w http.ResponseWriter, url string) {
	answer, err := http.Get(url) //nolint:noctx,gosec // the URL is of a test server
	if err != nil {
		t.Error(err)
		return
	}
	defer func() { _ = answer.Body.Close() }()
	w.WriteHeader(answer.StatusCode)
	_, _ = io.Copy(w, answer.Body)
}

// TestInstallVerifiesACachedArchive checks that install.sh verifies an archive in the cache again, and downloads the
// archive again if its checksum does not match.
func TestInstallVerifiesACachedArchive(t *testing.T) {
	inEachShell(t, func(t *testing.T, i installer) {
		release := mirror(t, "v1.2.3")
		asked := make(chan string, 10)
		server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			asked <- filepath.Ext(r.URL.Path)
			relay(t, w, release+r.URL.Path)
		}))
		t.Cleanup(server.Close)
		cache := filepath.Join(t.TempDir(), "a cache")
		i.env = []string{"KOUPSANDBOX_ALLOW_HTTP=1", "KOUPSANDBOX_SKIP_ATTESTATION=1", "KOUPSANDBOX_CACHE=" + cache}
		installs := func(what string, want ...string) {
			t.Helper()
			i.must("--mirror", server.URL, "--version", "v1.2.3")
			var got []string
			for range len(asked) {
				got = append(got, <-asked)
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: downloads (-want +got):\n%s", what, diff)
			}
			if out, err := exec.CommandContext(t.Context(), filepath.Join(i.dir, "bin/koupsandbox")).Output(); string(
				out) != "koupsandbox v1.2.3\n" {
				t.Errorf("%s: output %q (%v)", what, out, err)
			}
		}
		installs("without an archive", ".txt", ".gz")
		installs("with it", ".txt")
		kept, err := filepath.Glob(filepath.Join(cache, "*.tar.gz"))
		if err != nil || len(kept) != 1 {
			t.Fatalf("files in the cache: %v (%v)", kept, err)
		}
		writeFile(t, kept[0], "tampered with")
		installs("with another one", ".txt", ".gz")
		installs("repaired", ".txt")
	})
}
