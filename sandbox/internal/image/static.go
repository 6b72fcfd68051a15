package image

import (
	"debug/elf"
	"errors"
	"os"
	"path/filepath"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// OfProgram returns an image, without a name yet, of nothing but a program for which IsStatic has no complaint. It runs as name, with
// args, and as nobody; the one layer lies in dir.
func OfProgram(program, name, dir string, args ...string) (Image, error) {
	layer, err := WriteLayer(filepath.Join(dir, name+".layer.tar"), false, func(f *Files) error { return f.Copy(name, 0o755, program) })
	if err != nil {
		return Image{}, err
	}
	return Image{Layers: []*Layer{layer}, Config: ocispec.ImageConfig{Entrypoint: append([]string{"/" + name}, args...), User: "65532:65532"}}, nil
}

// IsStatic says why a file is no program that runs on Linux by itself, in an image without anything else; nil = it is
// one.
func IsStatic(path string) error {
	f, err := elf.Open(path)
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
