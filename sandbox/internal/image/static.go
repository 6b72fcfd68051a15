package image

import (
	"debug/elf"
	"errors"
	"os"
)

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
