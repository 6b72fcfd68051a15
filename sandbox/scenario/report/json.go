package report

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"

	"github.com/koupleless/koupsandbox/sandbox/scenario"
)

// WriteJSON writes the report as indented JSON. The package comment describes the format.
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
