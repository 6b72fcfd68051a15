// Command node-image builds a kind node image from Debian packages and Go modules, and loads it into a
// container engine or writes it to a file: `make node-image`.
package main

import (
	"context"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox/internal/engine"
	"github.com/koupleless/koupsandbox/sandbox/internal/image"
	"github.com/koupleless/koupsandbox/sandbox/internal/nodeimage"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	app := &cli.App{
		Name:            "node-image",
		Usage:           "build the image of a kind node from Debian packages and Go modules",
		HideHelpCommand: true,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: "name", Usage: "`NAME` of the image",
				DefaultText: nodeimage.Name("KUBERNETES_VERSION")},
			&cli.StringFlag{Name: "engine", Usage: "container `ENGINE` that loads the image: docker or podman",
				Value: "docker"},
			&cli.StringFlag{Name: "output",
				Usage: "write the image to `FILE`, an archive for docker load, instead of loading it"},
			&cli.StringFlag{Name: "cache", Usage: "`DIRECTORY` of the build cache",
				Value: filepath.Join(cacheHome(), "koupsandbox", "node-image")},
			&cli.StringFlag{Name: "suite", Usage: "Debian `RELEASE` of the packages", Value: "bookworm"},
			&cli.StringFlag{Name: "mirror", Usage: "`URL` of a Debian mirror"},
		},
		Action: run,
	}
	if err := app.RunContext(ctx, os.Args); err != nil {
		fmt.Fprintln(os.Stderr, "node-image:", err)
		os.Exit(1)
	}
}

func run(c *cli.Context) error {
	root, err := os.Getwd()
	if err != nil {
		return err
	}
	start := time.Now()
	built, err := nodeimage.Build(c.Context, nodeimage.Options{
		Root: root, Cache: c.String("cache"), Name: c.String("name"), Suite: c.String("suite"),
		Mirror:   c.String("mirror"),
		Progress: func(what string, took time.Duration) { fmt.Printf("%-30s %6.1fs\n", what, took.Seconds()) },
	})
	if err != nil {
		return err
	}
	if path := c.String("output"); path != "" {
		if err := image.WriteFile(path, built); err != nil {
			return fmt.Errorf("writing the image: %w", err)
		}
		fmt.Printf("wrote %s (%d MB) to %s in %.1fs\n", built.Name, built.Size()/1e6, path, time.Since(start).Seconds())
		return nil
	}
	loading := time.Now()
	already, err := nodeimage.Load(c.Context, &engine.Engine{Command: c.String("engine")}, built)
	if err != nil {
		return err
	}
	if !already {
		fmt.Printf("%-30s %6.1fs\n", "loading into "+c.String("engine"), time.Since(loading).Seconds())
	}
	fmt.Printf("loaded %s (%d MB) in %.1fs\n", built.Name, built.Size()/1e6, time.Since(start).Seconds())
	return nil
}

// cacheHome returns the user's cache directory, or the directory for temporary files if the system has no user cache
// directory.
func cacheHome() string {
	if dir, err := os.UserCacheDir(); err == nil {
		return dir
	}
	return os.TempDir()
}
