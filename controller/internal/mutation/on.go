//go:build mutation

package mutation

import (
	"os"
	"slices"
	"strings"
)

// The mutations, as MUTATION names them.
var (
	ReverseHandover = named("reverse-handover")
	RetainCommands  = named("retain-commands")
	NoLists         = named("no-lists")
	NeverBlind      = named("never-blind")
)

func named(mutation string) bool {
	return slices.Contains(strings.Split(os.Getenv("MUTATION"), ","), mutation)
}
