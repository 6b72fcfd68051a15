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

// Streams holds the standard streams of a command, the properties of the terminal, and the defaults for the user.
type Streams struct {
	// Out receives the results. Err receives progress and error messages. Required.
	Out, Err io.Writer
	// In is the standard input. Default: none; full-screen commands and the file name "-" are then not available.
	In io.Reader
	// Terminal reports whether Err is a terminal. On a terminal, progress is updated in place. Width is the width of
	// the terminal in columns; 0 means 80.
	Terminal bool
	Width    int
	// Screen reports whether both In and Out are terminals. Full-screen commands require this.
	Screen bool
	// Color enables colors on Out.
	Color bool
	// Language is the default language for the explanations of why, lint and doctor. The flag --language overrides
	// it. Default: English.
	Language language.Language
	// UserHome is the home directory of the user. If --home is not set, state is stored in the subdirectory
	// .koupsandbox of this directory.
	UserHome string
	// Executable is the path of this binary. The command up starts it as the daemon.
	Executable string
}

// usageError is an error in the command line, or in a file that the command line names. It sets exit status 2.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// scenarioError is an error in a scenario file. The error message suggests the command scenario explain instead of
// --help.
type scenarioError struct{ error }

func (e scenarioError) Unwrap() error { return e.error }

// errFailed makes a command exit with status 1 and without an error message. Commands return it after they have
// printed a result that means failure.
var errFailed = errors.New("failed")

// Run runs a command line and returns its exit status. args[0] is the name of the binary. Run blocks until the
// command ends. Canceling ctx stops the command, like Ctrl-C.
func Run(ctx context.Context, s Streams, args []string) int {
	app := newApp(s, args)
	line, path := reorder(app, args)
	err := app.RunContext(ctx, line)
	var usage usageError
	switch {
	case err == nil:
		return exitOK
	case errors.Is(err, errFailed):
		return exitFailure
	case errors.As(err, &usage):
		printf(s.Err, "koupsandbox: %v\nsee: %s\n", err, helpCommand(path, usage))
		return exitUsage
	case ctx.Err() != nil && errors.Is(err, context.Canceled):
		printf(s.Err, "koupsandbox: stopped\n")
		return exitFailure
	}
	printf(s.Err, "koupsandbox: %s%s\n", err, errorHint(err))
	return exitFailure
}

// errorHint returns a suggested fix for common operating system errors, and an empty string for other errors.
func errorHint(err error) string {
	switch {
	case errors.Is(err, syscall.ENOSPC):
		return "\nthe disk is full: free some space, or choose another directory with --home"
	case errors.Is(err, os.ErrPermission):
		return "\nchoose a writable directory with --home or $KOUPSANDBOX_HOME"
	case errors.Is(err, syscall.EMFILE):
		return "\ntoo many open files: raise the limit with ulimit -n 65536"
	default:
		return ""
	}
}

// printf prints text for users and ignores write errors. It escapes control characters, because the text can contain
// data from bases, Pods and clusters.
func printf(w io.Writer, format string, args ...any) {
	write(w, plain.Lines(fmt.Sprintf(format, args...)))
}

func write(w io.Writer, text string) { _, _ = io.WriteString(w, text) }

const (
	homeFlag   = "home"
	nameFlag   = "name"
	binFlag    = "bin"
	engineFlag = "engine"
	outputFlag = "output"
	basesFlag  = "bases"
	appName    = "koupsandbox"
)

// App returns the command-line application. It does not run a command. The generated command reference is based on
// it.
func App() *cli.App { return newApp(Streams{UserHome: "~"}, nil) }

