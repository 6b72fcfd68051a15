package v1alpha1

import (
	"fmt"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
)

// Origins maps each field to the file line or the flag that has set it. Error messages show the line or flag. The
// zero value is empty.
type Origins struct {
	file  string
	doc   *strictyaml.Document
	flags map[string]string // flag that has set a field, by field path
	offer map[string]string // flag that can set a field, by field path
}

// Decode parses a configuration file strictly: an unknown field, a duplicate field and a value of the wrong type are
// errors. The returned error lists all of them. The returned configuration contains all fields that could be parsed,
// so that Complete can report further problems. Decode does not set defaults.
func Decode(file string, data []byte) (*Sandbox, *Origins, error) {
	s := &Sandbox{}
	doc, problems := strictyaml.Decode(file, data, s)
	return s, &Origins{file: file, doc: doc}, checkType(file, s.TypeMeta, Kind, problems).Err()
}

// checkType reports a file without apiVersion and kind, unless the file has other problems.
func checkType(file string, t metav1.TypeMeta, kind string, problems strictyaml.Problems) strictyaml.Problems {
	if len(problems) > 0 || t.APIVersion != "" || t.Kind != "" {
		return problems
	}
	return strictyaml.Problems{
		{Source: file, Line: 1,
			Detail: "the file has no type; begin it with apiVersion: " + APIVersion + " and kind: " + kind}}
}

// DecodeScenario parses a scenario file strictly, like Decode. A string that consists of one expression, ${{ … }}, is
// valid for a field of any type. The returned document lists all expressions, and the scenario contains all fields
// that could be parsed. DecodeScenario does not set defaults.
func DecodeScenario(file string, source *strictyaml.Source) (*Scenario, *strictyaml.Document, strictyaml.Problems) {
	s := &Scenario{}
	doc, problems := source.Decode(s, strictyaml.Options{Expression: HasExpression})
	return s, doc, checkType(file, s.TypeMeta, ScenarioKind, problems)
}

// HasExpression reports whether a string contains an expression.
func HasExpression(text string) bool { return strings.Contains(text, "${{") }

// SetFlag records that a command-line flag, such as --bases, has set a field.
func (o *Origins) SetFlag(field, flag string) {
	if o.flags == nil {
		o.flags = map[string]string{}
	}
	o.flags[field] = flag
}

// SuggestFlag records the flag that can set a field. If there is no file and the field is not set, problems of the
// field are reported with the name of this flag.
func (o *Origins) SuggestFlag(field, flag string) {
	if o.offer == nil {
		o.offer = map[string]string{}
	}
	o.offer[field] = flag
}

// IsSet reports whether the configuration file or a flag has set a field.
func (o *Origins) IsSet(field string) bool {
	_, flag := o.flags[field]
	return flag || o.doc.Has(field)
}

// Complete sets the defaults of a configuration and validates it. A relative working directory of a custom controller
// is resolved against the directory of the file. The error lists the problems in decodeErr, the error of Decode, and
// then every other problem with its line or flag.
func Complete(s *Sandbox, origins *Origins, decodeErr error) error {
	SetDefaults(s)
	problems, _ := decodeErr.(strictyaml.Problems) //nolint:errorlint // Decode returns it unwrapped.
	unread := map[string]bool{}
	for _, p := range problems {
		unread[p.Field] = true
	}
	if c := &s.Spec.Controller; len(c.Command) > 0 && !filepath.IsAbs(c.WorkingDir) {
		dir, err := filepath.Abs(filepath.Join(filepath.Dir(origins.file), c.WorkingDir))
		if err != nil {
			problems = append(problems,
				strictyaml.Problem{Field: "spec.controller.workingDir",
					Detail: fmt.Sprintf("cannot be resolved: %v", err)})
		}
		c.WorkingDir = dir
	}
	for _, e := range Validate(s) {
		if unread[e.Field] { // Decode has reported it
			continue
		}
		p := strictyaml.Problem{Field: e.Field, Detail: e.ErrorBody()}
		if flag, ok := origins.flags[e.Field]; ok {
			p.Source, p.Field = flag, ""
		} else if origins.file != "" {
			p.Source, p.Line = origins.file, origins.doc.Line(e.Field)
		} else if flag, ok := origins.offer[e.Field]; ok {
			p.Source, p.Field = flag, ""
		}
		problems = append(problems, p)
	}
	return problems.Err()
}
