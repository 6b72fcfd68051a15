package errcode

import "slices"

// Component is a Koupleless component with a table of error codes in the document.
type Component string

// Components with error codes, in the order of the document.
const (
	Arklet           Component = "Arklet"
	ModuleController Component = "ModuleController"
	KouplelessBoard  Component = "KouplelessBoard"
)

// Info is one row of an error code table in the document.
type Info struct {
	Code Code
	// Component is the component whose table contains the row. A code can be in several tables.
	Component Component
	// Meaning and Suggestion are English texts. Suggestion may be empty.
	Meaning, Suggestion string
	// MeaningZH and SuggestionZH are the Chinese texts of the document.
	MeaningZH, SuggestionZH string
}

// All returns the rows of all tables in document order. The caller owns the slice.
func All() []Info { return slices.Clone(table[:]) }

// Lookup returns the row for a code from the first table that contains the code, or false if no table does. It
// searches the tables in the order ModuleController, Arklet, KouplelessBoard.
func Lookup(code string) (Info, bool) {
	for _, component := range [...]Component{ModuleController, Arklet, KouplelessBoard} {
		if info, ok := LookupIn(component, code); ok {
			return info, true
		}
	}
	return Info{}, false
}

// LookupIn returns the row for a code from the table of one component, or false if the table does not contain the
// code.
func LookupIn(component Component, code string) (Info, bool) {
	i := slices.IndexFunc(table[:],
		func(info Info) bool { return info.Component == component && string(info.Code) == code })
	if i < 0 {
		return Info{}, false
	}
	return table[i], true
}
