package schema

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"reflect"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// addFault defines faults as package fault has them, in the folder dir: a scenario
// passes them on.
func addFault(s *jsonschema.Schema, dir string) error {
	r := &jsonschema.Reflector{ExpandedStruct: true, Anonymous: true, DoNotReference: true, Mapper: func(t reflect.Type) *jsonschema.Schema {
		if t == reflect.TypeFor[fault.Duration]() {
			return &jsonschema.Schema{Type: "string", Pattern: "^-?" + duration[1:] + `|\$\{\{`, Examples: []any{"5s"}}
		}
		return nil
	}}
	if err := r.AddGoComments(typesPackage, dir); err != nil { // it joins the two to the path of the package
		return fmt.Errorf("reading the comments of faults in %s: %w", dir, err)
	}
	def := r.Reflect(&fault.Fault{})
	def.Version = ""
	share(def)
	loosen(def)
	kinds, err := kindComments(filepath.Join(dir, "fault.go"))
	if err != nil {
		return err
	}
	if p, ok := def.Properties.Get("kind"); ok {
		p.Type = ""
		for _, kind := range fault.Kinds() {
			p.AnyOf = append(p.AnyOf, &jsonschema.Schema{Const: string(kind), Description: kinds[string(kind)]})
		}
		p.AnyOf = append(p.AnyOf, &jsonschema.Schema{Type: "string", Pattern: expression})
	}
	if p, ok := def.Properties.Get("code"); ok {
		codes := &jsonschema.Schema{Type: "string"}
		for _, code := range fault.Codes() {
			codes.Enum = append(codes.Enum, code)
		}
		p.Type, p.AnyOf = "", []*jsonschema.Schema{codes, {Type: "string", Pattern: expression}}
	}
	s.Definitions["Fault"] = def
	reference := func() *jsonschema.Schema { return &jsonschema.Schema{Ref: "#/$defs/Fault"} }
	if p, ok := s.Definitions["FaultSet"].Properties.Get("fault"); ok {
		p.Type, p.Ref = "", reference().Ref
	}
	if p, ok := s.Definitions["BaseSet"].Properties.Get("faults"); ok {
		p.Items = reference()
	}
	return nil
}

// kindComments reads the comment of each kind of fault.
func kindComments(file string) (map[string]string, error) {
	parsed, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.ParseComments)
	if err != nil {
		return nil, fmt.Errorf("reading the kinds of faults: %w", err)
	}
	comments := map[string]string{}
	ast.Inspect(parsed, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 || spec.Doc == nil {
			return true
		}
		if t, ok := spec.Type.(*ast.Ident); !ok || t.Name != "Kind" {
			return true
		}
		if value, ok := spec.Values[0].(*ast.BasicLit); ok {
			kind := strings.Trim(value.Value, `"`)
			comments[kind] = strings.TrimSpace(strings.TrimPrefix(strings.TrimSpace(spec.Doc.Text()), spec.Names[0].Name+" "))
		}
		return true
	})
	return comments, nil
}
