package cli

import (
	"context"
	"errors"
	"fmt"

	"github.com/urfave/cli/v2"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/cmd/koupsandbox/internal/watch"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

func (s *commands) watch() *cli.Command {
	return &cli.Command{
		Name:  "watch",
		Usage: "show live changes of bases, modules and Pods",
		Description: describe(`On a terminal, the command shows a table with the state, modules, Pods, lost requests and
latest event of each base. Otherwise, and with --plain, it prints a line per event. With -o
json, it prints events in the format of the timeline in scenario reports. It ends when the
sandbox stops, or when you press Ctrl-C or q.`,
			"koupsandbox watch", "koupsandbox watch --plain > watch.log"),
		Flags: []cli.Flag{
			sandboxNameFlag(),
			&cli.StringFlag{Name: "group", Category: outputCategory, DefaultText: "all",
				Usage: "`NAMESPACE`: show only the bases, Pods and traffic of the scenario run in this namespace"},
			&cli.BoolFlag{Name: "plain", Usage: "print one line per event, even on a terminal",
				Category: outputCategory},
			newOutputFlag(formatJSON),
		},
		Action: inSandboxWithArgs(0, 0, "no arguments", s.runWatch),
	}
}

func (s *commands) runWatch(c *cli.Context, up *sandbox.Sandbox, _ []string) (err error) {
	o := watch.Options{Source: up.Client, Group: c.String("group")}
	o.API, err = apiOf(up)
	if err != nil {
		return err
	}
	follow := func(ctx context.Context, sink func(events.Event) error) error { return watch.Follow(ctx, o, sink) }
	switch {
	case c.String(outputFlag) == formatJSON:
		err = follow(c.Context, watch.JSON(s.Out))
	case s.Screen && !c.Bool("plain"):
		screen := watch.NewScreen(watch.ScreenOptions{Title: "sandbox " + up.Name})
		err = screen.Run(c.Context, s.In, s.Out, func(ctx context.Context) error {
			go screen.Rates(ctx, up.Client, o.Group)
			return follow(ctx, screen.Observe)
		})
	default:
		err = follow(c.Context, watch.Plain(s.Out))
	}
	if errors.Is(err, context.Canceled) {
		return nil // the user has pressed Ctrl-C
	}
	return err
}

func apiOf(up *sandbox.Sandbox) (kubernetes.Interface, error) {
	config, err := clientcmd.BuildConfigFromFlags("", up.Kubeconfig)
	if err != nil {
		return nil, fmt.Errorf("reading the kubeconfig of sandbox %q: %w", up.Name, err)
	}
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("creating a client for sandbox %q: %w", up.Name, err)
	}
	return api, nil
}
