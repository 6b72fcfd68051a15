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

// ordered puts the flags of a command line in front of the arguments of its command, and global flags in front of the
// command, where urfave/cli looks for them. What comes after -- stays as it is. path is the command, from the program's
// name on.
func ordered(app *cli.App, line []string) (out, path []string) {
	path = []string{app.Name}
	if len(line) < 2 || line[len(line)-1] == completionFlag {
		return line, path
	}
	program := line[:1:1]
	rest := line[1:]
	known, commands := app.Flags, app.Commands
	var global, flags, arguments []string
	for len(rest) > 0 && rest[0] != "--" {
		word := rest[0]
		rest = rest[1:]
		if strings.HasPrefix(word, "-") && word != "-" {
			name, _, _ := strings.Cut(strings.TrimLeft(word, "-"), "=")
			of, into := known, &flags
			if flagNamed(known, name) == nil && flagNamed(app.Flags, name) != nil {
				of, into = app.Flags, &global
			}
			*into = append(*into, word)
			if takesNext(of, word) && len(rest) > 0 {
				*into, rest = append(*into, rest[0]), rest[1:]
			}
			continue
		}
		if command := called(commands, word); command != nil && len(arguments) == 0 {
			path = append(path, command.Name)
			if command.SkipFlagParsing {
				return line, path
			}
			out, flags = append(append(out, flags...), word), nil
			known, commands = command.Flags, command.Subcommands
			continue
		}
		arguments = append(arguments, word)
	}
	return slices.Concat(program, global, out, flags, arguments, rest), path
}

// topic is the command whose output answers a mistake of the user's.
func topic(path []string, err usageError) string {
	var scenario inScenario
	switch {
	case errors.As(err.error, &scenario):
		return path[0] + " scenario explain"
	case len(path) == 1:
		return path[0] + " help"
	default:
		return strings.Join(path, " ") + " --help"
	}
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
	d, ok := flagNamed(known, strings.TrimLeft(word, "-")).(cli.DocGenerationFlag)
	return ok && d.TakesValue()
}

func flagNamed(known []cli.Flag, name string) cli.Flag {
	i := slices.IndexFunc(known, func(f cli.Flag) bool { return slices.Contains(f.Names(), name) })
	if i < 0 {
		return nil
	}
	return known[i]
}

func flagsOf(c *cli.Context) []cli.Flag { return slices.Concat(c.App.Flags, c.Command.Flags) }

// noCommand is what is wrong with a word that is no command; of are the commands that there are.
func noCommand(of []*cli.Command, before, word string) error {
	var names []string
	for _, c := range of {
		if !c.Hidden {
			names = append(names, c.Names()...)
		}
	}
	return usageError{fmt.Errorf("there is no command %q%s", strings.TrimSpace(before+" "+word),
		plain.DidYouMean(word, names))}
}

func onUsageError(c *cli.Context, err error, _ bool) error {
	name, unknown := strings.CutPrefix(err.Error(), "flag provided but not defined: -")
	if !unknown {
		return usageError{badValue(c, err)}
	}
	if len(name) == 1 {
		return usageError{fmt.Errorf("there is no flag %s here", dashed(name))}
	}
	var names []string
	for _, f := range flagsOf(c) {
		for _, n := range f.Names() {
			names = append(names, dashed(n))
		}
	}
	return usageError{fmt.Errorf("there is no flag %s here%s", dashed(name), plain.DidYouMean(dashed(name), names))}
}

// valueErrors is how urfave/cli, and package flag below it, say that a value cannot be read.
var valueErrors = regexp.MustCompile(
	`^(?:could not parse|invalid value|invalid boolean value) ("(?:[^"\\]|\\.)*").* (?:for|for flag) -?([a-z-]+):`)

// badValue says in other words that a flag needs a value, or cannot read the one that it has.
func badValue(c *cli.Context, err error) error {
	if name, lacks := strings.CutPrefix(err.Error(), "flag needs an argument: -"); lacks {
		return fmt.Errorf("%s needs a value", dashed(name))
	}
	found := valueErrors.FindStringSubmatch(err.Error())
	if found == nil {
		return err
	}
	what := ""
	switch flagNamed(flagsOf(c), found[2]).(type) {
	case *cli.IntFlag, *cli.Uint64Flag:
		what = "a whole number"
	case *cli.DurationFlag:
		what = "a time with its unit, such as 90s or 2m"
	case *cli.BoolFlag:
		what = "true or false"
	}
	if what == "" {
		return err
	}
	return fmt.Errorf("%s is %s: use %s", dashed(found[2]), found[1], what)
}

func dashed(name string) string {
	if len(name) == 1 {
		return "-" + name
	}
	return "--" + name
}
