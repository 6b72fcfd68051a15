package strictyaml

import (
	"fmt"

	"go.yaml.in/yaml/v3"
)

// The limits of a file, counting an alias as often as it is used. They are far above handwritten files.
const (
	maxDepth = 100
	maxNodes = 200_000
)

// mergeTag is the tag of the key <<.
const mergeTag = "!!merge"

// resolver replaces the aliases and merge keys of one document.
type resolver struct {
	name     string
	first    int // line of the document's root
	nodes    int
	problems Problems
}

func (r *resolver) problem(line int, format string, args ...any) {
	r.problems = append(r.problems, Problem{Source: r.name, Line: line, Detail: fmt.Sprintf(format, args...)})
}

// resolve returns a copy of n in which the values of aliases and merge keys replace them. Each value
// keeps its own line. When the document exceeds a limit, resolve reports it once and returns n.
func (r *resolver) resolve(n *yaml.Node, depth int) *yaml.Node {
	if r.nodes++; depth > maxDepth || r.nodes > maxNodes {
		if r.nodes <= maxNodes || r.nodes == maxNodes+1 {
			r.problem(r.first, "the document is nested deeper than %d levels, or has more than %d values: simplify it", maxDepth, maxNodes)
		}
		r.nodes = maxNodes + 1
		return n
	}
	if n.Kind == yaml.AliasNode {
		return r.resolve(n.Alias, depth+1)
	}
	c := *n
	c.Content = nil
	for _, child := range n.Content {
		c.Content = append(c.Content, r.resolve(child, depth+1))
		if r.nodes > maxNodes {
			return n
		}
	}
	if c.Kind == yaml.MappingNode {
		r.merge(&c)
	}
	return &c
}

// merge replaces the key << of a mapping by the fields of the mappings that it names. A field of the
// mapping itself overrides a merged one, and an earlier mapping of a list overrides a later one.
func (r *resolver) merge(n *yaml.Node) {
	own, merged := map[string]bool{}, []*yaml.Node(nil)
	var content []*yaml.Node
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag != mergeTag {
			own[key.Value] = true
			content = append(content, key, value)
			continue
		}
		if merged != nil {
			r.problem(key.Line, "<< is given twice: give it once, with a list such as [*a, *b]")
			continue
		}
		merged = []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			merged = value.Content
		}
		for _, from := range merged {
			if from.Kind != yaml.MappingNode {
				r.problem(key.Line, "<< must name a mapping or a list of mappings, but has %s", describe(from))
				return
			}
			r.order(from, own)
		}
	}
	for _, from := range merged {
		for i := 0; i+1 < len(from.Content); i += 2 {
			if key := from.Content[i]; !own[key.Value] {
				own[key.Value] = true
				content = append(content, key, from.Content[i+1])
			}
		}
	}
	n.Content = content
}

// order reports fields that are in front of << and among the merged ones. kubectl takes the merged value
// then, and other programs take the field in front.
func (r *resolver) order(from *yaml.Node, before map[string]bool) {
	for i := 0; i < len(from.Content); i += 2 {
		if key := from.Content[i]; before[key.Value] {
			r.problem(key.Line, "a mapping that merges this field with << sets %q in front of <<, where kubectl ignores it: put << first in that mapping", key.Value)
		}
	}
}
