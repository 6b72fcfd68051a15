package image

import (
	"archive/tar"
	"bytes"
	_ "crypto/sha256" // the digests of go-digest need it
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// Layer is an image layer that is stored in a file. Digest and Size describe the stored file.
type Layer struct {
	blob
	diffID digest.Digest // digest of the uncompressed tar
}

// OpenLayer returns a layer that consists of an existing, uncompressed tar file. It reads the file to compute the
// digest.
func OpenLayer(path string) (*Layer, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, fmt.Errorf("opening the layer: %w", err)
	}
	defer func() { _ = f.Close() }() // only read
	d := digest.Canonical.Digester()
	size, err := io.Copy(d.Hash(), f)
	if err != nil {
		return nil, fmt.Errorf("reading layer %s: %w", path, err)
	}
	return &Layer{diffID: d.Digest(), blob: blob{path: path, Descriptor: ocispec.Descriptor{
		MediaType: ocispec.MediaTypeImageLayer, Digest: d.Digest(), Size: size,
	}}}, nil
}

// WriteLayer writes a layer with the files that fill adds. The file appears at path only when it is complete. Set
// compressed (zstandard) only for layers that are read by containerd alone, because some versions of docker cannot
// load them.
func WriteLayer(path string, compressed bool, fill func(*Files) error) (layer *Layer, err error) {
	f, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return nil, fmt.Errorf("creating the layer: %w", err)
	}
	defer func() {
		err = errors.Join(err, f.Close())
		if err == nil {
			err = os.Rename(f.Name(), path)
		}
		if err != nil {
			layer, err = nil, fmt.Errorf("writing layer %s: %w", path, err)
			_ = os.Remove(f.Name()) // an incomplete layer
		}
	}()
	stored, inside := digest.Canonical.Digester(), digest.Canonical.Digester()
	mediaType, out, finish := ocispec.MediaTypeImageLayer, io.MultiWriter(f, stored.Hash()), func() error { return nil }
	if compressed {
		z, err := zstd.NewWriter(out)
		if err != nil {
			return nil, err
		}
		mediaType, out, finish = ocispec.MediaTypeImageLayerZstd, z, z.Close
	}
	files := newFiles(io.MultiWriter(out, inside.Hash()))
	if err := errors.Join(fill(files), files.w.Close(), finish()); err != nil {
		return nil, err
	}
	size, err := f.Seek(0, io.SeekCurrent)
	return &Layer{diffID: inside.Digest(), blob: blob{path: path, Descriptor: ocispec.Descriptor{
		MediaType: mediaType, Digest: stored.Digest(), Size: size,
	}}}, err
}

// Files writes the files of a layer. All files belong to root and have no modification time, so that equal files
// result in equal layers. Files creates missing parent directories.
type Files struct {
	w    *tar.Writer
	made map[string]bool
}

func newFiles(w io.Writer) *Files { return &Files{w: tar.NewWriter(w), made: map[string]bool{}} }

// Add adds a file with the given content to the layer.
func (f *Files) Add(name string, mode int64, text []byte) error {
	return f.add(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: int64(len(text))},
		bytes.NewReader(text))
}

// Copy adds a file with the given name to the layer, with the content of a local file. from is the path of the local
// file.
func (f *Files) Copy(name string, mode int64, from string) error {
	_, err := f.copy(name, mode, from)
	return err
}

func (f *Files) copy(name string, mode int64, from string) (size int64, err error) {
	source, err := os.Open(from)
	if err != nil {
		return 0, err
	}
	defer func() { _ = source.Close() }() // only read
	info, err := source.Stat()
	if err != nil {
		return 0, err
	}
	return info.Size(), f.add(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: mode, Size: info.Size()}, source)
}

// AddDir adds an empty directory to the layer.
func (f *Files) AddDir(name string, mode int64) error {
	return f.add(&tar.Header{Typeflag: tar.TypeDir, Name: name, Mode: mode}, nil)
}

// AddLink adds a symbolic link to the layer.
func (f *Files) AddLink(name, target string) error {
	return f.add(&tar.Header{Typeflag: tar.TypeSymlink, Name: name, Linkname: target, Mode: 0o777}, nil)
}

// AddTar adds the entries of a tar archive for which keep returns true. Names are passed to keep without a leading
// "./".
func (f *Files) AddTar(r io.Reader, keep func(name string) bool) error {
	for in := tar.NewReader(r); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		name := clean(h.Name)
		if name == "." || !keep(name) || h.Typeflag == tar.TypeDir && f.made[name] {
			continue
		}
		if h.Typeflag == tar.TypeLink {
			h.Linkname = clean(h.Linkname)
		}
		if err := f.add(h, in); err != nil {
			return err
		}
	}
}

// add adds an entry to the layer. It first adds the missing parent directories.
func (f *Files) add(h *tar.Header, content io.Reader) error {
	h.Name = clean(h.Name)
	for i, c := range h.Name {
		if folder := h.Name[:i]; c == '/' && !f.made[folder] {
			if err := f.write(&tar.Header{Typeflag: tar.TypeDir, Name: folder, Mode: 0o755}, nil); err != nil {
				return err
			}
		}
	}
	return f.write(h, content)
}

func (f *Files) write(h *tar.Header, content io.Reader) error {
	if h.Typeflag == tar.TypeDir {
		f.made[h.Name] = true
		h.Name += "/"
	}
	h.ModTime = time.Unix(0, 0)
	err := f.w.WriteHeader(h)
	if err == nil && content != nil {
		_, err = io.Copy(f.w, content)
	}
	return err
}

// clean converts a path to a path relative to the root of the layer.
func clean(name string) string { return path.Clean("./" + name) }
