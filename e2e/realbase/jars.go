package realbase

import (
	"archive/zip"
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/koupleless/koupsandbox/fakebase/recording"
)

// Files that Maven built.
const (
	BaseJar  = "base.jar"
	ShopJar1 = "shop-1.0.0-ark-biz.jar"
	ShopJar2 = "shop-2.0.0-ark-biz.jar"
)

// Missing says in one sentence what has not been built, or nothing.
func Missing(folder string) error {
	for _, name := range []string{BaseJar, ShopJar1, ShopJar2} {
		if _, err := os.Stat(filepath.Join(folder, name)); err != nil {
			return fmt.Errorf("%s is not in %s: build the real base first with: make realbase", name, folder)
		}
	}
	return nil
}

const manifestFile = "META-INF/MANIFEST.MF"

// Variant copies a module jar with other attributes in its manifest; an empty value
// takes one away. It returns the new manifest.
func Variant(from, to string, changes recording.Manifest) (recording.Manifest, error) {
	in, err := zip.OpenReader(from)
	if err != nil {
		return nil, fmt.Errorf("making a variant of %s: %w", from, err)
	}
	defer func() { _ = in.Close() }() // it was only read
	var buf bytes.Buffer
	out := zip.NewWriter(&buf)
	var manifest recording.Manifest
	for _, file := range in.File {
		content, err := read(file)
		if err == nil && file.Name == manifestFile {
			manifest = parseManifest(content)
			for key, value := range changes {
				if manifest[key] = value; value == "" {
					delete(manifest, key)
				}
			}
			content = formatManifest(manifest)
		}
		var w io.Writer
		if err == nil {
			w, err = out.Create(file.Name)
		}
		if err == nil {
			_, err = w.Write(content)
		}
		if err != nil {
			return nil, fmt.Errorf("making a variant of %s: copying %s: %w", from, file.Name, err)
		}
	}
	if err := out.Close(); err != nil {
		return nil, fmt.Errorf("making a variant of %s: %w", from, err)
	}
	return manifest, os.WriteFile(to, buf.Bytes(), 0o600)
}

func read(file *zip.File) ([]byte, error) {
	r, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer func() { _ = r.Close() }() // it was only read
	return io.ReadAll(r)
}

// parseManifest reads main attributes; a line that begins with a space goes on with the one before.
func parseManifest(text []byte) recording.Manifest {
	joined := strings.ReplaceAll(strings.ReplaceAll(string(text), "\r\n", "\n"), "\n ", "")
	m := recording.Manifest{}
	for line := range strings.Lines(joined) {
		if key, value, ok := strings.Cut(strings.TrimSuffix(line, "\n"), ": "); ok {
			m[key] = value
		}
	}
	return m
}

// formatManifest writes main attributes, with lines of at most 70 bytes.
func formatManifest(m recording.Manifest) []byte {
	var keys []string
	for key := range m {
		if key != "Manifest-Version" {
			keys = append(keys, key)
		}
	}
	slices.Sort(keys)
	var buf bytes.Buffer
	buf.WriteString("Manifest-Version: 1.0\r\n")
	for _, key := range keys {
		line := key + ": " + m[key]
		for ; len(line) > 70; line = " " + line[70:] {
			buf.WriteString(line[:70] + "\r\n")
		}
		buf.WriteString(line + "\r\n")
	}
	return buf.Bytes()
}
