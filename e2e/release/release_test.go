package release

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"encoding/json"
	"fmt"
	"maps"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	cyclonedx "github.com/CycloneDX/cyclonedx-go"
	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

const (
	repository = "../.."
	version    = "v1.0.0"
)

// build runs make, which needs seconds unless it compiles Kubernetes.
func build(ctx context.Context, t *testing.T, folder string, args ...string) {
	t.Helper()
	cmd := exec.CommandContext(ctx, "make", append([]string{"-C", folder}, args...)...)
	cmd.Env = slices.DeleteFunc(os.Environ(), func(v string) bool { return strings.HasPrefix(v, "MAKEFLAGS=") || strings.HasPrefix(v, "MFLAGS=") })
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("make %v: %v\n%s", args, err, out)
	}
}

// place copies a program to where make takes it for one that it has built just now.
func place(t *testing.T, from, to string) {
	t.Helper()
	text, err := os.ReadFile(from)
	check.Must(t, err)
	check.Must(t, os.MkdirAll(filepath.Dir(to), 0o755))
	check.Must(t, os.WriteFile(to, text, 0o755))
	soon := time.Now().Add(time.Hour)
	check.Must(t, os.Chtimes(to, soon, soon))
}

// mostOfAnArchive is the most bytes that are to be downloaded.
const mostOfAnArchive = 80e6

// The same commit gives the same bytes in two clones, and what a release says of itself is so. Kubernetes
// takes minutes to compile, so another program stands for it, unless $RELEASE_WHOLE is set.
func TestReleaseIsTheSame(t *testing.T) {
	here := runtime.GOOS + "-" + runtime.GOARCH
	var first map[string]string
	var out string
	for _, name := range []string{"one", "another/folder"} {
		clone := filepath.Join(t.TempDir(), name)
		if text, err := exec.CommandContext(t.Context(), "git", "clone", "--quiet", repository, clone).CombinedOutput(); err != nil {
			t.Fatalf("git clone: %v\n%s", err, text)
		}
		out = filepath.Join(clone, "dist", version)
		args := []string{"release", "VERSION=" + version, "RELEASE=" + out, "URL=https://example.org/VERSION"}
		if os.Getenv("RELEASE_WHOLE") == "" {
			place(t, filepath.Join(repository, "bin/fakebase"), filepath.Join(clone, "dist/build", strings.ReplaceAll(here, "-", "_"), "koup-controlplane"))
			args = append(args, "PLATFORMS="+here)
		}
		build(t.Context(), t, clone, args...)
		made := digests(t, out)
		if first == nil {
			first = made
		} else if diff := cmp.Diff(first, made); diff != "" {
			t.Fatalf("two folders gave two releases (-one +other):\n%s", diff)
		}
	}
	archive := "koupsandbox_" + version + "_" + strings.ReplaceAll(here, "-", "_") + ".tar.gz"
	if first[archive] == "" {
		t.Fatalf("there is no %s among %v", archive, first)
	}
	t.Run("checksums", func(t *testing.T) {
		var lines strings.Builder
		for _, name := range slices.Sorted(func(yield func(string) bool) {
			for name := range first {
				if name != "checksums.txt" && !yield(name) {
					return
				}
			}
		}) {
			fmt.Fprintf(&lines, "%s  %s\n", first[name], name)
		}
		if diff := cmp.Diff(lines.String(), read(t, out, "checksums.txt")); diff != "" {
			t.Errorf("(-files +said):\n%s", diff)
		}
	})
	t.Run("provenance", func(t *testing.T) {
		var statement struct {
			Subject []struct {
				Name   string
				Digest map[string]string
			}
		}
		check.Must(t, json.Unmarshal([]byte(read(t, out, "provenance.intoto.json")), &statement))
		archives := 0
		for _, s := range statement.Subject {
			if diff := cmp.Diff(map[string]string{"sha256": first[s.Name]}, s.Digest); diff != "" {
				t.Errorf("%s (-file +said):\n%s", s.Name, diff)
			}
		}
		for name := range first {
			if !strings.HasSuffix(name, ".tar.gz") {
				continue
			}
			archives++
			file, err := os.Stat(filepath.Join(out, name))
			check.Must(t, err)
			if t.Logf("%s: %.1f MB", name, float64(file.Size())/1e6); file.Size() > mostOfAnArchive {
				t.Errorf("%s has %d bytes, and %d are the most", name, file.Size(), int64(mostOfAnArchive))
			}
		}
		if len(statement.Subject) != archives {
			t.Errorf("it speaks of %d archives, and there are %d", len(statement.Subject), archives)
		}
	})
	t.Run("manifests", func(t *testing.T) {
		for _, name := range []string{"koup.yaml", "koupsandbox.rb"} {
			if text := read(t, out, name); !strings.Contains(text, first[archive]) || !strings.Contains(text, "https://example.org/"+version+"/"+archive) {
				t.Errorf("%s does not point to %s, whose checksum is %s:\n%s", name, archive, first[archive], text)
			}
		}
	})
	t.Run("content", func(t *testing.T) { content(t, filepath.Join(out, archive)) })
	t.Run("bill of materials", func(t *testing.T) { materials(t, out, archive) })
	t.Run("installs", func(t *testing.T) { installs(t, out) })
}

