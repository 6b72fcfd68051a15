package incluster

import (
	"fmt"

	"github.com/koupleless/koupsandbox/sandbox/internal/image"
)

// ImageName is how the nodes know the image. They never pull it: it is given to them.
const ImageName = "localhost/koupsandbox/module-controller:sandbox"

// BuildImage makes the image of the controller's program, which must be one for Linux without
// libraries; its one layer lies in dir.
func BuildImage(program, dir string) (*image.Image, error) {
	if err := CheckProgram(program); err != nil {
		return nil, fmt.Errorf("%w, or keep the controller on this machine: --controller host", err)
	}
	return image.FromBinary(ImageName, program, dir)
}

// CheckProgram says why a program cannot be the image's, and what to do.
func CheckProgram(program string) error {
	if err := image.IsStatic(program); err != nil {
		return fmt.Errorf("%s cannot run in a node: %w; build it with: make build", program, err)
	}
	return nil
}
