package containers

import (
	"archive/tar"
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/testcontainers/testcontainers-go"

	"github.com/koupleless/koupsandbox/e2e/internal/mosquitto"
)

const (
	// brokerProgram and brokerFolder are where the broker's image has program and settings.
	brokerProgram = "/usr/sbin/mosquitto"
	brokerFolder  = "/mosquitto/config"
)

// baseImage builds an image with the static program fakebase alone.
func baseImage(ctx context.Context) (string, error) {
	const program = "fakebase"
	files := map[string]string{"/" + program: filepath.Join(programs, program)}
	return build(ctx, files, "USER 65534:65534\nENTRYPOINT [\"/"+program+"\"]\n")
}

// mosquittoImage builds the image of the broker, of this machine's program and its libraries.
func mosquittoImage(ctx context.Context) (string, error) {
	parts, err := mosquitto.Parts(ctx)
	if err != nil {
		return "", err
	}
	files := map[string]string{brokerProgram: parts[0]}
	for _, library := range parts[1:] {
		files[library] = library
	}
	return build(ctx, files, "WORKDIR "+brokerFolder+"\n")
}

// build builds an image from nothing but files, by their paths in the image; more are lines of its
// Dockerfile.
func build(ctx context.Context, files map[string]string, more string) (string, error) {
	var context bytes.Buffer
	archive := tar.NewWriter(&context)
	add := func(name string, mode int64, content []byte) error {
		if err := archive.WriteHeader(&tar.Header{Name: name, Mode: mode, Size: int64(len(content))}); err != nil {
			return err
		}
		_, err := archive.Write(content)
		return err
	}
	err := add("Dockerfile", 0o644, []byte("FROM scratch\nCOPY root /\n"+more))
	for in, from := range files {
		if err != nil {
			break
		}
		var content []byte
		if content, err = os.ReadFile(from); err == nil { // of a link, what it leads to
			err = add("root"+in, 0o755, content)
		}
	}
	if err == nil {
		err = archive.Close()
	}
	if err != nil {
		return "", fmt.Errorf("packing an image: %w", err)
	}
	request := testcontainers.ContainerRequest{FromDockerfile: testcontainers.FromDockerfile{ContextArchive: bytes.NewReader(context.Bytes())}}
	image, err := engine.BuildImage(ctx, &request)
	if err != nil {
		return "", fmt.Errorf("building an image: %w", err)
	}
	all.images = append(all.images, image)
	return image, nil
}
