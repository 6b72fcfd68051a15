package nodeimage

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path"
	"slices"
	"strings"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/koupleless/koupsandbox/sandbox/internal/image"
)

// images builds all images that kubeadm requires, under the names that kubeadm uses, and writes them to an archive.
// It returns the name of the pause image and the path of the archive.
func (b *builder) images(ctx context.Context) (pauseImage, archive string, err error) {
	text, err := output(ctx, "", nil, b.program("kubeadm"), "config", "images", "list", "--kubernetes-version",
		b.kubernetes)
	if err != nil {
		return "", "", err
	}
	names := strings.Fields(text)
	i := slices.IndexFunc(names, func(name string) bool { return program(name) == pause })
	if i < 0 {
		return "", "", fmt.Errorf("kubeadm requires no pause image, only %s; update the builder",
			strings.Join(names, ", "))
	}
	proxyfs, err := b.proxyRootfs(ctx)
	if err != nil {
		return "", "", err
	}
	inputs := append(slices.Clone(names), proxyfs)
	for _, name := range []string{koupNode, coredns, pause} {
		layer, err := image.OpenLayer(b.program(name)) // for its digest
		if err != nil {
			return "", "", err
		}
		inputs = append(inputs, layer.Digest.String())
	}
	archive, err = b.part("images of the control plane", fmt.Sprintf("images-%s.tar", shortHash(inputs...)),
		func(path string) error {
			return b.writeImages(path, names, proxyfs)
		})
	return names[i], archive, err
}

func program(image string) string {
	name, _, _ := strings.Cut(path.Base(image), ":")
	return name
}

func (b *builder) writeImages(path string, names []string, proxyfs string) (err error) {
	layers := map[string]*image.Layer{}
	for name, fill := range map[string]func(*image.Files) error{
		koupNode: func(f *image.Files) error {
			err := f.Copy("usr/local/bin/"+koupNode, 0o755, b.program(koupNode))
			for _, name := range imageLinks {
				err = errors.Join(err, f.AddLink("usr/local/bin/"+name, koupNode))
			}
			return err
		},
		coredns:   func(f *image.Files) error { return f.Copy(coredns, 0o755, b.program(coredns)) },
		pause:     func(f *image.Files) error { return f.Copy(pause, 0o755, b.program(pause)) },
		"proxyfs": func(f *image.Files) error { return addProxyFiles(f, proxyfs) },
	} {
		file := path + "." + name
		defer func() { _ = os.Remove(file) }() // the archive contains it
		layers[name], err = image.WriteLayer(file, true, fill)
		if err != nil {
			return err
		}
	}
	var images []*image.Image
	for _, name := range names {
		config := ocispec.ImageConfig{Env: []string{"PATH=/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"}}
		var content []*image.Layer
		switch p := program(name); {
		case p == coredns || p == pause:
			config.Entrypoint, content = []string{"/" + p}, []*image.Layer{layers[p]}
		case p == "kube-proxy":
			content = []*image.Layer{layers[koupNode], layers["proxyfs"]}
		case slices.Contains(imageLinks, p):
			content = []*image.Layer{layers[koupNode]}
		default:
			return fmt.Errorf("kubeadm requires the image %s, which the builder does not support", name)
		}
		i, err := image.New(name, config, content...)
		if err != nil {
			return err
		}
		images = append(images, i)
	}
	return image.WriteFile(path, images...)
}

// addProxyFiles adds the files of the Debian packages to the kube-proxy image, and the iptables links that the
// installation scripts of these packages would create.
func addProxyFiles(f *image.Files, proxyfs string) error {
	source, err := os.Open(proxyfs)
	if err != nil {
		return err
	}
	defer func() { _ = source.Close() }() // only read
	if err := f.AddTar(source, func(name string) bool { return !strings.HasPrefix(name, "var/") }); err != nil {
		return err
	}
	for _, family := range []string{"iptables", "ip6tables"} {
		for _, verb := range []string{"", "-save", "-restore"} {
			err = errors.Join(err, f.AddLink("usr/sbin/"+family+verb, "xtables-nft-multi"))
		}
	}
	return err
}
