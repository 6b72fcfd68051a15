package errcode

import "slices"

// Component is a program that Module Controller V2 document 5.6 gives a table of codes.
type Component string

// The components, in the order of the document.
const (
	Arklet           Component = "Arklet"
	ModuleController Component = "ModuleController"
	KouplelessBoard  Component = "KouplelessBoard"
)

// Info is one row of the document's tables.
type Info struct {
	Code Code
	// Component is whose table the row stands in. A code may stand in several tables.
	Component Component
	// Meaning and Suggestion are in English; an empty Suggestion means that the document gives
	// none.
	Meaning, Suggestion string
	// MeaningZH and SuggestionZH are the document's own words.
	MeaningZH, SuggestionZH string
}

// All returns the rows of all three tables in the order of the document. The caller owns the slice.
func All() []Info { return slices.Clone(table[:]) }

// Lookup returns what is known of a code. Of a code that stands in several tables it returns the
// module controller's row, else Arklet's. It returns false if the document does not know the code;
// the spelling must be exact.
func Lookup(code string) (Info, bool) {
	for _, component := range [...]Component{ModuleController, Arklet, KouplelessBoard} {
		if info, ok := LookupIn(component, code); ok {
			return info, true
		}
	}
	return Info{}, false
}

// LookupIn returns the row of a code in the table of one component, and false if there is none.
func LookupIn(component Component, code string) (Info, bool) {
	info, ok := index[key{component, Code(code)}]
	return info, ok
}

type key struct {
	component Component
	code      Code
}

var index = func() map[key]Info {
	m := make(map[key]Info, len(table))
	for _, info := range table {
		m[key{info.Component, info.Code}] = info
	}
	return m
}()
