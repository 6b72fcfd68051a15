package strictyaml

import (
	"fmt"
	"regexp"
	"slices"

	"go.yaml.in/yaml/v3"
)

// maxDepth and maxNodes limit the depth and the number of values of a document. The content of an alias is counted
// each time that the alias is used. Files written by hand are far below these limits.
const (
	maxDepth = 100
	maxNodes = 200_000
)

// yaml11Bool matches words that are booleans in YAML 1.1 and strings in YAML 1.2.
var yaml11Bool = regexp.MustCompile(`^(?:[yYnN]|yes|Yes|YES|no|No|NO|on|On|ON|off|Off|OFF)$`)

// resolver replaces the aliases and merge keys in one document.
type resolver struct {
	// manifest reports whether to read booleans as in YAML 1.1, as kubectl does.
	manifest bool
	nodes    int
	problem  *Problem // first problem found; nil if there is none
}

func (r *resolver) fail(kind Kind, line int, format string, args ...any) {
	if r.problem == nil {
		r.problem = &Problem{Kind: kind, Line: line, Detail: fmt.Sprintf(format, args...)}
	}
}

// resolve returns a copy of n in which aliases and merge keys are replaced with their values. Each value keeps its
// own line number. If resolve finds a problem, the copy is incomplete.
func (r *resolver) resolve(n *yaml.Node, depth int) *yaml.Node {
	r.nodes++
	if depth > maxDepth || r.nodes > maxNodes {
		r.fail(TooLarge, n.Line,
			"the document is nested deeper than %d levels, or has more than %d values; simplify it", maxDepth, maxNodes)
	}
	if r.problem != nil {
		return n
	}
	if n.Kind == yaml.AliasNode {
		return r.resolve(n.Alias, depth+1)
	}
	c := *n
	c.Content = nil
	for _, child := range n.Content {
		c.Content = append(c.Content, r.resolve(child, depth+1))
	}
	switch {
	case c.Kind == yaml.MappingNode:
		c.Content = r.merged(&c)
	case r.manifest && c.Style == 0 && c.Tag == "!!str" && yaml11Bool.MatchString(c.Value):
		c.Tag = "!!bool"
	}
	return &c
}

// merged returns the fields of a mapping, including the fields from its merge keys (<<). As in kubectl, a field
// replaces earlier fields with the same name. If the value of a merge key is a list of mappings, earlier mappings
// override later ones. merged keeps duplicate fields, so that the decoder can report them.
func (r *resolver) merged(n *yaml.Node) (content []*yaml.Node) {
	index, fromMerge := map[string]int{}, map[string]bool{} // by the names of fields
	set := func(key, value *yaml.Node, merged bool) {
		i, given := index[key.Value]
		if given && (merged || fromMerge[key.Value]) {
			content[i], content[i+1] = key, value
		} else {
			index[key.Value], content = len(content), append(content, key, value)
		}
		fromMerge[key.Value] = merged
	}
	for i := 0; i+1 < len(n.Content); i += 2 {
		key, value := n.Content[i], n.Content[i+1]
		if key.Tag == "!!bool" && yaml11Bool.MatchString(key.Value) {
			r.fail(InvalidName, key.Line, "kubectl reads the field name %s as %t; quote it (%q)", key.Value,
				isTrue(key), key.Value)
		}
		if key.Tag != "!!merge" {
			set(key, value, false)
			continue
		}
		all := []*yaml.Node{value}
		if value.Kind == yaml.SequenceNode {
			all = value.Content
		}
		for _, from := range slices.Backward(all) {
			if from.Kind != yaml.MappingNode {
				r.fail(InvalidMerge, key.Line, "<< must refer to a mapping or a list of mappings, but has %s",
					describe(from, nil))
			}
			for j := 0; from.Kind == yaml.MappingNode && j+1 < len(from.Content); j += 2 {
				set(from.Content[j], from.Content[j+1], true)
			}
		}
	}
	return content
}
