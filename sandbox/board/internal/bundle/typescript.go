package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"reflect"
	"strconv"
	"strings"
)

// typescript writes the types of a Go file as TypeScript, with their comments: structs become
// interfaces, types with constants become unions.
func typescript(name string, source []byte) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.ParseComments|parser.SkipObjectResolution)
	if err != nil {
		return "", fmt.Errorf("reading the types of %s: %w", name, err)
	}
	w := &writer{values: map[string][]string{}}
	w.line("", "// Written from sandbox/board/wire.go by `make generate`. Do not edit.")
	ast.Inspect(file, w.constants)
	for _, d := range file.Decls {
		if g, ok := d.(*ast.GenDecl); ok && g.Tok == token.TYPE {
			for _, s := range g.Specs {
				if t, ok := s.(*ast.TypeSpec); ok {
					w.declaration(g, t)
				}
			}
		}
	}
	return w.text.String(), w.err
}

type writer struct {
	text   strings.Builder
	values map[string][]string // of types with constants
	err    error
}

func (w *writer) line(indent, text string) { w.text.WriteString(indent + text + "\n") }

// constants notes the values of the constants of each type.
func (w *writer) constants(n ast.Node) bool {
	if c, ok := n.(*ast.ValueSpec); ok {
		if t, typed := c.Type.(*ast.Ident); typed {
			for _, v := range c.Values {
				if l, literal := v.(*ast.BasicLit); literal {
					w.values[t.Name] = append(w.values[t.Name], l.Value)
				}
			}
		}
	}
	return true
}

func (w *writer) comment(indent string, c *ast.CommentGroup) {
	for line := range strings.Lines(c.Text()) {
		w.line(indent, strings.TrimRight("// "+strings.TrimSpace(line), " "))
	}
}

func (w *writer) declaration(g *ast.GenDecl, t *ast.TypeSpec) {
	w.line("", "")
	w.comment("", g.Doc)
	s, isStruct := t.Type.(*ast.StructType)
	if !isStruct {
		w.line("", "export type "+t.Name.Name+" = "+strings.Join(w.values[t.Name.Name], " | ")+";")
		return
	}
	w.line("", "export interface "+t.Name.Name+" {")
	for _, f := range s.Fields.List {
		w.comment("  ", f.Doc)
		tag, err := strconv.Unquote(f.Tag.Value)
		if err != nil {
			w.err = err
			return
		}
		name, options, _ := strings.Cut(reflect.StructTag(tag).Get("json"), ",")
		if options != "" {
			name += "?"
		}
		w.line("  ", name+": "+w.typeOf(f.Type)+";")
	}
	w.line("", "}")
}

func (w *writer) typeOf(e ast.Expr) string {
	switch t := e.(type) {
	case *ast.Ident:
		switch t.Name {
		case "int", "int64", "float64":
			return "number"
		case "bool":
			return "boolean"
		}
		return t.Name
	case *ast.ArrayType:
		return w.typeOf(t.Elt) + "[]"
	case *ast.MapType:
		return "Record<string, " + w.typeOf(t.Value) + ">"
	}
	w.err = fmt.Errorf("wire.go: no TypeScript is known for a %T", e)
	return "never"
}
