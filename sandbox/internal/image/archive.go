package image

import (
	"archive/tar"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// containerdName is the annotation from which containerd takes the whole name of an image; that of the specification is a tag.
const containerdName = "io.containerd.image.name"

// Image is an image for Linux on the architecture that this program was built for.
type Image struct {
	// Name with its tag, such as "koupsandbox/node:v1". Required. Docker and podman understand a short one; for containerd it is
	// the whole, with the host of a registry.
	Name string
	// Layers from the lowest to the highest. Required.
	Layers []*Layer
	// Config says what runs in it. Default: nothing.
	Config ocispec.ImageConfig
}

// Built is an image whose digests are known.
type Built struct {
	Image
	config, manifest         ocispec.Descriptor
	configText, manifestText []byte
}

// Build computes the configuration and the manifest.
func (i Image) Build() (*Built, error) {
	config := ocispec.Image{
		Platform: ocispec.Platform{OS: "linux", Architecture: runtime.GOARCH},
		Config:   i.Config,
		RootFS:   ocispec.RootFS{Type: "layers"},
	}
	manifest := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageManifest}
	for _, l := range i.Layers {
		config.RootFS.DiffIDs = append(config.RootFS.DiffIDs, l.diffID)
		manifest.Layers = append(manifest.Layers, l.blob)
	}
	b := &Built{Image: i}
	var err error
	if b.configText, b.config, err = describe(ocispec.MediaTypeImageConfig, config); err == nil {
		manifest.Config = b.config
		b.manifestText, b.manifest, err = describe(ocispec.MediaTypeImageManifest, manifest)
	}
	if err != nil {
		return nil, fmt.Errorf("describing image %s: %w", i.Name, err)
	}
	return b, nil
}

// ID is what docker and podman call the id of the image.
func (b *Built) ID() string { return b.config.Digest.String() }

// Size is the sum of its layers in bytes, as they are stored.
func (b *Built) Size() int64 {
	var sum int64
	for _, l := range b.Layers {
		sum += l.Size()
	}
	return sum
}

func describe(mediaType string, value any) ([]byte, ocispec.Descriptor, error) {
	text, err := json.Marshal(value)
	return text, ocispec.Descriptor{MediaType: mediaType, Digest: digest.FromBytes(text), Size: int64(len(text))}, err
}

// dockerEntry is one image in manifest.json, as `docker load` reads it.
type dockerEntry struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// Write writes one archive with all images; what several of them share is in it once.
func Write(w io.Writer, images ...*Built) error {
	out := tar.NewWriter(w)
	a := &archive{files: &Files{w: out, made: map[string]bool{}}, written: map[digest.Digest]bool{}}
	for _, b := range images {
		if err := a.add(b); err != nil {
			return fmt.Errorf("writing image %s: %w", b.Name, err)
		}
	}
	if err := a.finish(); err != nil {
		return fmt.Errorf("writing the index of the images: %w", err)
	}
	return out.Close()
}

type archive struct {
	files   *Files
	written map[digest.Digest]bool
	index   ocispec.Index
	docker  []dockerEntry
}

func (a *archive) add(b *Built) error {
	entry := dockerEntry{Config: blobPath(b.config.Digest), RepoTags: []string{b.Name}}
	for _, l := range b.Layers {
		entry.Layers = append(entry.Layers, blobPath(l.blob.Digest))
		if err := a.once(l.blob.Digest, func(name string) error { return a.copy(name, l) }); err != nil {
			return err
		}
	}
	for _, text := range []struct {
		digest digest.Digest
		text   []byte
	}{{b.config.Digest, b.configText}, {b.manifest.Digest, b.manifestText}} {
		if err := a.once(text.digest, func(name string) error { return a.files.Add(name, 0o644, text.text) }); err != nil {
			return err
		}
	}
	manifest := b.manifest
	manifest.Annotations = map[string]string{containerdName: b.Name}
	a.index.Manifests = append(a.index.Manifests, manifest)
	a.docker = append(a.docker, entry)
	return nil
}

// copy copies a layer, and notices one that has changed since its digest was taken.
func (a *archive) copy(name string, l *Layer) error {
	info, err := os.Stat(l.path)
	if err == nil && info.Size() != l.blob.Size {
		err = fmt.Errorf("layer %s has changed while the image was written", l.path)
	}
	if err != nil {
		return err
	}
	return a.files.Copy(name, 0o644, l.path)
}

func (a *archive) once(d digest.Digest, write func(name string) error) error {
	if a.written[d] {
		return nil
	}
	a.written[d] = true
	return write(blobPath(d))
}

func (a *archive) finish() error {
	a.index.Versioned, a.index.MediaType = specs.Versioned{SchemaVersion: 2}, ocispec.MediaTypeImageIndex
	for _, file := range []struct {
		name  string
		value any
	}{
		{ocispec.ImageIndexFile, a.index},
		{ocispec.ImageLayoutFile, ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}},
		{"manifest.json", a.docker},
	} {
		text, err := json.Marshal(file.value)
		if err == nil {
			err = a.files.Add(file.name, 0o644, text)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func blobPath(d digest.Digest) string {
	return ocispec.ImageBlobsDir + "/" + d.Algorithm().String() + "/" + d.Encoded()
}
