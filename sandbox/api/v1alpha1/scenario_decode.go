package v1alpha1

import (
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
)

// DecodeScenario reads a scenario file strictly, as Decode reads a sandbox's. A
// string that is one expression, ${{ … }}, fits a field of any type; the document
// lists all expressions. Defaults are not set. The scenario holds what could be
// read, whatever the problems are.
func DecodeScenario(file string, source *strictyaml.Source) (*Scenario, *strictyaml.Document, strictyaml.Problems) {
	s := &Scenario{}
	doc, problems := source.Decode(s, strictyaml.Options{Expression: HasExpression})
	if len(problems) == 0 && s.APIVersion == "" && s.Kind == "" {
		problems = append(problems, strictyaml.Problem{Source: file, Line: 1,
			Detail: "begin the file with apiVersion: " + APIVersion + " and kind: " + ScenarioKind})
	}
	return s, doc, problems
}

// HasExpression tells whether a string has an expression in it.
func HasExpression(text string) bool { return strings.Contains(text, "${{") }
