package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"text/tabwriter"

	levels "github.com/koupleless/koupsandbox/sandbox/bench"
)

// figure is one measured value.
type figure struct {
	Scenario string  `json:"scenario"`
	Name     string  `json:"name"`
	Value    float64 `json:"value"`
	Unit     string  `json:"unit"`
	// Target is what the value should not be above; nil = it has none. Met says
	// whether it is not.
	Target *float64 `json:"target,omitempty"`
	Met    *bool    `json:"met,omitempty"`
	// Existing is what its authors measured of the existing controller, before
	// this project; empty = nothing comparable.
	Existing string `json:"existing,omitempty"`
}

// report is all that was measured, and where.
type report struct {
	Machine levels.Machine `json:"machine"`
	// Quick: with fewer bases, so that targets for many are not judged.
	Quick   bool     `json:"quick,omitempty"`
	Figures []figure `json:"figures"`
}

func (r report) missed() int {
	n := 0
	for _, f := range r.Figures {
		if f.Met != nil && !*f.Met {
			n++
		}
	}
	return n
}

// print writes the table, and which targets were missed.
func (r report) print(w io.Writer) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "SCENARIO\tFIGURE\tVALUE\tUNIT\tTARGET\tMET\tEXISTING")
	for _, f := range r.Figures {
		target, met := "", ""
		if f.Target != nil {
			target, met = fmt.Sprintf("%g", *f.Target), "yes"
			if !*f.Met {
				met = "NO"
			}
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", f.Scenario, f.Name, short(f.Value), f.Unit, target, met, f.Existing)
	}
	if err := t.Flush(); err != nil {
		return fmt.Errorf("printing the figures: %w", err)
	}
	_, err := fmt.Fprintf(w, "\n%s\n", r.Machine)
	if err == nil && r.missed() > 0 {
		_, err = fmt.Fprintf(w, "%d targets were MISSED\n", r.missed())
	}
	if err == nil && r.Quick {
		_, err = fmt.Fprintln(w, "this was a quick run: the figures are for 100 bases")
	}
	return err
}

// short shows as many digits as mean something.
func short(v float64) string {
	switch {
	case v == float64(int64(v)):
		return fmt.Sprintf("%d", int64(v))
	case v < 1:
		return fmt.Sprintf("%.3f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}

func (r report) write(file string) error {
	text, err := json.MarshalIndent(r, "", "  ")
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o644) //nolint:gosec // figures are for everybody
	}
	if err != nil {
		return fmt.Errorf("writing the figures: %w", err)
	}
	return nil
}
