package container

import (
	"context"
	"fmt"
	"io"

	"github.com/koupleless/koupsandbox/sandbox/internal/image"
)

// imageName is how the engine knows the image; a tag is added that tells what is in it.
const imageName = "localhost/koupsandbox/fakebase"

// ready gives the engine the image of the fakebase program, unless it has it, and returns its name.
func (e *Engine) ready(ctx context.Context) (string, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.image != "" {
		return e.image, nil
	}
	if err := image.IsStatic(e.o.Program); err != nil {
		return "", fmt.Errorf("%s cannot run in a container: %w; build it with: make build, or use --base-runtime process", e.o.Program, err)
	}
	i, err := image.OfProgram(imageName, e.o.Program, e.o.Dir, "--stdio")
	if err != nil {
		return "", err
	}
	if _, err := e.o.Engine.Run(ctx, "image", "inspect", "--format", "{{.Id}}", i.Name); err != nil {
		if err := e.o.Engine.Load(ctx, func(w io.Writer) error { return image.Write(w, i) }); err != nil {
			return "", fmt.Errorf("giving the engine the image of bases: %w", err)
		}
	}
	e.image = i.Name
	return i.Name, nil
}
