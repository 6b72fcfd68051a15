package main

import (
	_ "embed"
	"fmt"

	"sigs.k8s.io/yaml"
)

// own are the known differences of this repository's controller.
//
//go:embed known.yaml
var own []byte

// sometimes begins the reason of a difference that does not show each time: it may hold.
const sometimes = "sometimes: "

// readKnown reads a file of known differences: expectations by name, and why they do not hold. One
// that names no expectation is a mistake.
func readKnown(text []byte, list []expectation) (map[string]string, error) {
	known := map[string]string{}
	if err := yaml.UnmarshalStrict(text, &known); err != nil {
		return nil, fmt.Errorf("reading the known differences: %w", err)
	}
	names := map[string]bool{}
	for _, e := range list {
		names[e.Name] = true
	}
	for name, reason := range known {
		switch {
		case !names[name]:
			return nil, fmt.Errorf("the known differences name %q, which is no expectation", name)
		case reason == "":
			return nil, fmt.Errorf("the known difference %q has no reason", name)
		}
	}
	return known, nil
}
