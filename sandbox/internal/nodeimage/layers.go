package nodeimage

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/internal/image"
)

// layers returns the layers of the node image. The layers that change least often come first.
func (b *builder) layers(ctx context.Context) ([]*image.Layer, error) {
	rootfs, err := b.rootfs(ctx)
	if err != nil {
		return nil, err
	}
	if err := b.programs(ctx); err != nil {
		return nil, err
	}
	pauseImage, images, err := b.images(ctx)
	if err != nil {
		return nil, err
	}
	base, err := image.OpenLayer(rootfs)
	if err != nil {
		return nil, err
	}
	layers := []*image.Layer{base}
	for _, l := range []struct {
		name string
		fill func(*image.Files) error
	}{
		{"programs", b.addPrograms},
		{"images", func(f *image.Files) error { return f.Copy("kind/images.tar", 0o644, images) }},
		{"files", func(f *image.Files) error {
			return errors.Join(b.addKindFiles(ctx, f, pauseImage),
				b.addOurFiles(f))
		}},
	} {
		layer, err := image.WriteLayer(b.cached(l.name+".layer.tar"), false, l.fill)
		if err != nil {
			return nil, err
		}
		layers = append(layers, layer)
	}
	return layers, nil
}

func (b *builder) addPrograms(f *image.Files) error {
	err := f.Copy("usr/bin/"+koupNode, 0o755, b.program(koupNode))
	for _, name := range nodeLinks {
		err = errors.Join(err, f.AddLink("usr/bin/"+name, koupNode))
	}
	for _, name := range containerdPrograms {
		err = errors.Join(err, f.Copy("usr/local/bin/"+name, 0o755, b.program(name)))
	}
	return err
}

var (
	sandboxImage = regexp.MustCompile(`sandbox_image = ".*"`)
	scripts      = regexp.MustCompile(`^(kind/bin|usr/local/bin)/`)
)

// addKindFiles adds the files of kind's base image, which are in the directory images/base/files of the kind module.
// It also adds the OCI runtime specification, which kind generates when it builds the base image.
func (b *builder) addKindFiles(ctx context.Context, f *image.Files, pauseImage string) error {
	root := os.DirFS(filepath.Join(b.kind, "images/base/files"))
	err := fs.WalkDir(root, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := fs.ReadFile(root, name)
		if err == nil && name == "etc/containerd/config.toml" {
			text, err = containerdConfig(text, pauseImage)
		}
		if err != nil {
			return err
		}
		mode := int64(0o644)
		if scripts.MatchString(name) {
			mode = 0o755
		}
		return f.Add(name, mode, text)
	})
	if err != nil {
		return fmt.Errorf("copying the files of kind: %w", err)
	}
	spec, err := output(ctx, "", nil, b.program("ctr"), "oci", "spec")
	if err != nil {
		return err
	}
	text, err := containerSpec([]byte(spec))
	if err != nil {
		return err
	}
	return f.Add("etc/containerd/cri-base.json", 0o644, text)
}

// containerdConfig modifies kind's containerd configuration: containerd must use the pause image of this node image,
// and assign Pod addresses from the address range of the node.
func containerdConfig(text []byte, pauseImage string) ([]byte, error) {
	if !sandboxImage.Match(text) {
		return nil, errors.New(
			"kind's containerd configuration has no pause image; update the builder for this version of kind")
	}
	text = sandboxImage.ReplaceAll(text, fmt.Appendf(nil, "sandbox_image = %q", pauseImage))
	return append(text, []byte(`
[plugins."io.containerd.grpc.v1.cri".cni]
  conf_template = "/etc/cni/koupsandbox.conflist"
`)...), nil
}

// containerSpec modifies an OCI runtime specification. It adds a hook of kind, which hides the product name of the
// machine. It removes the rlimits, so that containers keep the process limits of the container runtime.
func containerSpec(text []byte) ([]byte, error) {
	var spec map[string]any
	if err := json.Unmarshal(text, &spec); err != nil {
		return nil, fmt.Errorf("decoding the container specification: %w", err)
	}
	spec["hooks"] = map[string]any{"createContainer": []any{map[string]any{"path": "/kind/bin/mount-product-files.sh"}}}
	process, ok := spec["process"].(map[string]any)
	if !ok {
		return nil, errors.New("the container specification has no process")
	}
	delete(process, "rlimits")
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetIndent("", "  ")
	err := encoder.Encode(spec)
	return out.Bytes(), err
}

// ours maps the name of each file in the directory files to its path on a node.
var ours = map[string]string{
	"adapt.sh":                  "kind/bin/adapt.sh",
	"import-images.sh":          "kind/bin/import-images.sh",
	"runc-without-sys-resource": "kind/bin/runc-without-sys-resource",
	"default-cni.yaml":          "kind/manifests/default-cni.yaml",
	"default-storage.yaml":      "kind/manifests/default-storage.yaml",
	"cni.conflist":              "etc/cni/koupsandbox.conflist",
	"containerd.service.conf":   "etc/systemd/system/containerd.service.d/koupsandbox.conf",
}

func (b *builder) addOurFiles(f *image.Files) error {
	err := f.Add("kind/version", 0o644, []byte(b.kubernetes))
	entries, readErr := files.ReadDir("files")
	err = errors.Join(err, readErr)
	for _, entry := range entries {
		target := ours[entry.Name()]
		if target == "" {
			continue // used only by the build
		}
		text, readErr := files.ReadFile(path.Join("files", entry.Name()))
		mode := int64(0o644)
		if strings.HasPrefix(target, "kind/bin/") {
			mode = 0o755
		}
		err = errors.Join(err, readErr, f.Add(target, mode, text))
	}
	return err
}
