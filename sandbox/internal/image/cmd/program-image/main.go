// Command program-image writes a container image with static binaries to a file: make images.
package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path"
	"path/filepath"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/koupleless/koupsandbox/sandbox/internal/image"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "program-image:", err)
		os.Exit(1)
	}
}

func run() error {
	name := flag.String("name", "", "`NAME` of the image, including its tag")
	arch := flag.String("arch", "", "`ARCHITECTURE` of the binaries: a value of GOARCH, such as amd64")
	output := flag.String("output", "", "write the image to `FILE`, an archive for docker load")
	// Every user can write to /tmp. Users mount their files at /work.
	config := ocispec.ImageConfig{User: image.NonRoot, WorkingDir: "/work", Env: []string{"PATH=/", "HOME=/tmp"}}
	flag.Func("env", "set the environment variable `NAME=VALUE` in the image; repeatable", func(v string) error {
		config.Env = append(config.Env, v)
		return nil
	})
	flag.Parse()
	programs := flag.Args()
	if *name == "" || *arch == "" || *output == "" || len(programs) == 0 {
		return errors.New("--name, --arch, --output and binaries are required; pass the binaries as arguments, first " +
			"the binary to run")
	}
	layer, err := image.WriteLayer(*output+".layer", false, func(f *image.Files) error {
		errs := []error{f.AddDir("tmp", 0o1777), f.AddDir("work", 0o1777)}
		for _, program := range programs {
			if err := image.IsStatic(program); err != nil {
				return fmt.Errorf("%s: %w", program, err)
			}
			errs = append(errs, f.Copy(filepath.Base(program), 0o755, program))
		}
		return errors.Join(errs...)
	})
	if err != nil {
		return err
	}
	defer func() { _ = os.Remove(*output + ".layer") }() // the image contains the layer
	config.Entrypoint = []string{path.Join("/", filepath.Base(programs[0]))}
	i, err := image.NewFor(*arch, *name, config, layer)
	if err != nil {
		return err
	}
	if err := image.WriteFile(*output, i); err != nil {
		return fmt.Errorf("writing the image: %w", err)
	}
	fmt.Printf("wrote %s for %s (%d MB) to %s\n", i.Name, *arch, i.Size()/1e6, *output)
	return nil
}
