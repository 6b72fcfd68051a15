package cli

import (
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"
)

// Categories of flags in the help of commands.
const (
	basesCategory      = "BASES"
	boardCategory      = "WEB UI"
	brokerCategory     = "BROKER"
	clusterCategory    = "CLUSTER"
	controllerCategory = "CONTROLLER"
	faultsCategory     = "FAULTS"
	lintCategory       = "LINT"
	outputCategory     = "OUTPUT"
	runsCategory       = "RUNS"
	sandboxCategory    = "SANDBOX"
)

// describe returns the description of a command: the text, if there is any, and command lines as examples.
func describe(text string, examples ...string) string {
	if text != "" {
		text += "\n\n"
	}
	return text + "Examples:\n  " + strings.Join(examples, "\n  ")
}

// urfaveFlagHelp renders a flag as urfave/cli does by default.
var urfaveFlagHelp = cli.FlagStringer

// valuePrefix matches the placeholder in front of a usage.
var valuePrefix = regexp.MustCompile("\t[A-Z][A-Z0-9=:_]*: ")

// flagHelp renders a flag for the help. A usage is written as "`NAME`: name of the sandbox": urfave/cli takes the
// placeholder from it, and flagHelp removes the placeholder from the text. It also removes the default of boolean
// flags.
func flagHelp(f cli.Flag) string {
	text := valuePrefix.ReplaceAllString(urfaveFlagHelp(f), "\t")
	return strings.Replace(text, " (default: false)", "", 1)
}