// digests are those of all files in a folder.
func digests(t *testing.T, folder string) map[string]string {
	t.Helper()
	files, err := os.ReadDir(folder)
	check.Must(t, err)
	all := map[string]string{}
	for _, f := range files {
		all[f.Name()] = fmt.Sprintf("%x", sha256.Sum256([]byte(read(t, folder, f.Name()))))
	}
	return all
}

func read(t *testing.T, folder, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(folder, name))
	check.Must(t, err)
	return string(text)
}

// materials compares the bill with what is in the archive.
func materials(t *testing.T, out, archive string) {
	var bom cyclonedx.BOM
	check.Must(t, cyclonedx.NewBOMDecoder(strings.NewReader(read(t, out, strings.TrimSuffix(archive, ".tar.gz")+".cdx.json")), cyclonedx.BOMFileFormatJSON).Decode(&bom))
	said, texts := map[string]string{}, 0
	var licenses string
	for name, text := range unpacked(t, filepath.Join(out, archive)) {
		if name == "THIRD-PARTY-LICENSES" {
			licenses = text
		}
		if slices.Contains([]string{"koupsandbox", "koup-controlplane", "module-controller", "fakebase"}, name) {
			said[name] = fmt.Sprintf("%x", sha256.Sum256([]byte(text)))
		}
	}
	programs := map[string]string{}
	for _, c := range *bom.Components {
		if c.Type == cyclonedx.ComponentTypeApplication {
			programs[c.Name] = (*c.Hashes)[0].Value
			continue
		}
		texts++
		if !strings.Contains(licenses, "\n"+c.Name+"@"+c.Version+"\n"+(*c.Licenses)[0].Expression+"\n") {
			t.Errorf("the license of %s is not in the archive", c.PackageURL)
		}
	}
	if diff := cmp.Diff(said, programs); diff != "" {
		t.Errorf("programs (-archive +bill):\n%s", diff)
	}
	if texts < 100 {
		t.Errorf("it lists only %d modules", texts)
	}
}

// content holds what is in an archive to what it promises, and each page of the manual to the flags of its program.
func content(t *testing.T, archive string) {
	files := unpacked(t, archive)
	want := append([]string{"CHANGELOG.md", "LICENSE", "THIRD-PARTY-LICENSES", "fakebase", "koup-controlplane", "module-controller"}, linked...)
	if diff := cmp.Diff(slices.Sorted(slices.Values(want)), slices.Sorted(maps.Keys(files))); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for program, flag := range map[string]string{"module-controller": `--mqtt-broker HOST`, "fakebase": `--mqtt URL`} {
		said := "\n.TP\n.B " + strings.ReplaceAll(flag, "-", `\-`) + "\n"
		if page := files["man/man1/"+program+".1"]; !strings.Contains(page, said) {
			t.Errorf("the page of %s does not say %q:\n%s", program, said, page)
		}
	}
}

// unpacked are the files of an archive, without the folder that all are in.
func unpacked(t *testing.T, path string) map[string]string {
	t.Helper()
	zip, err := gzip.NewReader(strings.NewReader(read(t, filepath.Dir(path), filepath.Base(path))))
	check.Must(t, err)
	files, top := map[string]string{}, strings.TrimSuffix(filepath.Base(path), ".tar.gz")+"/"
	for path, text := range untar(t, zip) {
		name, inside := strings.CutPrefix(path, top)
		if !inside {
			t.Errorf("%s is not in the folder %s", path, top)
		}
		files[name] = text
	}
	return files
}

// installs lets the release's own install.sh install it.
func installs(t *testing.T, out string) {
	server := httptest.NewServer(http.FileServer(http.Dir(filepath.Dir(out))))
	t.Cleanup(server.Close)
	dir := t.TempDir()
	install := exec.CommandContext(t.Context(), "sh", filepath.Join(out, "install.sh"), "--mirror", server.URL, "--dir", dir)
	install.Env = append(os.Environ(), "KOUPSANDBOX_ALLOW_HTTP=1", "KOUPSANDBOX_SKIP_ATTESTATION=1")
	if text, err := install.CombinedOutput(); err != nil {
		t.Fatalf("install.sh: %v\n%s", err, text)
	}
	commit, err := exec.CommandContext(t.Context(), "git", "-C", repository, "rev-parse", "HEAD").Output()
	check.Must(t, err)
	var problems bytes.Buffer
	cmd := exec.CommandContext(t.Context(), filepath.Join(dir, "bin/koupsandbox"), "version", "-o", "json")
	cmd.Env, cmd.Stderr = []string{"HOME=/"}, &problems
	text, err := cmd.Output()
	if err != nil {
		t.Fatalf("koupsandbox version: %v\n%s", err, problems.String())
	}
	var got map[string]string
	check.Must(t, json.Unmarshal(text, &got))
	for _, name := range []string{"kubernetes", "etcd"} { // another program may stand for the one that tells them
		delete(got, name)
	}
	want := map[string]string{"koupsandbox": version, "moduleController": version, "fakebase": version, "commit": strings.TrimSpace(string(commit))}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("koupsandbox version (-want +got):\n%s", diff)
	}
}
