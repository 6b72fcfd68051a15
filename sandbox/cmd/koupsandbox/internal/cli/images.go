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
				Action: func(c *cli.Context) error {
					path, err := file(c)
					if err != nil {
						return err
					}
					image, err := kind.Save(c.Context, c.String(engineFlag), path)
					if err != nil {
						return err
					}
					say(s.Out, "saved %s in %s\n", image, path)
					return nil
				},
			},
			{
				Name:      "load",
				Usage:     "give the container engine the image in such a file",
				ArgsUsage: "FILE",
				Flags:     []cli.Flag{engine()},
				Action: func(c *cli.Context) error {
					path, err := file(c)
					if err != nil {
						return err
					}
					images, err := kind.LoadFile(c.Context, c.String(engineFlag), path)
					if err != nil {
						return err
					}
					say(s.Out, "loaded %s\n", strings.Join(images, ", "))
					return nil
				},
			},
		},
	}
}

// file is the only argument of a command, as an absolute path.
func file(c *cli.Context) (string, error) {
	list, err := args(c, 1, 1, "one file")
	if err != nil {
		return "", err
	}
	path, err := filepath.Abs(list[0])
	if err != nil {
		return "", fmt.Errorf("finding the file %q: %w", list[0], err)
	}
	return path, nil
}
