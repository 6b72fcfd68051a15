package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"path/filepath"
	"reflect"
	"slices"
	"strconv"
	"strings"
)

const module = "github.com/koupleless/koupsandbox/"

// typescript converts the types in a Go file to TypeScript, without comments. It appends the types from other
// packages that these types use. Structs become interfaces, and types with constants become unions of string
// literals. root is the root directory of the Go module.
func typescript(root, name string, source []byte) (string, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, source, parser.SkipObjectResolution)
	if err != nil {
		return "", fmt.Errorf("parsing %s: %w", name, err)
	}
	w := &writer{values: map[string][]string{}, used: map[string][]string{}}
	w.line("", "// Generated from sandbox/board/wire.go, which describes the types, by `make generate`. Do not edit.")
	ast.Inspect(file, w.constants)
	w.declarations(file, nil)
	for _, i := range file.Imports {
		imported := strings.TrimPrefix(strings.Trim(i.Path.Value, `"`), module)
		if err := w.imported(filepath.Join(root, imported), w.used[path.Base(imported)]); err != nil {
			return "", err
		}
	}
	return w.text.String(), w.err
}

func (w *writer) imported(dir string, names []string) error {
	paths, err := filepath.Glob(filepath.Join(dir, "*.go"))
	if err != nil {
		return err
	}
	var files []*ast.File
	for _, p := range paths {
		file, err := parser.ParseFile(token.NewFileSet(), p, nil, parser.SkipObjectResolution)
		if err != nil {
			return fmt.Errorf("parsing %s: %w", p, err)
		}
		ast.Inspect(file, w.constants)
		files = append(files, file)
	}
	for _, file := range files {
		w.declarations(file, names)
	}
	return nil
}

// declarations writes the types in a file whose names are in names. If names is nil, it writes all types.
func (w *writer) declarations(file *ast.File, names []string) {
	for _, d := range file.Decls {
		g, ok := d.(*ast.GenDecl)
		if !ok || g.Tok != token.TYPE {
			continue
		}
		for _, s := range g.Specs {
			if t, ok := s.(*ast.TypeSpec); ok && (names == nil || slices.Contains(names, t.Name.Name)) {
				w.declaration(t)
			}
		}
	}
}

type writer struct {
	text   strings.Builder
	values map[string][]string // constant values by type name
	used   map[string][]string // names of referenced types from other packages, by package name
	err    error
}

func (w *writer) line(indent, text string) { w.text.WriteString(indent + text + "\n") }

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

func (w *writer) declaration(t *ast.TypeSpec) {
	w.line("", "")
	s, isStruct := t.Type.(*ast.StructType)
	if !isStruct {
		w.line("", "export type "+t.Name.Name+" = "+strings.Join(w.values[t.Name.Name], " | ")+";")
		return
	}
	w.line("", "export interface "+t.Name.Name+" {")
	for _, f := range s.Fields.List {
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
	case *ast.SelectorExpr:
		if of, ok := t.X.(*ast.Ident); ok {
			w.used[of.Name] = append(w.used[of.Name], t.Sel.Name)
			return t.Sel.Name
		}
	case *ast.ArrayType:
		return w.typeOf(t.Elt) + "[]"
	case *ast.MapType:
		key := w.typeOf(t.Key)
		if key != "string" { // not all values of an enum must be keys
			return "Partial<Record<" + key + ", " + w.typeOf(t.Value) + ">>"
		}
		return "Record<string, " + w.typeOf(t.Value) + ">"
	}
	w.err = fmt.Errorf("wire.go: unsupported type %T", e)
	return "never"
}
