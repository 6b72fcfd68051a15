package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

func TestLayerHoldsItsFiles(t *testing.T) {
	source := filepath.Join(t.TempDir(), "program")
	check.Must(t, os.WriteFile(source, []byte("binary"), 0o600))
	fill := func(f *Files) error {
		return errors.Join(
			f.Copy("/usr/bin/program", 0o755, source),
			f.AddLink("usr/bin/other", "program"),
			f.Add("usr/share/text", 0o644, []byte("text")),
		)
	}
	want := []string{
		"usr/ 755", "usr/bin/ 755", "usr/bin/program 755 binary", "usr/bin/other 777 -> program", "usr/share/ 755",
		"usr/share/text 644 text",
	}
	for _, compressed := range []bool{false, true} {
		path := filepath.Join(t.TempDir(), "layer")
		l, err := WriteLayer(path, compressed, fill)
		check.Must(t, err)
		stored, err := os.ReadFile(path)
		check.Must(t, err)
		if l.Size != int64(len(stored)) || l.Digest != digest.FromBytes(stored) {
			t.Errorf("layer of %d bytes, digest %s; its file has %d, %s", l.Size, l.Digest, len(stored),
				digest.FromBytes(stored))
		}
		text := stored
		if compressed {
			text, err = unpacked(stored)
			if err != nil {
				t.Fatal(err)
			}
		}
		if l.diffID != digest.FromBytes(text) {
			t.Errorf("compressed %t: the digest of the tar is %s, want %s", compressed, l.diffID,
				digest.FromBytes(text))
		}
		if diff := cmp.Diff(want, list(t, text)); diff != "" {
			t.Errorf("compressed %t (-want +got):\n%s", compressed, diff)
		}
	}
}

func TestTarLeavesOutWhatIsNotKept(t *testing.T) {
	path := filepath.Join(t.TempDir(), "source")
	if _, err := WriteLayer(path, false, func(f *Files) error {
		return errors.Join(f.Add("var/log/x", 0o600, []byte("x")), f.Add("etc/y", 0o600, []byte("y")))
	}); err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(path)
	check.Must(t, err)
	target := filepath.Join(t.TempDir(), "target")
	if _, err := WriteLayer(target, false, func(f *Files) error {
		return errors.Join(
			f.AddTar(bytes.NewReader(text), func(name string) bool { return !strings.HasPrefix(name, "var") }),
			f.Add("etc/z", 0o600, nil))
	}); err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(target)
	check.Must(t, err)
	if diff := cmp.Diff([]string{"etc/ 755", "etc/y 600 y", "etc/z 600 "}, list(t, got)); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

func TestNothingIsLeftOfALayerThatFails(t *testing.T) {
	dir := t.TempDir()
	broken := errors.New("broken")
	if l, err := WriteLayer(filepath.Join(dir, "layer"), true, func(*Files) error { return broken }); l != nil ||
		!errors.Is(err, broken) {
		t.Errorf("layer %v, error %v", l, err)
	}
	left, err := os.ReadDir(dir)
	if err != nil || len(left) != 0 {
		t.Errorf("%d files are left (%v)", len(left), err)
	}
}

// TestArchiveDescribesItsImages checks that an archive describes the same images in its index, which containerd
// reads, and in manifest.json, which docker reads.
func TestArchiveDescribesItsImages(t *testing.T) {
	dir := t.TempDir()
	layer := func(name string) *Layer {
		l, err := WriteLayer(filepath.Join(dir, name), false,
			func(f *Files) error { return f.Add(name, 0o644, []byte(name)) })
		check.Must(t, err)
		return l
	}
	shared, own := layer("shared"), layer("own")
	a, errA := New("example.com/a:1", ocispec.ImageConfig{Entrypoint: []string{"/a"}}, shared)
	b, errB := New("example.com/b:1", ocispec.ImageConfig{}, shared, own)
	check.Must(t, errors.Join(errA, errB))
	images := []*Image{a, b}
	var archive bytes.Buffer
	check.Must(t, Write(&archive, images...))
	files := map[string][]byte{}
	for in := tar.NewReader(&archive); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		check.Must(t, err)
		if _, twice := files[h.Name]; twice {
			t.Errorf("%s is in the archive twice", h.Name)
		}
		files[h.Name], err = io.ReadAll(in)
		if err != nil {
			t.Fatal(err)
		}
	}
	var index ocispec.Index
	var docker []dockerEntry
	decode(t, files["index.json"], &index)
	decode(t, files["manifest.json"], &docker)
	type seen struct {
		Name, Config string
		Layers       []string
	}
	var byIndex, byDocker []seen
	want := []seen{
		{"example.com/a:1", "/a", []string{shared.Digest.String()}},
		{"example.com/b:1", "", []string{shared.Digest.String(), own.Digest.String()}},
	}
	config := func(text []byte) (ocispec.Image, string) {
		var c ocispec.Image
		decode(t, text, &c)
		return c, strings.Join(c.Config.Entrypoint, " ")
	}
	for _, m := range index.Manifests {
		var manifest ocispec.Manifest
		decode(t, files[blob{Descriptor: m}.name()], &manifest)
		c, entrypoint := config(files[blob{Descriptor: manifest.Config}.name()])
		s := seen{Name: m.Annotations["io.containerd.image.name"], Config: entrypoint}
		for i, l := range manifest.Layers {
			text := files[blob{Descriptor: l}.name()]
			if digest.FromBytes(text) != l.Digest || int64(len(text)) != l.Size || c.RootFS.DiffIDs[i] != l.Digest {
				t.Errorf("%s: layer %d is not what the manifest says", s.Name, i)
			}
			s.Layers = append(s.Layers, l.Digest.String())
		}
		byIndex = append(byIndex, s)
	}
	for i, e := range docker {
		_, entrypoint := config(files[e.Config])
		if got := "sha256:" + filepath.Base(e.Config); got != images[i].ID() {
			t.Errorf("%v: the id is %s, want %s", e.RepoTags, got, images[i].ID())
		}
		s := seen{Name: strings.Join(e.RepoTags, " "), Config: entrypoint}
		for _, l := range e.Layers {
			s.Layers = append(s.Layers, digest.FromBytes(files[l]).String())
		}
		byDocker = append(byDocker, s)
	}
	if diff := cmp.Diff(want, byIndex); diff != "" {
		t.Errorf("by the index (-want +got):\n%s", diff)
	}
	if diff := cmp.Diff(want, byDocker); diff != "" {
		t.Errorf("by manifest.json (-want +got):\n%s", diff)
	}
}

