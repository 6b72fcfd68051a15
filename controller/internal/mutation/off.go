//go:build !mutation

package mutation

// The mutations, all off.
const (
	ReverseHandover = false
	RetainCommands  = false
	NoLists         = false
	NeverBlind      = false
	NoMass          = false
	ForgetPlaced    = false
	UninstallFirst  = false
)
