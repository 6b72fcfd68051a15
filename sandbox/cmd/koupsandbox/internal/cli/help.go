package cli

import (
	"regexp"
	"strings"

	"github.com/urfave/cli/v2"
)

// The categories of flags in the help of commands.
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

// describe returns the description of a command: the text, if it is not empty, followed by the command lines in
// examples.
func describe(text string, examples ...string) string {
	if text != "" {
		text += "\n\n"
	}
	return text + "Examples:\n  " + strings.Join(examples, "\n  ")
}

// urfaveFlagHelp is the default urfave/cli function that renders the help of a flag.
var urfaveFlagHelp = cli.FlagStringer

// valuePrefix matches the placeholder at the start of a usage text.
var valuePrefix = regexp.MustCompile("\t[A-Z][A-Z0-9=:_]*: ")

// flagHelp renders the help of a flag. In a usage text such as "`NAME`: name of the sandbox", the quoted placeholder
// is only for urfave/cli, and flagHelp removes it. It also removes the default value of boolean flags.
func flagHelp(f cli.Flag) string {
	text := valuePrefix.ReplaceAllString(urfaveFlagHelp(f), "\t")
	return strings.Replace(text, " (default: false)", "", 1)
}
