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
	NoMass          = named("no-mass")
	ForgetPlaced    = named("forget-placed")
	UninstallFirst  = named("uninstall-first")
)

func named(mutation string) bool {
	return slices.Contains(strings.Split(os.Getenv("MUTATION"), ","), mutation)
}
