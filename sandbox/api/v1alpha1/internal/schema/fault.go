package schema

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// addFault replaces the schema definition of a fault with a definition that lists the fault kinds of each target. dir
// is the directory of the API types, and bases is the directory of package fault.
func addFault(s *jsonschema.Schema, dir, bases string) error {
	r := &jsonschema.Reflector{ExpandedStruct: true, Anonymous: true, DoNotReference: true, Mapper: mapScenario}
	for _, of := range []string{dir, bases} {
		if err := comments(r, of); err != nil {
			return err
		}
	}
	def := r.Reflect(&v1alpha1.Fault{})
	def.Version = ""
	copyComments(def)
	loosen(def)
	kind, _ := def.Properties.Get("kind")
	kind.Type = ""
	for _, target := range v1alpha1.FaultTargets {
		file := filepath.Join(dir, "fault.go")
		if target == v1alpha1.TargetBase {
			file = filepath.Join(bases, "fault.go")
		}
		kinds, err := kindComments(file, target)
		if err != nil {
			return err
		}
		for _, k := range target.Kinds() {
			kind.AnyOf = append(kind.AnyOf,
				&jsonschema.Schema{Const: string(k), Title: string(target), Description: kinds[string(k)]})
		}
	}
	kind.AnyOf = append(kind.AnyOf, &jsonschema.Schema{Type: "string", Pattern: expression})
	codes := &jsonschema.Schema{Type: "string"}
	for _, code := range fault.Codes() {
		codes.Enum = append(codes.Enum, code)
	}
	code, _ := def.Properties.Get("code")
	code.Type, code.AnyOf = "", []*jsonschema.Schema{codes, {Type: "string", Pattern: expression}}
	s.Definitions["Fault"] = def
	for _, inlined := range []string{"FaultMatch", "Delay", "Restart"} {
		delete(s.Definitions, inlined)
	}
	return nil
}

func kindComments(file string, target v1alpha1.FaultTarget) (map[string]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("parsing the fault kinds: %w", err)
	}
	comments := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || spec.Doc == nil {
			return true
		}
		prefix := map[v1alpha1.FaultTarget]string{v1alpha1.TargetBase: "Kind", v1alpha1.TargetAPI: "API",
			v1alpha1.TargetMQTT: "MQTT"}[target]
		if !strings.HasPrefix(spec.Names[0].Name, prefix) {
			return true
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok {
			kind := strings.Trim(value.Value, `"`)
			comments[kind] = strings.TrimSpace(
				strings.TrimPrefix(strings.TrimSpace(spec.Doc.Text()), spec.Names[0].Name+" "))
		}
		return true
	})
	return comments, nil
}
