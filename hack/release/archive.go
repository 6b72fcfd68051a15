package main

import (
	"archive/tar"
	"cmp"
	"compress/gzip"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// budget is how large an archive may be, in bytes.
const budget = 80_000_000

// file is one of an archive: a text, or what lies at a path.
type file struct {
	name, path string
	text       []byte
	mode       int64 // 0 = 0o644
}

func (f file) read() ([]byte, error) {
	if f.path == "" {
		return f.text, nil
	}
	return os.ReadFile(f.path)
}

// writeArchive writes files into one folder of an archive, in the order of their names, and returns the
// checksum of the archive. Nothing in it tells when, where or by whom it was made.
func writeArchive(target, top string, when time.Time, files []file) (sum string, err error) {
	out, err := os.Create(target)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, out.Close()) }()
	hash := sha256.New()
	zip, err := gzip.NewWriterLevel(io.MultiWriter(out, hash), gzip.BestCompression)
	if err != nil {
		return "", err
	}
	w := tar.NewWriter(zip)
	slices.SortFunc(files, func(a, b file) int { return cmp.Compare(a.name, b.name) })
	for _, f := range files {
		text, err := f.read()
		if err == nil {
			err = w.WriteHeader(&tar.Header{
				Typeflag: tar.TypeReg, Name: path.Join(top, f.name), Size: int64(len(text)), Mode: cmp.Or(f.mode, 0o644), ModTime: when, Format: tar.FormatUSTAR,
			})
		}
		if err == nil {
			_, err = w.Write(text)
		}
		if err != nil {
			return "", fmt.Errorf("packing %s: %w", f.name, err)
		}
	}
	if err := errors.Join(w.Close(), zip.Close()); err != nil {
		return "", err
	}
	if size, err := out.Seek(0, io.SeekCurrent); err != nil || size > budget {
		return "", errors.Join(err, fmt.Errorf("%s has %d bytes, and %d are to be downloaded at most", filepath.Base(target), size, budget))
	}
	return fmt.Sprintf("%x", hash.Sum(nil)), nil
}

// checksums writes those of all files, as sha256sum does.
func (r *release) checksums() error {
	all, err := os.ReadDir(r.out)
	if err != nil {
		return err
	}
	var lines strings.Builder
	for _, f := range all {
		text, err := os.ReadFile(filepath.Join(r.out, f.Name()))
		if err != nil {
			return err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(text), f.Name())
	}
	return r.write("checksums.txt", []byte(lines.String()))
}

// write writes a file of the release.
func (r *release) write(name string, text []byte) error {
	return os.WriteFile(filepath.Join(r.out, name), text, 0o644) //nolint:gosec // it is published
}
