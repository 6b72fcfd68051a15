package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// WriteJSON writes the report itself, indented, as the package comment describes.
func WriteJSON(w io.Writer, r *scenario.Report) error {
	buffer := bufio.NewWriter(w)
	e := json.NewEncoder(buffer)
	e.SetIndent("", "  ")
	if err := e.Encode(r); err != nil {
		return fmt.Errorf("writing the JSON report: %w", err)
	}
	if err := buffer.Flush(); err != nil {
		return fmt.Errorf("writing the JSON report: %w", err)
	}
	return nil
}
