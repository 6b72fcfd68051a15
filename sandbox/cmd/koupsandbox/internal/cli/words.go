package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

// ordered puts the flags of a command line in front of the arguments of its command, where
// urfave/cli looks for them. What comes after -- stays as it is.
func ordered(app *cli.App, line []string) []string {
	if len(line) < 2 || line[len(line)-1] == completionFlag {
		return line
	}
	out, rest := line[:1:1], line[1:]
	known, commands := app.Flags, app.Commands
	var flags, arguments []string
	for len(rest) > 0 && rest[0] != "--" {
		word := rest[0]
		rest = rest[1:]
		if strings.HasPrefix(word, "-") && word != "-" {
			flags = append(flags, word)
			if takesNext(known, word) && len(rest) > 0 {
				flags, rest = append(flags, rest[0]), rest[1:]
			}
			continue
		}
		if command := called(commands, word); command != nil && len(arguments) == 0 {
			if command.SkipFlagParsing {
				return line
			}
			out, flags = append(append(out, flags...), word), nil
			known, commands = command.Flags, command.Subcommands
			continue
		}
		arguments = append(arguments, word)
	}
	return slices.Concat(out, flags, arguments, rest)
}

// completionFlag is what shells add to ask for what may come next.
const completionFlag = "--generate-bash-completion"

func called(commands []*cli.Command, word string) *cli.Command {
	i := slices.IndexFunc(commands, func(c *cli.Command) bool { return c.HasName(word) })
	if i < 0 {
		return nil
	}
	return commands[i]
}

// takesNext tells whether the word after a flag is its value.
func takesNext(known []cli.Flag, word string) bool {
	name := strings.TrimLeft(word, "-")
	for _, f := range known {
		if d, ok := f.(cli.DocGenerationFlag); ok && slices.Contains(f.Names(), name) {
			return d.TakesValue()
		}
	}
	return false
}

// noCommand is what is wrong with a word that is no command; of are the commands that there are.
func noCommand(of []*cli.Command, before, word string) error {
	var names []string
	for _, c := range of {
		if !c.Hidden {
			names = append(names, c.Names()...)
		}
	}
	return usageError{fmt.Errorf("there is no command %q%s", strings.TrimSpace(before+" "+word), plain.Meant(word, names))}
}

// onUsageError says which flag may have been meant.
func onUsageError(c *cli.Context, err error, _ bool) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return usageError{err}
	}
	if len(name) == 1 {
		return usageError{fmt.Errorf("there is no flag -%s here", name)}
	}
	var names []string
	for _, f := range append(slices.Clone(c.App.Flags), c.Command.Flags...) {
		for _, n := range f.Names() {
			names = append(names, "--"+n)
		}
	}
	return usageError{fmt.Errorf("there is no flag --%s here%s", name, plain.Meant("--"+name, names))}
}
