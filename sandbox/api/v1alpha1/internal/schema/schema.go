// Package schema generates the JSON schemas of configuration files and scenario files from their Go types. It is a
// separate package so that koupsandbox does not link the generator.
package schema

import (
	"encoding/json"
	"fmt"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

const (
	// File is the file name of the JSON schema for configuration files, in the directory of the API types.
	File = "sandbox.schema.json"
	// ScenarioFile is the file name of the JSON schema for scenario files.
	ScenarioFile = "scenario.schema.json"
)

// Files maps the name of each schema file to the function that generates it.
var Files = map[string]func(dir string) ([]byte, error){File: Generate, ScenarioFile: GenerateScenario}

const (
	typesPackage = "github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	// expression matches a string that consists of one expression. Such a string is valid for a field of any type.
	expression = `^\s*\$\{\{[\s\S]*\}\}\s*$`
	duration   = `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`
)

// Generate returns the JSON schema for configuration files. The descriptions in the schema are the comments in the Go
// files of dir, the directory of the API types.
func Generate(dir string) ([]byte, error) {
	r := &jsonschema.Reflector{ExpandedStruct: true, DoNotReference: true, Mapper: durations}
	if err := comments(r, dir); err != nil {
		return nil, err
	}
	s := r.Reflect(&v1alpha1.Sandbox{})
	return encode(s, File, v1alpha1.Kind)
}

// GenerateScenario returns the JSON schema for scenario files, like Generate. The schema also allows expressions for
// numbers, booleans, durations and lists.
func GenerateScenario(dir string) ([]byte, error) {
	r := &jsonschema.Reflector{ExpandedStruct: true, Anonymous: true, Mapper: mapScenario}
	if err := comments(r, dir); err != nil {
		return nil, err
	}
	s := r.Reflect(&v1alpha1.Scenario{})
	for _, definition := range s.Definitions {
		copyComments(definition)
		loosen(definition)
	}
	if err := addFault(s, dir, filepath.Join(dir, "..", "..", "..", "fakebase", "fault")); err != nil {
		return nil, err
	}
	faultExamples(s.Definitions["Fault"])
	return encode(s, ScenarioFile, v1alpha1.ScenarioKind)
}

func comments(r *jsonschema.Reflector, dir string) error {
	if err := r.AddGoComments(typesPackage, dir); err != nil {
		return fmt.Errorf("reading the comments of the types in %s: %w", dir, err)
	}
	return nil
}

func encode(s *jsonschema.Schema, file, kind string) ([]byte, error) {
	s.ID = jsonschema.ID("https://koupleless.io/schemas/sandbox/v1alpha1/" + file)
	s.Title = kind
	if kind == v1alpha1.Kind {
		s.Required = []string{"apiVersion", "kind"}
	} else {
		s.Required = []string{"apiVersion", "kind", "metadata", "spec"}
	}
	for name, only := range map[string]string{"apiVersion": v1alpha1.APIVersion, "kind": kind} {
		if p, ok := s.Properties.Get(name); ok {
			p.Enum = []any{only}
		}
	}
	describeDefaults(s)
	for _, definition := range s.Definitions {
		describeDefaults(definition)
	}
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the schema: %w", err)
	}
	return append(out, '\n'), nil
}

func durations(t reflect.Type) *jsonschema.Schema {
	if t == reflect.TypeFor[metav1.Duration]() {
		return &jsonschema.Schema{Type: "string", Pattern: duration, Examples: []any{"90s", "2m"}}
	}
	return nil
}

func mapScenario(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[v1alpha1.Any]():
		return &jsonschema.Schema{}
	case reflect.TypeFor[v1alpha1.Object]():
		return &jsonschema.Schema{Type: "object"}
	case reflect.TypeFor[fault.Duration]():
		return &jsonschema.Schema{Type: "string", Pattern: "^-?" + duration[1:] + `|\$\{\{`, Examples: []any{"5s"}}
	}
	return durations(t)
}

// copyComments copies the comment of a field to the next field if the next field has no comment and the comment names
// it.
func copyComments(s *jsonschema.Schema) {
	before := ""
	for pair := s.Properties.Oldest(); pair != nil; pair = pair.Next() {
		p := pair.Value
		if p.Description == "" && strings.Contains(strings.ToLower(before), strings.ToLower(pair.Key)) {
			p.Description = before
		}
		before = p.Description
	}
}

// describeDefaults appends the default of each field to its description.
func describeDefaults(s *jsonschema.Schema) {
	for pair := s.Properties.Oldest(); pair != nil; pair = pair.Next() {
		p := pair.Value
		if p.Default != nil {
			p.Description += fmt.Sprintf(" Default: %v.", p.Default)
		}
		describeDefaults(p)
	}
}

// loosen changes the schema to allow an expression in every property that is not a string.
func loosen(s *jsonschema.Schema) {
	for pair := s.Properties.Oldest(); pair != nil; pair = pair.Next() {
		p := pair.Value
		switch {
		case p.Properties != nil:
			loosen(p)
		case p.Type == "string" && p.Pattern == duration:
			p.Pattern = duration + `|\$\{\{`
		case p.Type == "string" && len(p.Enum) > 0:
			pair.Value = orExpression(p)
		case p.Type == "array" && p.Items != nil && p.Items.Type != "string":
			// A list of objects stays a list. Otherwise editors could not show the position of an error in it.
		case p.Type == "integer" || p.Type == "boolean" || p.Type == "array":
			pair.Value = orExpression(p)
		}
	}
}

// orExpression returns a schema that accepts either values of the given schema or an expression.
func orExpression(s *jsonschema.Schema) *jsonschema.Schema {
	described := &jsonschema.Schema{Description: s.Description, Default: s.Default,
		AnyOf: []*jsonschema.Schema{s, {Type: "string", Pattern: expression}}}
	s.Description, s.Default = "", nil
	return described
}
