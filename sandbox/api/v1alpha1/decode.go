package v1alpha1

import (
	"fmt"
	"path/filepath"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox/internal/strictyaml"
)

// Origins tells where each setting comes from, so that a problem can be shown where its cause is.
// The zero value knows nothing.
type Origins struct {
	file  string
	doc   *strictyaml.Document
	flags map[string]string // flag that has set the field, by field path
	offer map[string]string // flag that can set the field, by field path
}

// Decode reads a configuration file strictly: an unknown field, a field given twice and a value of
// the wrong type are errors. It reports all of them at once; the configuration holds what could be
// read, so that a caller can go on to Complete and report the other problems too. Defaults are not
// set.
func Decode(file string, data []byte) (*Sandbox, *Origins, error) {
	s := &Sandbox{}
	doc, problems := strictyaml.Decode(file, data, s)
	return s, &Origins{file: file, doc: doc}, headed(file, s.TypeMeta, Kind, problems).Err()
}

// headed reports a file without a type, unless it has other problems.
func headed(file string, t metav1.TypeMeta, kind string, problems strictyaml.Problems) strictyaml.Problems {
	if len(problems) > 0 || t.APIVersion != "" || t.Kind != "" {
		return problems
	}
	return strictyaml.Problems{
		{Source: file, Line: 1, Detail: "begin the file with apiVersion: " + APIVersion + " and kind: " + kind}}
}

// DecodeScenario reads a scenario file strictly, as Decode reads a sandbox's. A string that is one
// expression, ${{ … }}, fits a field of any type; the document lists all expressions. Defaults are
// not set. The scenario holds what could be read, whatever the problems are.
func DecodeScenario(file string, source *strictyaml.Source) (*Scenario, *strictyaml.Document, strictyaml.Problems) {
	s := &Scenario{}
	doc, problems := source.Decode(s, strictyaml.Options{Expression: HasExpression})
	return s, doc, headed(file, s.TypeMeta, ScenarioKind, problems)
}

// HasExpression tells whether a string has an expression in it.
func HasExpression(text string) bool { return strings.Contains(text, "${{") }

// SetFlag records that a flag, such as --bases, has set a field.
func (o *Origins) SetFlag(field, flag string) {
	if o.flags == nil {
		o.flags = map[string]string{}
	}
	o.flags[field] = flag
}

// SuggestFlag records the flag of a field that is not set. Without a file, problems of the field are reported with the
// flag.
func (o *Origins) SuggestFlag(field, flag string) {
	if o.offer == nil {
		o.offer = map[string]string{}
	}
	o.offer[field] = flag
}

// IsSet reports whether the file or a flag has set a field.
func (o *Origins) IsSet(field string) bool {
	_, flag := o.flags[field]
	return flag || o.doc.Has(field)
}

// Complete sets the defaults and validates. The working directory of the user's own controller
// becomes absolute: it is relative to the folder of the file. The error lists every problem with
// the line or the flag it comes from; decodeErr, the error of Decode, goes in front.
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
					Detail: fmt.Sprintf("cannot be found: %v", err)})
		}
		c.WorkingDir = dir
	}
	for _, e := range Validate(s) {
		if unread[e.Field] { // what could not be read has been reported
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
