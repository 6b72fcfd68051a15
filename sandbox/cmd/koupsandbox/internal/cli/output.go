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

// newOutputFlag returns the flag that selects the output format: text, which is the default, or one of the formats in
// others.
func newOutputFlag(others ...string) *cli.StringFlag {
	formats := slices.Concat([]string{formatText}, others)
	return &cli.StringFlag{Name: outputFlag, Aliases: []string{"o"}, Value: formatText,
		Category: outputCategory, Usage: "`FORMAT`: output format: " + strings.Join(formats, ", "),
		Action: func(_ *cli.Context, format string) error {
			if !slices.Contains(formats, format) {
				return usageError{
					fmt.Errorf("invalid --output %q; use one of: %s", format, strings.Join(formats, ", "))}
			}
			return nil
		}}
}

func newQuietFlag() *cli.BoolFlag {
	return &cli.BoolFlag{Name: "quiet", Aliases: []string{"q"}, Usage: "print only failures", Category: outputCategory}
}

// printResult prints a result in the format that --output selects. It calls printText for the format text.
func (s *commands) printResult(c *cli.Context, result any, printText func(wide bool)) error {
	switch format := c.String(outputFlag); format {
	case formatJSON, formatYAML:
		return s.printAs(format, result)
	default:
		printText(format == formatWide)
		return nil
	}
}

func (s *commands) printAs(format string, value any) error {
	text, err := json.MarshalIndent(value, "", "  ")
	if err == nil && format == formatYAML {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return fmt.Errorf("encoding the result as %s: %w", format, err)
	}
	write(s.Out, strings.TrimRight(string(text), "\n")+"\n")
	return nil
}

// table prints each row of cells on one line, with aligned columns. The first row is the header. It escapes control
// characters in the cells.
func table(w io.Writer, rows [][]string) {
	t := tabwriter.NewWriter(w, 0, 0, 3, ' ', 0)
	for _, row := range rows {
		cells := make([]string, len(row))
		for i, cell := range row {
			cells[i] = plain.Text(cell)
		}
		write(t, strings.Join(cells, "\t")+"\n")
	}
	_ = t.Flush() // see printf
}
