package release

import (
	"archive/tar"
	"debug/elf"
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

// The images of the controller and of fakebase are what an engine of each architecture takes them for: an OCI layout
// that names its platform, with one program of that architecture in it, which nobody runs. To compile for another
// architecture takes minutes.
func TestImageLayouts(t *testing.T) {
	if os.Getenv("E2E_IMAGES") == "" {
		t.Skip("E2E_IMAGES is not set: make test-extended runs this")
	}
	images, builds := t.TempDir(), "dist/layout-test"
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Join(repository, builds)) })
	build(t.Context(), t, repository, "image-controller", "image-fakebase", "IMAGES="+images, "BUILDS="+builds,
		"CONTROLLER_IMAGE=koupsandbox/module-controller:test", "IMAGE=koupsandbox/fakebase:test", "DOCKER_HOST=unix:///nowhere")
	for _, program := range []string{"module-controller", "fakebase"} {
		for arch, machine := range map[string]elf.Machine{"amd64": elf.EM_X86_64, "arm64": elf.EM_AARCH64} {
			layout := folder(t, filepath.Join(images, program+"_"+arch+".tar"))
			var index ocispec.Index
			check.Must(t, json.Unmarshal([]byte(layout["index.json"]), &index))
			if len(index.Manifests) != 1 {
				t.Fatalf("%s for %s: there are %d images", program, arch, len(index.Manifests))
			}
			blob := func(d ocispec.Descriptor) string {
				return layout["blobs/"+string(d.Digest.Algorithm())+"/"+d.Digest.Encoded()]
			}
			var manifest ocispec.Manifest
			check.Must(t, json.Unmarshal([]byte(blob(index.Manifests[0])), &manifest))
			var image ocispec.Image
			check.Must(t, json.Unmarshal([]byte(blob(manifest.Config)), &image))
			want := ocispec.Image{
				Platform: ocispec.Platform{OS: "linux", Architecture: arch},
				Config: ocispec.ImageConfig{
					User: "65532:65532", WorkingDir: "/work", Env: []string{"PATH=/", "HOME=/tmp"}, Entrypoint: []string{"/" + program},
				},
				RootFS: image.RootFS,
			}
			if diff := cmp.Diff(want, image); diff != "" {
				t.Errorf("%s for %s (-want +got):\n%s", program, arch, diff)
			}
			if len(manifest.Layers) != 1 {
				t.Fatalf("%s for %s has %d layers", program, arch, len(manifest.Layers))
			}
			files := untar(t, strings.NewReader(blob(manifest.Layers[0])))
			inside, err := elf.NewFile(strings.NewReader(files[program]))
			check.Must(t, err)
			if inside.Machine != machine || len(files) != 1 {
				t.Errorf("%s for %s is a program for %s, with %d files beside it", program, arch, inside.Machine, len(files)-1)
			}
		}
	}
}

// folder reads an image that make has written.
func folder(t *testing.T, path string) map[string]string {
	t.Helper()
	f, err := os.Open(path)
	check.Must(t, err)
	defer func() { _ = f.Close() }() // only read
	return untar(t, f)
}

// untar are the regular files of an archive.
func untar(t *testing.T, from io.Reader) map[string]string {
	t.Helper()
	files := map[string]string{}
	for in := tar.NewReader(from); ; {
		h, err := in.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		check.Must(t, err)
		if h.Typeflag != tar.TypeReg {
			continue
		}
		text, err := io.ReadAll(in)
		check.Must(t, err)
		files[strings.TrimPrefix(h.Name, "/")] = string(text)
	}
}
