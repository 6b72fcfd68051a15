// Package schema generates the JSON schema of the configuration file from its Go
// types; it is apart so that the sandbox itself does not link the generator.
package schema

import (
	"encoding/json"
	"fmt"
	"reflect"

	"github.com/invopop/jsonschema"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// File is the name of the schema file in the folder of the types.
const File = "sandbox.schema.json"

// Generate returns the JSON schema of a configuration file, from the types and
// from the comments in the Go files of dir, which is the folder of the types.
func Generate(dir string) ([]byte, error) {
	r := &jsonschema.Reflector{
		ExpandedStruct: true,
		DoNotReference: true,
		Mapper: func(t reflect.Type) *jsonschema.Schema {
			if t == reflect.TypeFor[metav1.Duration]() {
				return &jsonschema.Schema{
					Type:     "string",
					Pattern:  `^([0-9]+(\.[0-9]+)?(ns|us|µs|ms|s|m|h))+$`,
					Examples: []any{"90s", "2m"},
				}
			}
			return nil
		},
	}
	if err := r.AddGoComments("github.com/koupleless/koupsandbox/sandbox/api/v1alpha1", dir); err != nil {
		return nil, fmt.Errorf("reading the comments of the types in %s: %w", dir, err)
	}
	s := r.Reflect(&v1alpha1.Sandbox{})
	s.ID = "https://koupleless.io/schemas/sandbox/v1alpha1/" + File
	s.Title = "Sandbox"
	s.Required = []string{"apiVersion", "kind"}
	for name, only := range map[string]string{"apiVersion": v1alpha1.APIVersion, "kind": v1alpha1.Kind} {
		if p, ok := s.Properties.Get(name); ok {
			p.Enum = []any{only}
		}
	}
	out, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("writing the schema: %w", err)
	}
	return append(out, '\n'), nil
}
