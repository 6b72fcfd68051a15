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

const (
	formatText = "text"
	formatWide = "wide"
	formatJSON = "json"
	formatYAML = "yaml"
)

// output chooses the format of a command's result, text if it is not given.
func newOutputFlag(others ...string) *cli.StringFlag {
	formats := slices.Concat([]string{formatText}, others)
	return &cli.StringFlag{Name: outputFlag, Aliases: []string{"o"}, Value: formatText,
		Usage: "`FORMAT` of the result: " + strings.Join(formats, ", "),
		Action: func(_ *cli.Context, format string) error {
			if !slices.Contains(formats, format) {
				return usageError{fmt.Errorf("--output %q is not one of: %s", format, strings.Join(formats, ", "))}
			}
			return nil
		}}
}

// show prints a result: as text by tell, or in the format that was asked for.
func (s *commands) printResult(c *cli.Context, result any, tell func(wide bool)) error {
	switch format := c.String(outputFlag); format {
	case formatJSON, formatYAML:
		return s.printAs(format, result)
	default:
		tell(format == formatWide)
		return nil
	}
}

func (s *commands) printAs(format string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err == nil && format == formatYAML {
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
