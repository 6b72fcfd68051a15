package kind

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/kind/pkg/apis/config/defaults"

	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
)

// BuiltImage is the name, without a tag, of the node image that `make node-image` builds. Its tag is the Kubernetes
// version.
const BuiltImage = "koupsandbox/node"

// chooseImage selects the node image: the first candidate that the engine has. If the engine has none of them,
// chooseImage pulls the first candidate.
func (p *Provider) chooseImage(ctx context.Context) error {
	candidates := p.imageCandidates(ctx)
	image, err := firstPresent(ctx, p.engine, candidates)
	if err != nil {
		return err
	}
	if image != "" {
		p.image = image
		if shortName(image) != shortName(candidates[0]) {
			p.o.Notify(fmt.Sprintf("using the local node image %s, because %s is not available locally", image,
				shortName(candidates[0])))
		}
		return nil
	}
	p.o.Notify(fmt.Sprintf("pulling the node image %s", shortName(candidates[0])))
	if _, err := p.engine.Run(ctx, "pull", "--quiet", candidates[0]); err != nil {
		return fmt.Errorf("pulling the node image: %w\nselect a local image with --image, or build one "+
			"without a registry: make node-image", err)
	}
	p.image = candidates[0]
	return nil
}

// LocalImage returns the name of the default node image if the engine already has it. name is the name of the engine;
// see engine.Find. LocalImage returns an error if no engine responds, or if the engine does not meet the requirements
// or does not have the image.
func LocalImage(ctx context.Context, name string) (image string, err error) {
	e, err := engine.Find(ctx, name)
	if err != nil {
		return "", err
	}
	return localImage(ctx, e)
}

func localImage(ctx context.Context, e *engine.Engine) (image string, err error) {
	if err := checkEngine(ctx, e); err != nil {
		return "", err
	}
	candidates := (&Provider{engine: e}).imageCandidates(ctx)
	image, err = firstPresent(ctx, e, candidates)
	if err == nil && image == "" {
		err = fmt.Errorf("%s has no kind node image; run koupsandbox up --provider kind to pull %s", e.Command,
			shortName(candidates[0]))
	}
	return shortName(image), err
}

// podmanHost is the registry name that podman adds to image names without a registry.
const podmanHost = "localhost/"

// firstPresent returns the first image in images that the engine has, or the empty string. It returns an error if
// this image is for another architecture.
//
// For podman, it returns the full image name: podman finds local images by their short names, but kind would look for
// a short name on docker.io.
func firstPresent(ctx context.Context, e *engine.Engine, images []string) (string, error) {
	for _, image := range images {
		architecture, err := e.Run(ctx, "image", "inspect", "--format", "{{.Architecture}}", image)
		switch {
		case ctx.Err() != nil:
			return "", err
		case err != nil: // the engine does not have the image
			continue
		case architecture != e.Architecture:
			return "", fmt.Errorf("node image %s is for %s, but %s runs %s; select another image with --image",
				image, architecture, e.Command, e.Architecture)
		case e.Command == engine.Podman:
			if _, err := e.Run(ctx, "image", "exists", podmanHost+image); err == nil { // exact match
				return podmanHost + image, nil
			}
		}
		return image, nil
	}
	return "", nil
}

// imageCandidates returns suitable node images, in order of preference. If the engine has none of them, chooseImage
// pulls the first one.
func (p *Provider) imageCandidates(ctx context.Context) []string {
	switch {
	case p.o.Image != "":
		return []string{p.o.Image}
	case p.o.Version != "":
		tag := "v" + strings.TrimPrefix(p.o.Version, "v")
		return []string{"kindest/node:" + tag, BuiltImage + ":" + tag}
	}
	// The short name finds the default image if it was loaded from a file, because only a pulled image has a digest.
	list := []string{defaults.Image, shortName(defaults.Image)}
	if tags, err := p.engine.Run(ctx, "image", "ls", "--format", "{{.Tag}}", BuiltImage); err == nil {
		if tag := newest(strings.Fields(tags)); tag != "" {
			list = append(list, BuiltImage+":"+tag)
		}
	}
	return list
}

// newest returns the tag with the highest version, or an empty string. It ignores tags that are not versions.
func newest(tags []string) string {
	var tag string
	var highest *version.Version
	for _, t := range tags {
		if v, err := version.ParseSemantic(t); err == nil && (highest == nil || highest.LessThan(v)) {
			tag, highest = t, v
		}
	}
	return tag
}

// shortName returns an image name without the digest and without the prefix that podman adds.
func shortName(image string) string {
	name, _, _ := strings.Cut(image, "@")
	return strings.TrimPrefix(name, podmanHost)
}
