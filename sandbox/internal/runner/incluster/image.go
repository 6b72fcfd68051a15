package incluster

import (
	"fmt"

	"github.com/koupleless/koupsandbox/sandbox/internal/image"
)

// ImageName is the name of the image on the nodes. The image is loaded onto the nodes, which never pull it.
const ImageName = "localhost/koupsandbox/module-controller:sandbox"

// BuildImage describes the image of the controller binary, which must be a static binary for Linux. Its only layer is
// written to dir.
func BuildImage(program, dir string) (*image.Image, error) {
	if err := CheckProgram(program); err != nil {
		return nil, fmt.Errorf("%w, or run the controller on this machine with --controller host", err)
	}
	return image.OfProgram(ImageName, program, dir)
}

// CheckProgram returns an error with advice if a binary cannot run in the image.
func CheckProgram(program string) error {
	if err := image.IsStatic(program); err != nil {
		return fmt.Errorf("%s cannot run on a node: %w; build it with: make build", program, err)
	}
	return nil
}
