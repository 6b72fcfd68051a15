package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/language"
	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

const (
	exitOK      = 0
	exitFailure = 1
	exitUsage   = 2
)

// Streams are where a command writes, and what it knows about its surroundings.
type Streams struct {
	// Out gets results, Err gets progress and errors. Required.
	Out, Err io.Writer
	// In is the keyboard, of full-screen commands. Default: there is none.
	In io.Reader
	// Terminal draws spinners on Err; Width is its width in columns, 0 = 80.
	Terminal bool
	Width    int
	// Screen tells that In and Out are a terminal that can be drawn on.
	Screen bool
	// Color allows colours on Out.
	Color bool
	// Language of the explanations of why, lint and doctor, without --language. Default: English.
	Language language.Language
	// UserHome is the user's home folder; the state is in .koupsandbox there unless
	// told otherwise.
	UserHome string
	// Self is the path of this program, which up starts as daemon.
	Self string
}

// usageError is a mistake in the command line itself, or in a file that it names.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// inScenario is a mistake in a scenario: what can be written in one is not in the help of a command.
type inScenario struct{ error }

func (e inScenario) Unwrap() error { return e.error }

// errFailed ends a command with status 1 without a further word: what it printed
// says it all.
var errFailed = errors.New("failed")

// Run runs the command line, args[0] being the program's name, and returns its
// exit status. It blocks until the command has ended; the end of ctx is Ctrl-C.
func Run(ctx context.Context, s Streams, args []string) int {
	app := newApp(s, args)
	line, path := ordered(app, args)
	err := app.RunContext(ctx, line)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFailed):
		return exitFailure
	case errors.As(err, &usage):
		say(s.Err, "koupsandbox: %v\nsee: %s\n", err, topic(path, usage))
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		say(s.Err, "koupsandbox: stopped\n")
		return exitFailure
	}
	say(s.Err, "koupsandbox: %s%s\n", err, advice(err))
	return exitFailure
}

func advice(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "\nthe disk is full: free some space, or choose another folder with --home"
	case errors.Is(err, os.ErrPermission):
		return "\nchoose a folder that you may write to with --home or $KOUPSANDBOX_HOME"
	case errors.Is(err, syscall.EMFILE):
		return "\ntoo many open files: raise the limit with ulimit -n 65536"
	default:
		return ""
	}
}

// say prints for people; when that fails there is nobody to tell. What comes from outside cannot
// command the terminal.
func say(w io.Writer, format string, args ...any) {
	write(w, plain.Lines(fmt.Sprintf(format, args...)))
}

func write(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

const (
	homeFlag    = "home"
	nameFlag    = "name"
	binFlag     = "bin"
	engineFlag  = "engine"
	outputFlag  = "output"
	basesFlag   = "bases"
	bashHelp    = "koupsandbox"
	description = `Everything runs on 127.0.0.1 and keeps its state in one folder for each sandbox.
Begin with: koupsandbox up`
)

// App returns the command line without running it, for the generated reference.
func App() *cli.App { return newApp(Streams{UserHome: "~"}, nil) }

func newApp(s Streams, args []string) *cli.App {
	c := &commands{Streams: s, line: args}
	app := &cli.App{
		Name:                 bashHelp,
		Usage:                "a whole Koupleless platform on one machine, in seconds",
		Description:          description,
		Writer:               s.Out,
		ErrWriter:            s.Err,
		HideVersion:          true,
		EnableBashCompletion: true,
		// A value of --var may have commas.
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: homeFlag, Usage: "`FOLDER` with the state of all sandboxes",
				EnvVars: []string{"KOUPSANDBOX_HOME"},
				Value:   filepath.Join(s.UserHome, ".koupsandbox"), DefaultText: "~/.koupsandbox"},
			&cli.StringFlag{Name: binFlag,
				Usage: "look for koup-controlplane, module-controller and fakebase in `FOLDER` first, then " +
					"beside koupsandbox",
				EnvVars: []string{"KOUPSANDBOX_BIN"}},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return noCommand(c.App.Commands, "", c.Args().First())
			}
			return cli.ShowAppHelp(c)
		},
		Commands: []*cli.Command{
			c.init(), c.up(), c.down(), c.fleet(), c.status(), c.list(), c.kubeconfig(), c.logs(), c.base(),
			c.component(), c.faults(), c.scenario(), c.bench(), c.fuzz(), c.watch(), c.board(), c.why(),
			c.demo(),
			c.images(), c.doctor(), c.version(), c.completion(), c.man(), c.daemon(), c.trafficAgent(),
		},
	}
	app.OnUsageError = onUsageError
	finish(app.Commands)
	return app
}

