package kind

import (
	"context"
	"fmt"
	"strings"

	"k8s.io/apimachinery/pkg/util/version"
	"sigs.k8s.io/kind/pkg/apis/config/defaults"

	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
)

// BuiltImage is the repository of the node image that `make node-image` builds; its tag is the
// version of Kubernetes.
const BuiltImage = "koupsandbox/node"

// chooseImage finds the image for the nodes, and downloads it if the engine has none that would do.
// The user's choice comes first, then the image of kind, then the one that was built here.
func (p *Provider) chooseImage(ctx context.Context) error {
	candidates := p.imageCandidates(ctx)
	image, err := firstPresent(ctx, p.engine, candidates)
	if err != nil {
		return err
	}
	if image != "" {
		p.image = image
		if shortName(image) != shortName(candidates[0]) {
			p.o.Notify(fmt.Sprintf("the nodes are made of %s, which is at hand; %s is not", image, shortName(candidates[0])))
		}
		return nil
	}
	p.o.Notify(fmt.Sprintf("downloading the node image %s", shortName(candidates[0])))
	if _, err := p.engine.Run(ctx, "pull", "--quiet", candidates[0]); err != nil {
		return fmt.Errorf("the node image cannot be had: %w\nname one that is at hand with --image, or build one "+
			"without a registry: make node-image", err)
	}
	p.image = candidates[0]
	return nil
}

// LocalImage returns the image that a cluster would be made of by default, if an engine (see
// engine.Find) answers, suffices, and has one. The error says what is missing.
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
		err = fmt.Errorf("%s has no node image; with --provider kind it gets %s", e.Command, shortName(candidates[0]))
	}
	return shortName(image), err
}

// podmanHost is where podman takes an image to be from whose name says nothing of it.
const podmanHost = "localhost/"

// firstPresent returns the first of some images that the engine has, empty if it has none. One for another
// architecture is an error.
//
// Podman finds a short name among its own, but kind takes it for one of docker.io: then the whole
// name is returned.
func firstPresent(ctx context.Context, e *engine.Engine, images []string) (string, error) {
	for _, image := range images {
		architecture, err := e.Run(ctx, "image", "inspect", "--format", "{{.Architecture}}", image)
		switch {
		case ctx.Err() != nil:
			return "", err
		case err != nil: // it is not there
			continue
		case architecture != e.Architecture:
			return "", fmt.Errorf("the node image %s is for %s and %s runs %s: name another with --image",
				image, architecture, e.Command, e.Architecture)
		case e.Command == engine.Podman:
			if _, err := e.Run(ctx, "image", "exists", podmanHost+image); err == nil { // exactly this name
				return podmanHost + image, nil
			}
		}
		return image, nil
	}
	return "", nil
}

// imageCandidates lists the images that would do, the best first. The first is the one to download if
// none is there.
func (p *Provider) imageCandidates(ctx context.Context) []string {
	switch {
	case p.o.Image != "":
		return []string{p.o.Image}
	case p.o.Version != "":
		tag := "v" + strings.TrimPrefix(p.o.Version, "v")
		return []string{"kindest/node:" + tag, BuiltImage + ":" + tag}
	}
	// The second is the first where it came in a file: its digest is known only to who has pulled
	// it.
	list := []string{defaults.Image, shortName(defaults.Image)}
	if tags, err := p.engine.Run(ctx, "image", "ls", "--format", "{{.Tag}}", BuiltImage); err == nil {
		if tag := newest(strings.Fields(tags)); tag != "" {
			list = append(list, BuiltImage+":"+tag)
		}
	}
	return list
}

// newest returns the highest of some versions; what is none is left out.
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

// shortName leaves out the digest of an image, and what podman puts before its name.
func shortName(image string) string {
	name, _, _ := strings.Cut(image, "@")
	return strings.TrimPrefix(name, podmanHost)
}