func newApp(s Streams, args []string) *cli.App {
	c := &commands{Streams: s, args: args}
	app := &cli.App{
		Name:  appName,
		Usage: "run a complete Koupleless platform on one machine",
		Description: describe(`A sandbox has a Kubernetes API server, an MQTT broker, simulated bases and the module
controller. All servers listen on 127.0.0.1. The state of each sandbox is in one directory.`,
			"koupsandbox up", "koupsandbox demo"),
		Writer:               s.Out,
		ErrWriter:            s.Err,
		HideVersion:          true,
		EnableBashCompletion: true,
		// The value of --var can contain commas.
		DisableSliceFlagSeparator: true,
		ExitErrHandler:            func(*cli.Context, error) {},
		Flags: []cli.Flag{
			&cli.StringFlag{Name: homeFlag, Usage: "`DIR`: directory that stores the state of all sandboxes",
				EnvVars: []string{"KOUPSANDBOX_HOME"},
				Value:   filepath.Join(s.UserHome, ".koupsandbox"), DefaultText: "~/.koupsandbox"},
			&cli.StringFlag{Name: binFlag,
				Usage:   "`DIR`: directory to search first for the other binaries",
				EnvVars: []string{"KOUPSANDBOX_BIN"}},
		},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return unknownCommand(c.App.Commands, "", c.Args().First())
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
	setUsageErrors(app.Commands)
	cli.FlagStringer = flagHelp
	return app
}

// setUsageErrors sets the handlers for usage errors in all commands of list and their subcommands.
func setUsageErrors(list []*cli.Command) {
	for _, command := range list {
		command.OnUsageError = onUsageError
		command.HideHelpCommand = true
		if len(command.Subcommands) > 0 {
			setUsageErrors(command.Subcommands)
			command.Action = func(c *cli.Context) error {
				if c.Args().Present() {
					return unknownCommand(command.Subcommands, command.Name, c.Args().First())
				}
				return cli.ShowSubcommandHelp(c)
			}
		}
	}
}

type commands struct {
	Streams
	args []string // words of the command line
}

// onCommandLine reports whether the command line contains the flag with the given name. Unlike cli.Context.IsSet, it
// ignores environment variables.
func (s *commands) onCommandLine(name string) bool {
	return slices.ContainsFunc(s.args, func(word string) bool {
		flag, _, _ := strings.Cut(word, "=")
		return flag == "--"+name || flag == "-"+name
	})
}

func sandboxNameFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: nameFlag, Usage: "`NAME`: name of the sandbox, a DNS label",
		EnvVars: []string{"KOUPSANDBOX_NAME"}, Value: v1alpha1.DefaultName, Category: sandboxCategory}
}

// newEngineFlag returns the flag that selects the container engine. The environment variable that kind reads also
// sets the flag.
func newEngineFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: engineFlag, Usage: "`ENGINE`: container engine for provider kind: docker or podman",
		DefaultText: "the first engine that responds", Category: clusterCategory,
		EnvVars: []string{"KOUPSANDBOX_ENGINE", "KIND_EXPERIMENTAL_PROVIDER"}}
}

func homeDir(c *cli.Context) (string, error) {
	path, err := filepath.Abs(c.String(homeFlag))
	if err != nil {
		return "", fmt.Errorf("resolving the directory %q: %w", c.String(homeFlag), err)
	}
	return path, nil
}

// sandboxTarget returns the home directory and the name of the sandbox to which the command applies. It fails if
// another user owns the state of the sandbox.
func sandboxTarget(c *cli.Context) (home, name string, err error) {
	name = c.String(nameFlag)
	if err := v1alpha1.ValidateName(name); err != nil {
		return "", "", usageError{fmt.Errorf("--name %q %w", name, err)}
	}
	home, err = homeDir(c)
	if err == nil {
		err = state.Home(home).Dir(name).CheckOwner()
	}
	return home, name, err
}

// withArgs returns the action of a command that takes from least to most arguments. If most is negative, the number
// of arguments is unlimited. expected describes the arguments in the error message.
func withArgs(least, most int, expected string, do func(*cli.Context, []string) error) cli.ActionFunc {
	return func(c *cli.Context) error {
		list := c.Args().Slice()
		if len(list) < least || most >= 0 && len(list) > most {
			return usageError{fmt.Errorf("%s takes %s", c.Command.Name, expected)}
		}
		return do(c, list)
	}
}

// noArgs returns the action of a command that takes no arguments.
func noArgs(do func(*cli.Context) error) cli.ActionFunc {
	return withArgs(0, 0, "no arguments", func(c *cli.Context, _ []string) error { return do(c) })
}

// inSandboxWithArgs returns the action of a command that requires a running sandbox. See withArgs for the parameters.
func inSandboxWithArgs(least, most int, expected string,
	do func(*cli.Context, *sandbox.Sandbox, []string) error) cli.ActionFunc {
	return withArgs(least, most, expected, func(c *cli.Context, list []string) error {
		return inSandbox(c, func(up *sandbox.Sandbox) error { return do(c, up, list) })
	})
}

func inSandbox(c *cli.Context, do func(*sandbox.Sandbox) error) error {
	up, err := openSandbox(c)
	if err != nil {
		return err
	}
	defer up.Close()
	return do(up)
}

func openSandbox(c *cli.Context) (*sandbox.Sandbox, error) {
	home, name, err := sandboxTarget(c)
	if err != nil {
		return nil, err
	}
	return sandbox.Open(c.Context, home, name)
}
