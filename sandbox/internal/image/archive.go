package image

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"

	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// containerdName is the annotation that contains the full image name for containerd and podman. The annotation that
// the OCI specification defines for names contains only the tag.
const containerdName = "io.containerd.image.name"

// Image is a Linux container image.
type Image struct {
	// Name is the name of the image, including the tag, such as "koupsandbox/node:v1". Docker and podman accept a
	// short name; containerd requires the full name with the registry host.
	Name string

	layers           []*Layer
	config, manifest blob
}

// New returns an image for the architecture of this binary. layers starts with the lowest layer. config describes the
// container process; the zero value means that the image starts no process.
func New(name string, config ocispec.ImageConfig, layers ...*Layer) (*Image, error) {
	return NewFor(runtime.GOARCH, name, config, layers...)
}

// NewFor is like New, but creates an image for the given architecture, which is a GOARCH value.
func NewFor(architecture, name string, config ocispec.ImageConfig, layers ...*Layer) (*Image, error) {
	whole := ocispec.Image{
		Platform: ocispec.Platform{OS: "linux", Architecture: architecture},
		Config:   config,
		RootFS:   ocispec.RootFS{Type: "layers"},
	}
	manifest := ocispec.Manifest{Versioned: specs.Versioned{SchemaVersion: 2},
		MediaType: ocispec.MediaTypeImageManifest}
	for _, l := range layers {
		whole.RootFS.DiffIDs = append(whole.RootFS.DiffIDs, l.diffID)
		manifest.Layers = append(manifest.Layers, l.Descriptor)
	}
	i := &Image{Name: name, layers: layers}
	var err error
	i.config, err = describe(ocispec.MediaTypeImageConfig, whole)
	if err == nil {
		manifest.Config = i.config.Descriptor
		i.manifest, err = describe(ocispec.MediaTypeImageManifest, manifest)
	}
	if err != nil {
		return nil, fmt.Errorf("encoding the configuration and manifest of image %s: %w", name, err)
	}
	return i, nil
}

// ID returns the image ID as shown by docker and podman.
func (i *Image) ID() string { return i.config.Digest.String() }

// Size returns the total size of the layers in bytes, as stored.
func (i *Image) Size() int64 {
	var sum int64
	for _, l := range i.layers {
		sum += l.Size
	}
	return sum
}

// blob is a file in the archive. The file is named by its digest. Its content is text, or a copy of the file at path.
type blob struct {
	ocispec.Descriptor
	path string
	text []byte
}

func describe(mediaType string, value any) (blob, error) {
	text, err := json.Marshal(value)
	return blob{text: text, Descriptor: ocispec.Descriptor{
		MediaType: mediaType, Digest: digest.FromBytes(text), Size: int64(len(text)),
	}}, err
}

func (b blob) name() string {
	return ocispec.ImageBlobsDir + "/" + b.Digest.Algorithm().String() + "/" + b.Digest.Encoded()
}

// dockerEntry describes one image in manifest.json, the file that `docker load` reads.
type dockerEntry struct {
	Config   string
	RepoTags []string
	Layers   []string
}

// Write writes an archive that contains all images. Layers that images share are written only once.
func Write(w io.Writer, images ...*Image) error {
	files, written := newFiles(w), map[digest.Digest]bool{}
	index := ocispec.Index{Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex}
	var docker []dockerEntry
	for _, i := range images {
		entry := dockerEntry{Config: i.config.name(), RepoTags: []string{i.Name}}
		var blobs []blob
		for _, l := range i.layers {
			blobs = append(blobs, l.blob)
			entry.Layers = append(entry.Layers, l.name())
		}
		for _, b := range append(blobs, i.config, i.manifest) {
			if written[b.Digest] {
				continue
			}
			written[b.Digest] = true
			if err := files.blob(b); err != nil {
				return fmt.Errorf("writing image %s: %w", i.Name, err)
			}
		}
		manifest := i.manifest.Descriptor
		manifest.Annotations = map[string]string{containerdName: i.Name}
		index.Manifests, docker = append(index.Manifests, manifest), append(docker, entry)
	}
	for _, file := range []struct {
		name  string
		value any
	}{
		{ocispec.ImageIndexFile, index},
		{ocispec.ImageLayoutFile, ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion}},
		{"manifest.json", docker},
	} {
		text, err := json.Marshal(file.value)
		if err == nil {
			err = files.Add(file.name, 0o644, text)
		}
		if err != nil {
			return fmt.Errorf("writing the index of the images: %w", err)
		}
	}
	return files.w.Close()
}

// WriteFile writes an archive of the images to a file; see Write. If it returns an error, the file may be incomplete.
func WriteFile(path string, images ...*Image) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(Write(f, images...), f.Close())
}

// blob adds a blob to the archive. It returns an error if the file of the blob has changed since its digest was
// computed.
func (f *Files) blob(b blob) error {
	if b.path == "" {
		return f.Add(b.name(), 0o644, b.text)
	}
	switch size, err := f.copy(b.name(), 0o644, b.path); {
	case err != nil:
		return err
	case size != b.Size:
		return fmt.Errorf("layer %s changed while the image was being written", b.path)
	}
	return nil
}
