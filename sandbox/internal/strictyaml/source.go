package strictyaml

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"regexp"
	"strconv"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// Source is a parsed YAML file, or a part of it.
type Source struct {
	name string
	path string                // path of the field with this value; empty for a whole document
	line int                   // line of the document separator; 0 if there is none
	root *yaml.Node            // nil if there is nothing to decode
	from map[*yaml.Node]string // original text of each value that Expand has replaced
}

// Parse parses data, which must contain one YAML document. name is only used in problems. The returned Source can be
// decoded even if problems are returned.
func Parse(name string, data []byte) (*Source, Problems) {
	sources, problems := parse(name, data, false)
	if len(sources) == 0 {
		if len(problems) == 0 {
			problems = Problems{{Kind: EmptyFile, Source: name, Detail: "the file is empty"}}
		}
		return &Source{name: name}, problems
	}
	if len(sources) > 1 {
		problems = append(problems, Problem{Kind: SecondDocument, Source: name, Line: sources[1].line,
			Detail: "a second document starts here, but only one is read; remove it"})
	}
	return sources[0], problems
}

// ParseAll parses all YAML documents in data. It skips documents that contain only comments. As in kubectl, an
// unquoted on, off, yes, no, y or n is a boolean.
func ParseAll(name string, data []byte) ([]*Source, Problems) {
	all, problems := parse(name, data, true)
	var sources []*Source
	for _, s := range all {
		if s.root.Tag != "!!null" {
			sources = append(sources, s)
		}
	}
	return sources, problems
}

// parse parses all YAML documents in data. If manifest is true, it reads booleans as kubectl does.
func parse(name string, data []byte, manifest bool) ([]*Source, Problems) {
	var sources []*Source
	dec := yaml.NewDecoder(bytes.NewReader(data))
	for {
		var document yaml.Node
		switch err := dec.Decode(&document); {
		case errors.Is(err, io.EOF):
			return sources, nil
		case err != nil:
			return sources, Problems{syntax(name, data, err)}
		}
		if len(document.Content) == 0 {
			continue
		}
		r := resolver{manifest: manifest}
		root := r.resolve(document.Content[0], 0)
		if r.problem != nil {
			r.problem.Source = name
			return sources, Problems{*r.problem}
		}
		sources = append(sources, &Source{name: name, line: document.Line, root: root})
	}
}

// Empty reports whether the Source contains nothing to decode.
func (s *Source) Empty() bool { return s.root == nil }

// Expand returns a copy of the Source in which strings are replaced. It calls value for each string. value returns
// the new value, or false to keep the string.
func (s *Source) Expand(value func(text string) (any, bool)) *Source {
	if s.root == nil {
		return s
	}
	c := &Source{name: s.name, line: s.line, from: map[*yaml.Node]string{}}
	c.root = c.expand(s.root, value)
	return c
}

func (s *Source) expand(n *yaml.Node, value func(string) (any, bool)) *yaml.Node {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		v, replace := value(n.Value)
		if !replace {
			return n
		}
		var c yaml.Node
		if err := c.Encode(v); err != nil { // only plain data can be encoded
			c = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: fmt.Sprint(v)}
		}
		place(&c, n.Line, n.Column)
		s.from[&c] = n.Value
		return &c
	}
	c := *n
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			c.Content[i] = child // a mapping key
			continue
		}
		c.Content[i] = s.expand(child, value)
	}
	return &c
}

func place(n *yaml.Node, line, column int) {
	n.Line, n.Column = line, column
	for _, child := range n.Content {
		place(child, line, column)
	}
}

var syntaxLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntax converts an error of the YAML parser to a problem with a line number.
func syntax(name string, data []byte, err error) Problem {
	text := err.Error()
	m := syntaxLine.FindStringSubmatch(text)
	line := 0
	if len(m) == 2 {
		line, _ = strconv.Atoi(m[1]) // stays 0 (unknown) if the text has no line
		text = text[len(m[0]):]
	}
	p := Problem{Kind: Syntax, Source: name, Line: line, Detail: "invalid YAML: " + text}
	if at, found := syntaxErrorOffset(data); found {
		begin := bytes.LastIndexByte(data[:at], '\n') + 1
		whole, _, _ := bytes.Cut(data[begin:], []byte("\n"))
		p.Line = bytes.Count(data[:at], []byte("\n")) + 1
		p.Excerpt = Excerpt(string(whole), utf8.RuneCount(data[begin:at])+1)
	}
	return p
}
