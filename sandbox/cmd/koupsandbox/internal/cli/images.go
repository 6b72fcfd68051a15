package cli

import (
	"fmt"
	"path/filepath"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox/internal/cluster/kind"
)

func (s *commands) images() *cli.Command {
	return &cli.Command{
		Name:  "images",
		Usage: "carry the node image of the provider kind to a machine without a registry",
		Subcommands: []*cli.Command{
			{
				Name:      "save",
				Usage:     "write the node image that is at hand to a file",
				ArgsUsage: "FILE",
				Flags:     []cli.Flag{engine()},
				Action: onFile(func(c *cli.Context, path string) error {
					image, err := kind.SaveImage(c.Context, c.String(engineFlag), path)
					if err != nil {
						return err
					}
					say(s.Out, "saved %s in %s\n", image, path)
					return nil
				}),
			},
			{
				Name:      "load",
				Usage:     "give the container engine the image in such a file",
				ArgsUsage: "FILE",
				Flags:     []cli.Flag{engine()},
				Action: onFile(func(c *cli.Context, path string) error {
					images, err := kind.LoadImages(c.Context, c.String(engineFlag), path)
					if err != nil {
						return err
					}
					say(s.Out, "loaded %s\n", strings.Join(images, ", "))
					return nil
				}),
			},
		},
	}
}

func onFile(do func(c *cli.Context, path string) error) cli.ActionFunc {
	return taking(1, 1, "one file", func(c *cli.Context, list []string) error {
		path, err := filepath.Abs(list[0])
		if err != nil {
			return fmt.Errorf("finding the file %q: %w", list[0], err)
		}
		return do(c, path)
	})
}
