package cli

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// reorder moves the flags of a command in front of its arguments, and global flags in front of the command, because
// urfave/cli requires this order. It does not move words after --. The result path consists of the binary name, the
// parent commands and the command.
func reorder(app *cli.App, line []string) (reordered, path []string) {
	path = []string{app.Name}
	if len(line) < 2 || line[len(line)-1] == completionFlag {
		return line, path
	}
	binary := line[:1:1]
	rest := line[1:]
	known, commands := app.Flags, app.Commands
	var global, commandWords, flags, arguments []string
	for len(rest) > 0 && rest[0] != "--" {
		word := rest[0]
		rest = rest[1:]
		if strings.HasPrefix(word, "-") && word != "-" {
			name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
			defined, list := known, &flags
			if flagNamed(known, name) == nil && flagNamed(app.Flags, name) != nil {
				defined, list = app.Flags, &global
			}
			*list = append(*list, word)
			if takesValue(defined, word) && len(rest) > 0 {
				*list, rest = append(*list, rest[0]), rest[1:]
			}
			continue
		}
		if command := findCommand(commands, word); command != nil && len(arguments) == 0 {
			path = append(path, command.Name)
			if command.SkipFlagParsing {
				return line, path
			}
			commandWords, flags = append(append(commandWords, flags...), word), nil
			known, commands = command.Flags, command.Subcommands
			continue
		}
		arguments = append(arguments, word)
	}
	return slices.Concat(binary, global, commandWords, flags, arguments, rest), path
}

// helpCommand returns the help command that the error message for an invalid command line suggests.
func helpCommand(path []string, err usageError) string {
	var scenario scenarioError
	switch {
	case errors.As(err.error, &scenario):
		return path[0] + " scenario explain"
	case len(path) == 1:
		return path[0] + " help"
	default:
		return strings.Join(path, " ") + " --help"
	}
}

// completionFlag is the flag that shell completion scripts use to request completions.
const completionFlag = "--generate-bash-completion"

// findCommand returns the command with the given name or alias, or nil if it does not exist.
func findCommand(commands []*cli.Command, word string) *cli.Command {
	i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(word) })
	if i < 0 {
		return nil
	}
	return commands[i]
}

// takesValue reports whether the flag consumes the next word as its value.
func takesValue(known []cli.Flag, word string) bool {
	d, ok := flagNamed(known, strings.TrimLeft(word, "-")).(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

// flagNamed returns the flag with the given name or alias, or nil if it does not exist.
func flagNamed(known []cli.Flag, name string) cli.Flag {
	i := slices.IndexFunc(known, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return nil
	}
	return known[i]
}

func flagsOf(c *cli.Context) []cli.Flag { return slices.Concat(c.App.Flags, c.Command.Flags) }

// unknownCommand returns the error for a word that is not a subcommand of parent. The error suggests a similar
// command.
func unknownCommand(commands []*cli.Command, parent, word string) error {
	var names []string
	for _, c := range commands {
		if !c.Hidden {
			names = append(names, c.Names()...)
		}
	}
	return usageError{fmt.Errorf("unknown command %q%s", strings.TrimSpace(parent+" "+word),
		plain.DidYouMean(word, names))}
}

func onUsageError(c *cli.Context, err error, _ bool) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return usageError{invalidValue(c, err)}
	}
	if len(name) == 1 {
		return usageError{fmt.Errorf("unknown flag %s", dashed(name))}
	}
	var names []string
	for _, f := range flagsOf(c) {
		for _, n := range f.Names() {
			names = append(names, dashed(n))
		}
	}
	return usageError{fmt.Errorf("unknown flag %s%s", dashed(name), plain.DidYouMean(dashed(name), names))}
}

// valueErrors matches the errors with which urfave/cli and package flag reject a value that they cannot parse.
var valueErrors = regexp.MustCompile(
	`^(?:could not parse|invalid value|invalid boolean value) ("(?:[^"\\]|\\.)*").* (?:for|for flag) -?([a-z-]+):`)

// invalidValue rewrites an error of urfave/cli about a missing or invalid flag value. It returns all other errors
// unchanged.
func invalidValue(c *cli.Context, err error) error {
	if name, lacks := strings.CutPrefix(err.Error(), "flag needs an argument: -"); lacks {
		return fmt.Errorf("%s requires a value", dashed(name))
	}
	found := valueErrors.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	accepted := ""
	switch flagNamed(flagsOf(c), found[2]).(type) {
	case *cli.IntFlag, *cli.Uint64Flag:
		accepted = "an integer"
	case *cli.DurationFlag:
		accepted = "a duration, such as 90s or 2m"
	case *cli.BoolFlag:
		accepted = "true or false"
	}
	if accepted == "" {
		return err
	}
	return fmt.Errorf("invalid %s %s; use %s", dashed(found[2]), found[1], accepted)
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
