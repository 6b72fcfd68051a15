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
		Usage: "show the changes of bases, modules and Pods live",
		Description: `On a terminal, watch shows a table with a row per base: its state, its modules, its
Pods, its lost requests and its latest event. Otherwise, and with --plain, it prints a
line per event. -o json prints the events in the format of the timeline of scenario
reports. It ends with q, with Ctrl-C, and when the sandbox goes down.

   koupsandbox watch
   koupsandbox watch --plain > watch.log`,
		Flags: []cli.Flag{
			sandboxNameFlag(),
			&cli.StringFlag{Name: "group",
				Usage: "show only the bases, Pods and traffic of `GROUP`, the namespace of a scenario run"},
			&cli.BoolFlag{Name: "plain", Usage: "print lines also on a terminal"},
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
		return nil, fmt.Errorf("making a client for sandbox %q: %w", up.Name, err)
	}
	return api, nil
}
