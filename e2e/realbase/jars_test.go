package realbase

import (
	"archive/zip"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// A variant has the manifest that is asked for, and else the files of the jar.
func TestVariant(t *testing.T) {
	folder := t.TempDir()
	from, to := filepath.Join(folder, "a.jar"), filepath.Join(folder, "b.jar")
	long := strings.Repeat("long,", 40)
	write(t, from, map[string]string{
		manifestFile: string(formatManifest(recording.Manifest{"Ark-Biz-Name": "a", "Main-Class": "A", "declared-libraries": long})),
		"A.class":    "code",
	})
	manifest, err := Variant(from, to, recording.Manifest{"Ark-Biz-Name": "b", "Main-Class": ""})
	if err != nil {
		t.Fatal(err)
	}
	want := recording.Manifest{"Manifest-Version": "1.0", "Ark-Biz-Name": "b", "declared-libraries": long}
	if d := cmp.Diff(want, manifest); d != "" {
		t.Errorf("manifest (-want +got):\n%s", d)
	}
	files := list(t, to)
	if d := cmp.Diff(want, parseManifest([]byte(files[manifestFile]))); d != "" {
		t.Errorf("manifest in the jar (-want +got):\n%s", d)
	}
	for line := range strings.Lines(files[manifestFile]) {
		if len(line) > 72 {
			t.Errorf("a line of %d bytes, which no manifest may have: %q", len(line), line)
		}
	}
	if files["A.class"] != "code" || len(files) != 2 {
		t.Errorf("files: %v", files)
	}
}

func TestVariantOfNothing(t *testing.T) {
	if _, err := Variant(filepath.Join(t.TempDir(), "none.jar"), "", nil); err == nil || !strings.Contains(err.Error(), "none.jar") {
		t.Errorf("the error does not name the jar: %v", err)
	}
}

func write(t *testing.T, jar string, files map[string]string) {
	t.Helper()
	f, err := os.Create(jar)
	must(t, err)
	z := zip.NewWriter(f)
	for name, content := range files {
		w, err := z.Create(name)
		must(t, err)
		_, err = io.WriteString(w, content)
		must(t, err)
	}
	must(t, z.Close())
	must(t, f.Close())
}

func list(t *testing.T, jar string) map[string]string {
	t.Helper()
	z, err := zip.OpenReader(jar)
	must(t, err)
	defer func() { must(t, z.Close()) }()
	files := map[string]string{}
	for _, f := range z.File {
		content, err := read(f)
		must(t, err)
		files[f.Name] = string(content)
	}
	return files
}
