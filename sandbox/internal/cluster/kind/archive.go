package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
)

// Save writes the node image that a cluster would be made of by default to a file, for a machine that reaches no registry, and
// returns its name. The engine must have it. The file appears when it is whole; one that is there is replaced.
func Save(ctx context.Context, path string) (image string, err error) {
	image, err = AtHand(ctx)
	if err != nil {
		return "", fmt.Errorf("there is nothing to save: %w", err)
	}
	engine, err := FindEngine(ctx)
	if err != nil {
		return "", err
	}
	partial := path + ".partial"
	_, err = engine.run(ctx, "save", "--output", partial, image)
	if err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		_ = os.Remove(partial) // it may not be there
		return "", fmt.Errorf("saving the node image: %w", err)
	}
	return image, nil
}

// LoadFile gives the engine the images in a file of Save, and returns their names.
func LoadFile(ctx context.Context, path string) (images []string, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no file %s: make it where a registry can be reached, with: koupsandbox images save FILE", path)
	}
	engine, err := FindEngine(ctx)
	if err != nil {
		return nil, err
	}
	text, err := engine.run(ctx, "load", "--input", path)
	if err != nil {
		return nil, fmt.Errorf("loading images: %w", err)
	}
	for line := range strings.Lines(text) {
		if _, image, found := strings.Cut(strings.TrimSpace(line), "oaded image: "); found { // docker and podman differ in the rest
			images = append(images, image)
		}
	}
	return images, nil
}