// TestEqualFilesResultInEqualArchives checks that archives of equal files are byte-identical.
func TestEqualFilesResultInEqualArchives(t *testing.T) {
	write := func() string {
		var layers []*Layer
		for _, name := range []string{"etc/a", "etc/b"} {
			l, err := WriteLayer(filepath.Join(t.TempDir(), "layer"), true,
				func(f *Files) error { return f.Add(name, 0o644, []byte(name)) })
			check.Must(t, err)
			layers = append(layers, l)
		}
		a, errA := New("a:1", ocispec.ImageConfig{Entrypoint: []string{"/a"}}, layers...)
		b, errB := New("b:1", ocispec.ImageConfig{Entrypoint: []string{"/b"}}, layers[1])
		var archive bytes.Buffer
		check.Must(t, errors.Join(errA, errB, Write(&archive, a, b)))
		return digest.FromBytes(archive.Bytes()).String()
	}
	if first, second := write(), write(); first != second {
		t.Errorf("digests %s and %s", first, second)
	}
}

func TestFromBinaryTagsByContent(t *testing.T) {
	program := filepath.Join(t.TempDir(), "program")
	check.Must(t, os.WriteFile(program, []byte("binary"), 0o600))
	dir := t.TempDir()
	for name, want := range map[string]string{
		"localhost/box/base":         "^localhost/box/base:[0-9a-f]{12}$",
		"localhost:5000/box/base:v1": "^localhost:5000/box/base:v1$",
	} {
		i, err := FromBinary(name, program, dir, "--stdio")
		check.Must(t, err)
		if !regexp.MustCompile(want).MatchString(i.Name) {
			t.Errorf("of name %s: %s, want %s", name, i.Name, want)
		}
		text, err := os.ReadFile(filepath.Join(dir, "base.layer.tar"))
		check.Must(t, err)
		if diff := cmp.Diff([]string{"base 755 binary"}, list(t, text)); diff != "" {
			t.Errorf("files (-want +got):\n%s", diff)
		}
		var config ocispec.Image
		decode(t, i.config.text, &config)
		if diff := cmp.Diff([]string{"/base", "--stdio"}, config.Config.Entrypoint); diff != "" {
			t.Errorf("entrypoint (-want +got):\n%s", diff)
		}
	}
}

func TestALayerThatHasChangedIsNoticed(t *testing.T) {
	path := filepath.Join(t.TempDir(), "layer")
	check.Must(t, os.WriteFile(path, []byte("before"), 0o600))
	l, err := OpenLayer(path)
	check.Must(t, err)
	b, err := New("a", ocispec.ImageConfig{}, l)
	check.Must(t, err)
	check.Must(t, os.WriteFile(path, []byte("after that"), 0o600))
	if err := Write(io.Discard, b); err == nil ||
		!strings.Contains(err.Error(), "changed while the image was being written") {
		t.Errorf("error %v", err)
	}
}

func decode(t *testing.T, text []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(text, into); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func unpacked(text []byte) ([]byte, error) {
	r, err := zstd.NewReader(nil)
	if err != nil {
		return nil, err
	}
	defer r.Close()
	return r.DecodeAll(text, nil)
}

// list returns a description of each entry in a tar file.
func list(t *testing.T, text []byte) []string {
	t.Helper()
	var lines []string
	for in := tar.NewReader(bytes.NewReader(text)); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return lines
		}
		check.Must(t, err)
		content, err := io.ReadAll(in)
		check.Must(t, err)
		line := fmt.Sprintf("%s %o", h.Name, h.Mode)
		switch h.Typeflag {
		case tar.TypeReg:
			line += " " + string(content)
		case tar.TypeSymlink:
			line += " -> " + h.Linkname
		}
		lines = append(lines, line)
	}
}
