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
		Name:        "images",
		Usage:       "copy the node image of provider kind to a machine without registry access",
		Description: describe("", "koupsandbox images save node-image.tar", "koupsandbox images load node-image.tar"),
		Subcommands: []*cli.Command{
			{
				Name:      "save",
				Usage:     "save the node image from the container engine to a file",
				ArgsUsage: "FILE",
				Description: describe("", "koupsandbox images save node-image.tar",
					"koupsandbox images save --engine podman node-image.tar"),
				Flags: []cli.Flag{newEngineFlag()},
				Action: withFile(func(c *cli.Context, path string) error {
					image, err := kind.SaveImage(c.Context, c.String(engineFlag), path)
					if err != nil {
						return err
					}
					printf(s.Out, "saved %s to %s\n", image, path)
					return nil
				}),
			},
			{
				Name:      "load",
				Usage:     "load the node image from a file into the container engine",
				ArgsUsage: "FILE",
				Description: describe("", "koupsandbox images load node-image.tar",
					"koupsandbox images load --engine podman node-image.tar"),
				Flags: []cli.Flag{newEngineFlag()},
				Action: withFile(func(c *cli.Context, path string) error {
					images, err := kind.LoadImages(c.Context, c.String(engineFlag), path)
					if err != nil {
						return err
					}
					printf(s.Out, "loaded %s\n", strings.Join(images, ", "))
					return nil
				}),
			},
		},
	}
}

func withFile(do func(c *cli.Context, path string) error) cli.ActionFunc {
	return withArgs(1, 1, "one file", func(c *cli.Context, list []string) error {
		path, err := filepath.Abs(list[0])
		if err != nil {
			return fmt.Errorf("resolving the path %q: %w", list[0], err)
		}
		return do(c, path)
	})
}
