package nodeimage

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
	"github.com/koupleless/koupsandbox/sandbox/internal/image"
)

//go:embed files
var files embed.FS

// errorLines is the maximum number of output lines in the error for a failed command, such as the compiler or
// mmdebstrap.
const errorLines = 15

// Options configures Build.
type Options struct {
	// Root is the root directory of the repository. Required.
	Root string
	// Cache is the directory in which the built parts are cached, which take some hundred MB. It is created if it
	// does not exist. Required.
	Cache string
	// Name is the name of the image. Default: see the function Name.
	Name string
	// Suite is the codename of the Debian release. Default: bookworm.
	Suite string
	// Mirror is the URL of the Debian mirror. Default: the default of mmdebstrap.
	Mirror string
	// Progress is called with the name and the build time of each part that was built. Default: progress is not
	// reported.
	Progress func(what string, took time.Duration)
}

// Name returns the default name of the node image: koupsandbox/node with the Kubernetes version, such as "v1.37.2",
// as its tag.
func Name(kubernetes string) string { return "koupsandbox/node:" + kubernetes }

type builder struct {
	Options
	kubernetes string // Kubernetes version, such as "v1.37.2"
	kind       string // directory of the Go module sigs.k8s.io/kind
}

// Build builds the parts of the node image that are not in the cache, and returns the image. The image layers are
// files in the cache. If tools are missing, the error names them. Two builds must not use the same cache
// concurrently.
func Build(ctx context.Context, o Options) (*image.Image, error) {
	if runtime.GOOS != "linux" {
		return nil, fmt.Errorf("node images can be built only on Linux, because mmdebstrap is not available on %s",
			runtime.GOOS)
	}
	if o.Suite == "" {
		o.Suite = "bookworm"
	}
	if o.Progress == nil {
		o.Progress = func(string, time.Duration) {}
	}
	if err := os.MkdirAll(o.Cache, 0o755); err != nil { //nolint:gosec // a cache of public packages
		return nil, fmt.Errorf("creating the cache directory: %w", err)
	}
	b := &builder{Options: o}
	var err error
	b.kubernetes, err = b.module(ctx, b.in("sandbox/controlplane"), "k8s.io/kubernetes", "Version")
	if err != nil {
		return nil, err
	}
	b.kind, err = b.module(ctx, o.Root, "sigs.k8s.io/kind", "Dir")
	if err != nil {
		return nil, err
	}
	if b.Name == "" {
		b.Name = Name(b.kubernetes)
	}
	layers, err := b.layers(ctx)
	if err != nil {
		return nil, err
	}
	return image.New(b.Name, ocispec.ImageConfig{
		Env:        []string{"container=docker", "PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"},
		Entrypoint: []string{"/usr/local/bin/entrypoint", "/sbin/init"},
		StopSignal: "SIGRTMIN+3", // systemd halts
	}, layers...)
}

// Load loads the node image into a container engine. If the engine already has the same image, Load does nothing and
// returns true.
func Load(ctx context.Context, e *engine.Engine, i *image.Image) (already bool, err error) {
	id, err := e.Run(ctx, "image", "inspect", "--format", "{{.Id}}", i.Name)
	if err == nil && strings.TrimPrefix(id, "sha256:") == strings.TrimPrefix(i.ID(), "sha256:") {
		return true, nil
	}
	if err := e.Load(ctx, func(w io.Writer) error { return image.Write(w, i) }); err != nil {
		return false, fmt.Errorf("loading %s: %w", i.Name, err)
	}
	return false, nil
}

func (b *builder) in(path string) string { return filepath.Join(b.Root, path) }

func (b *builder) cached(name string) string { return filepath.Join(b.Cache, name) }

// part builds a file in the cache and removes older versions of the file. It does nothing if the file exists. name
// has the form kind-HASH.ext. The file appears in the cache only when it is complete.
func (b *builder) part(what, name string, build func(path string) error) (string, error) {
	path := b.cached(name)
	if _, err := os.Stat(path); err == nil {
		return path, nil
	}
	start := time.Now()
	partial := path + ".partial"
	err := build(partial)
	if err == nil {
		err = os.Rename(partial, path)
	}
	if err != nil {
		_ = os.Remove(partial) // may not exist
		return "", fmt.Errorf("creating the %s: %w", what, err)
	}
	b.Progress(what, time.Since(start))
	kind, _, _ := strings.Cut(name, "-")
	older, err := filepath.Glob(b.cached(kind + "-*"))
	for _, old := range older {
		if old != path {
			err = errors.Join(err, os.Remove(old))
		}
	}
	if err != nil {
		return "", fmt.Errorf("cleaning up the cache: %w", err)
	}
	return path, nil
}

// module returns a field, such as Version or Dir, of the Go module path that the Go module in dir requires.
func (b *builder) module(ctx context.Context, dir, path, field string) (string, error) {
	text, err := output(ctx, dir, nil, "go", "list", "-m", "-f", "{{."+field+"}}", path)
	if err == nil && text == "" {
		_, err = output(ctx, dir, nil, "go", "mod", "download", path)
		if err == nil {
			text, err = output(ctx, dir, nil, "go", "list", "-m", "-f", "{{."+field+"}}", path)
		}
	}
	return text, err
}

// output runs a command and returns its standard output. If the command fails, the error contains the last lines of
// standard error.
func output(ctx context.Context, dir string, env []string, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = dir
	cmd.Env = append(cmd.Environ(), env...)
	return engine.Output(ctx, cmd, errorLines)
}
