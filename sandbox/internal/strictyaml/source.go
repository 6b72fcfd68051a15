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

// The bounds of a file, aliases counted as often as they are used: far more than a person writes,
// and little enough for a file that means harm.
const (
	maxDepth = 100
	maxNodes = 200_000
)

// Source is a YAML file that has been parsed.
type Source struct {
	name string
	line int        // of its ---, if there is one
	root *yaml.Node // nil: there is nothing to decode
}

// Parse reads the one YAML document in data. Name is used in the problems only. The source can be
// decoded whatever the problems are.
func Parse(name string, data []byte) (*Source, Problems) {
	sources, problems := parse(name, data)
	if len(sources) == 0 {
		if len(problems) == 0 {
			problems = Problems{{Source: name, Detail: "the file is empty"}}
		}
		return &Source{name: name}, problems
	}
	if len(sources) > 1 {
		problems = append(problems, Problem{Source: name, Line: sources[1].line,
			Detail: "a second document starts here, but only one is read: remove it"})
	}
	return sources[0], problems
}

// ParseAll reads all YAML documents in data, without those that hold nothing but comments.
func ParseAll(name string, data []byte) ([]*Source, Problems) {
	all, problems := parse(name, data)
	var sources []*Source
	for _, s := range all {
		if s.root.Tag != "!!null" {
			sources = append(sources, s)
		}
	}
	return sources, problems
}

func parse(name string, data []byte) ([]*Source, Problems) {
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
		nodes := 0
		root, err := resolve(document.Content[0], 0, &nodes)
		if err != nil {
			return sources, Problems{{Source: name, Line: document.Content[0].Line, Detail: err.Error()}}
		}
		sources = append(sources, &Source{name: name, line: document.Line, root: root})
	}
}

// resolve copies a tree, with what aliases stand for in their places.
func resolve(n *yaml.Node, depth int, nodes *int) (*yaml.Node, error) {
	if *nodes++; depth > maxDepth || *nodes > maxNodes {
		return nil, fmt.Errorf("is nested deeper than %d levels, or has more than %d values: simplify it", maxDepth, maxNodes)
	}
	if n.Kind == yaml.AliasNode {
		return resolve(n.Alias, depth+1, nodes)
	}
	c := *n
	c.Content = nil
	for _, child := range n.Content {
		child, err := resolve(child, depth+1, nodes)
		if err != nil {
			return nil, err
		}
		c.Content = append(c.Content, child)
	}
	return &c, nil
}

// Empty tells whether there is nothing to decode.
func (s *Source) Empty() bool { return s.root == nil }

// Line is the line of the source's first field; 0 when it is empty.
func (s *Source) Line() int {
	if s.root == nil {
		return 0
	}
	return s.root.Line
}

// Expand returns a copy in which strings are replaced: value gets each and tells what to put in its
// place, or false to leave it.
func (s *Source) Expand(value func(text string) (any, bool)) *Source {
	if s.root == nil {
		return s
	}
	return &Source{name: s.name, line: s.line, root: expand(s.root, value)}
}

func expand(n *yaml.Node, value func(string) (any, bool)) *yaml.Node {
	if n.Kind == yaml.ScalarNode && n.Tag == "!!str" {
		v, replace := value(n.Value)
		if !replace {
			return n
		}
		var c yaml.Node
		if err := c.Encode(v); err != nil { // not plain data: a mistake of the caller
			c = yaml.Node{Kind: yaml.ScalarNode, Tag: "!!str", Value: fmt.Sprint(v)}
		}
		place(&c, n.Line, n.Column)
		return &c
	}
	c := *n
	c.Content = make([]*yaml.Node, len(n.Content))
	for i, child := range n.Content {
		if n.Kind == yaml.MappingNode && i%2 == 0 {
			c.Content[i] = child // a key
			continue
		}
		c.Content[i] = expand(child, value)
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

// syntax turns the parser's error, which bears its line in its text, into a problem.
func syntax(name string, data []byte, err error) Problem {
	text := err.Error()
	m := syntaxLine.FindStringSubmatch(text)
	line := 0
	if len(m) == 2 {
		line, _ = strconv.Atoi(m[1]) // no line in the text leaves 0, "not known"
		text = text[len(m[0]):]
	}
	p := Problem{Source: name, Line: line, Detail: "this is not YAML: " + text}
	if at, found := where(data); found {
		begin := bytes.LastIndexByte(data[:at], '\n') + 1
		whole, _, _ := bytes.Cut(data[begin:], []byte("\n"))
		p.Line = bytes.Count(data[:at], []byte("\n")) + 1
		p.Excerpt = Excerpt(string(whole), utf8.RuneCount(data[begin:at])+1)
	}
	return p
}
