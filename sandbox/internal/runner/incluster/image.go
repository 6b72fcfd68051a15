package incluster

import (
	"fmt"

	"github.com/koupleless/koupsandbox/sandbox/internal/image"
)

// ImageName is the name of the controller image. The sandbox loads the image onto the nodes, which never pull it.
const ImageName = "localhost/koupsandbox/module-controller:sandbox"

// BuildImage returns an image that contains the controller binary, which must be a static Linux binary. It writes the
// only layer of the image to dir.
func BuildImage(binary, dir string) (*image.Image, error) {
	if err := CheckBinary(binary); err != nil {
		return nil, fmt.Errorf("%w, or run the controller on this machine with --controller host", err)
	}
	return image.FromBinary(ImageName, binary, dir)
}

// CheckBinary returns an error with a fix if a binary cannot run in the controller image.
func CheckBinary(binary string) error {
	if err := image.IsStatic(binary); err != nil {
		return fmt.Errorf("%s cannot run on a node: %w; build it with: make build", binary, err)
	}
	return nil
}