// finish makes all commands report their misuse the same way.
func finish(list []*cli.Command) {
	for _, command := range list {
		command.OnUsageError = onUsageError
		command.HideHelpCommand = true
		if len(command.Subcommands) > 0 {
			finish(command.Subcommands)
			command.Action = func(c *cli.Context) error {
				if c.Args().Present() {
					return noCommand(command.Subcommands, command.Name, c.Args().First())
				}
				return cli.ShowSubcommandHelp(c)
			}
		}
	}
}

type commands struct {
	Streams
	line []string // the command line
}

// given tells whether the command line itself has a flag: cli's IsSet is true for one that only the
// environment sets, too.
func (s *commands) given(name string) bool {
	return slices.ContainsFunc(s.line, func(word string) bool {
		flag, _, _ := strings.Cut(word, "=")
		return flag == "--"+name || flag == "-"+name
	})
}

func nameOf(usage string) *cli.StringFlag {
	return &cli.StringFlag{Name: nameFlag, Usage: usage, EnvVars: []string{"KOUPSANDBOX_NAME"},
		Value: v1alpha1.DefaultName}
}

func theName() *cli.StringFlag { return nameOf("`NAME` of the sandbox") }

// engine chooses where there are both; the second variable is kind's own.
func engine() *cli.StringFlag {
	return &cli.StringFlag{Name: engineFlag, Usage: "container `ENGINE` of the provider kind: docker or podman",
		DefaultText: "the first that answers", Category: clusterCategory,
		EnvVars: []string{"KOUPSANDBOX_ENGINE", "KIND_EXPERIMENTAL_PROVIDER"}}
}

func home(c *cli.Context) (string, error) {
	path, err := filepath.Abs(c.String(homeFlag))
	if err != nil {
		return "", fmt.Errorf("finding the folder %q: %w", c.String(homeFlag), err)
	}
	return path, nil
}

// target returns home and the name of the sandbox that a command is for.
func target(c *cli.Context) (folder, name string, err error) {
	name = c.String(nameFlag)
	if err := v1alpha1.ValidateName(name); err != nil {
		return "", "", usageError{fmt.Errorf("--name %q %w", name, err)}
	}
	folder, err = home(c)
	if err == nil {
		err = state.Home(folder).Dir(name).CheckOwner()
	}
	return folder, name, err
}

// taking is the action of a command that takes so many arguments, most < 0 being any number.
func taking(least, most int, what string, do func(*cli.Context, []string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		list := c.Args().Slice()
		if len(list) < least || most >= 0 && len(list) > most {
			return usageError{fmt.Errorf("%s takes %s", c.Command.Name, what)}
		}
		return do(c, list)
	}
}

// alone is the action of a command without arguments.
func alone(do func(*cli.Context) error) cli.ActionFunc {
	return taking(0, 0, "no arguments", func(c *cli.Context, _ []string) error { return do(c) })
}

// within is the action of a command that asks a sandbox that is up.
func within(least, most int, what string, do func(*cli.Context, *sandbox.Sandbox, []string) error) cli.ActionFunc {
	return taking(least, most, what, func(c *cli.Context, list []string) error {
		return inSandbox(c, func(up *sandbox.Sandbox) error { return do(c, up, list) })
	})
}

func inSandbox(c *cli.Context, do func(*sandbox.Sandbox) error) error {
	up, err := open(c)
	if err != nil {
		return err
	}
	defer up.Close()
	return do(up)
}

func open(c *cli.Context) (*sandbox.Sandbox, error) {
	folder, name, err := target(c)
	if err != nil {
		return nil, err
	}
	return sandbox.Open(c.Context, folder, name)
}
