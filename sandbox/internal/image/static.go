package image

import (
	"debug/elf"
	"errors"
	"os"
	"path"
	"path/filepath"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

const (
	// NonRoot is the user and group of programs, as in images of distroless.
	NonRoot = "65532:65532"
	// tagLength is how much of a layer's digest makes a tag.
	tagLength = 12
)

// FromBinary returns an image of a static program, which runs with args as NonRoot and has the last part of the image
// name as its name. The layer is written to dir. A name without a tag gets a tag that depends on the content.
func FromBinary(name, program, dir string, args ...string) (*Image, error) {
	inside, _, tagged := strings.Cut(path.Base(name), ":")
	layer, err := WriteLayer(filepath.Join(dir, inside+".layer.tar"), false,
		func(f *Files) error { return f.Copy(inside, 0o755, program) })
	if err != nil {
		return nil, err
	}
	if !tagged {
		name += ":" + layer.Digest.Encoded()[:tagLength]
	}
	return New(name, ocispec.ImageConfig{Entrypoint: append([]string{"/" + inside}, args...), User: NonRoot}, layer)
}

// IsStatic says why a file is no program that runs on Linux by itself, in an image without anything
// else; nil = it is one.
func IsStatic(program string) error {
	f, err := elf.Open(program)
	var format *elf.FormatError
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return err
	case errors.As(err, &format), err != nil:
		return errors.New("it is no program for Linux")
	}
	defer func() { _ = f.Close() }() // only read
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("it needs libraries")
		}
	}
	return nil
}
