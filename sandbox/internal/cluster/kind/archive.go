package kind

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
)

// SaveImage writes the default node image to a file, for use on machines without access to a registry. It returns the
// image name. The engine (see engine.Find) must already have the image. SaveImage replaces an existing file
// atomically.
func SaveImage(ctx context.Context, name, path string) (image string, err error) {
	e, err := engine.Find(ctx, name)
	if err == nil {
		image, err = localImage(ctx, e)
	}
	if err != nil {
		return "", fmt.Errorf("no image to save: %w", err)
	}
	partial := path + ".partial"
	_, err = e.Run(ctx, "save", "--output", partial, image)
	if err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		_ = os.Remove(partial) // it may not exist
		return "", fmt.Errorf("saving the node image: %w", err)
	}
	return image, nil
}

// LoadImages loads the images from a file written by SaveImage into the engine (see engine.Find), and returns the
// image names. The file may have been written by another engine.
func LoadImages(ctx context.Context, name, path string) (images []string, err error) {
	if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf(
			"file %s does not exist; create it on a machine with access to a registry: koupsandbox images save FILE",
			path)
	}
	e, err := engine.Find(ctx, name)
	if err != nil {
		return nil, err
	}
	text, err := e.Run(ctx, "load", "--input", path)
	if err != nil {
		return nil, fmt.Errorf("loading images: %w", err)
	}
	for line := range strings.Lines(text) {
		// prefix differs between docker and podman
		_, image, found := strings.Cut(strings.TrimSpace(line), "oaded image: ")
		if !found {
			continue
		}
		// docker would treat the prefix as a registry
		if plain := strings.TrimPrefix(image, podmanHost); plain != image && e.Command == engine.Docker {
			if _, err := e.Run(ctx, "tag", image, plain); err != nil {
				return nil, fmt.Errorf("tagging image %s: %w", plain, err)
			}
		}
		images = append(images, shortName(image))
	}
	return images, nil
}
