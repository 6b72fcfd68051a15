package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

func output(formats ...string) *cli.StringFlag {
	return &cli.StringFlag{Name: outputFlag, Aliases: []string{"o"}, Value: formats[0],
		Usage: "`FORMAT` of the result: " + strings.Join(formats, ", ")}
}

func formatOf(c *cli.Context, formats ...string) (string, error) {
	format := c.String(outputFlag)
	if !slices.Contains(formats, format) {
		return "", usageError{fmt.Errorf("--output %q is not one of: %s", format, strings.Join(formats, ", "))}
	}
	return format, nil
}

// print writes a value as JSON or YAML.
func (s *commands) print(format string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err == nil && format == "yaml" {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return fmt.Errorf("writing the result as %s: %w", format, err)
	}
	write(s.Out, strings.TrimRight(string(text), "\n")+"\n")
	return nil
}

// table writes rows of cells, the first being the heading. Whatever is in a cell, a row is a line.
func table(w io.Writer, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = plain.Text(cell)
		}
		write(t, strings.Join(cells, "\t")+"\n")
	}
	_ = t.Flush() // as in say
}
