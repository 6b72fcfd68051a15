package main

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"
)

// report is what a run came to.
type report struct {
	Controller string   `json:"controller"`
	Seconds    float64  `json:"seconds"`
	Results    []result `json:"results"`
}

// write writes the report in a format: table, json or markdown.
func (r report) write(out io.Writer, format string) error {
	switch format {
	case "json":
		e := json.NewEncoder(out)
		e.SetIndent("", "  ")
		return e.Encode(r)
	case "markdown":
		return r.markdown(out)
	default:
		return r.table(out)
	}
}

// mark is the outcome as people read it.
func (r result) mark() string {
	switch {
	case r.Known != "" && r.Outcome == fails:
		return "known"
	case r.wrong() != "" && r.Outcome == holds:
		return "HOLDS"
	case r.Outcome == fails && r.Level == must:
		return "FAILS"
	default:
		return string(r.Outcome)
	}
}

// about is the evidence, with the reason of a known difference before it.
func (r result) about() string {
	if r.Known == "" {
		return r.Evidence
	}
	return "[" + r.Known + "] " + r.Evidence
}

func (r report) table(out io.Writer) error {
	wide := 0
	for _, one := range r.Results {
		wide = max(wide, len(one.Name))
	}
	for _, one := range r.Results {
		if _, err := fmt.Fprintf(out, "%-7s  %-8s  %-*s  %s (%s)\n", one.mark(), one.Level, wide, one.Name, one.Text, one.Source); err != nil {
			return err
		}
		if about := one.about(); about != "" {
			if _, err := fmt.Fprintf(out, "%s%s\n", strings.Repeat(" ", 9), about); err != nil {
				return err
			}
		}
	}
	_, err := fmt.Fprintf(out, "\n%s in %.1f s, %s\n", r.counts(), r.Seconds, r.Controller)
	return err
}

func (r report) markdown(out io.Writer) error {
	text := "| Expectation | Level | Source | Result | Evidence |\n|---|---|---|---|---|\n"
	for _, one := range r.Results {
		text += fmt.Sprintf("| `%s`: %s | %s | %s | %s | %s |\n", one.Name, cell(one.Text), one.Level, cell(one.Source), one.mark(), cell(one.about()))
	}
	_, err := fmt.Fprintf(out, "%s\n%s in %.1f s, `%s`.\n", text, r.counts(), r.Seconds, r.Controller)
	return err
}

func cell(s string) string {
	return strings.NewReplacer("|", `\|`, "\n", " ").Replace(s)
}

// counts says how many came out how.
func (r report) counts() string {
	n := map[string]int{}
	for _, one := range r.Results {
		switch m := one.mark(); m {
		case "HOLDS":
			n["stale"]++
		default:
			n[strings.ToLower(m)]++
		}
	}
	return fmt.Sprintf("%d expectations: %d hold, %d fail, %d known differences, %d known ones that hold, %d skipped",
		len(r.Results), n["holds"], n["fails"], n["known"], n["stale"], n["skipped"])
}

// wrong are the results that fail the run, with why.
func (r report) wrong() []string {
	var list []string
	for _, one := range r.Results {
		if why := one.wrong(); why != "" {
			list = append(list, fmt.Sprintf("%s: %s: %s", one.Name, why, one.Evidence))
		}
	}
	return list
}
