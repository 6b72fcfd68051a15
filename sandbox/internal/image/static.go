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
	// NonRoot is the user and group of container processes, the same as in distroless images.
	NonRoot = "65532:65532"
	// tagLength is the number of characters of the layer digest that FromBinary uses as a tag.
	tagLength = 12
)

// FromBinary returns an image that contains only the static binary program. Containers run it with args, as the user
// NonRoot. The file name of the binary in the image is the last part of the image name. FromBinary writes the layer
// to the directory dir. If name has no tag, the image gets a tag that depends on the content.
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

// IsStatic returns an error unless a file is a static Linux binary. Other binaries do not run in an image that
// contains no other files.
func IsStatic(program string) error {
	f, err := elf.Open(program)
	var format *elf.FormatError
	switch {
	case errors.Is(err, os.ErrNotExist), errors.Is(err, os.ErrPermission):
		return err
	case errors.As(err, &format), err != nil:
		return errors.New("it is not a Linux binary")
	}
	defer func() { _ = f.Close() }() // only read
	for _, p := range f.Progs {
		if p.Type == elf.PT_INTERP {
			return errors.New("it requires shared libraries")
		}
	}
	return nil
}
