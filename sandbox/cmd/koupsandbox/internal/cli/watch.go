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
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

func (s *commands) watch() *cli.Command {
	return &cli.Command{
		Name:  "watch",
		Usage: "show what happens to bases, modules and Pods, live",
		Description: `On a terminal each base has a lane: which version serves, what is being installed,
which requests were lost; and beneath it how many Pods are Ready, and why a base is
stuck. Elsewhere, and with --plain, each event is a line. -o json prints events as the
timelines of scenario reports have them. It ends with q, Ctrl-C, or the sandbox.`,
		Flags: []cli.Flag{
			theName(),
			&cli.StringFlag{Name: "group", Usage: "only the bases and Pods of `GROUP`, the namespace of a scenario's run"},
			&cli.BoolFlag{Name: "plain", Usage: "print lines on a terminal too"},
			output(formatJSON),
		},
		Action: within(0, 0, "no arguments", s.runWatch),
	}
}

func (s *commands) runWatch(c *cli.Context, up *sandbox.Sandbox, _ []string) (err error) {
	o := watch.Options{Source: up.Client, Group: c.String("group")}
	if o.API, err = apiOf(up); err != nil {
		return err
	}
	follow := func(ctx context.Context, sink func(timeline.Event) error) error { return watch.Follow(ctx, o, sink) }
	switch {
	case c.String(outputFlag) == formatJSON:
		err = follow(c.Context, watch.JSON(s.Out))
	case s.Screen && !c.Bool("plain"):
		screen := watch.NewScreen(watch.ScreenOptions{Title: "sandbox " + up.Name})
		err = screen.Run(c.Context, s.In, s.Out, func(ctx context.Context) error { return follow(ctx, screen.Observe) })
	default:
		err = follow(c.Context, watch.Plain(s.Out))
	}
	if errors.Is(err, context.Canceled) {
		return nil // Ctrl-C is how it is meant to end
	}
	return err
}

// apiOf returns a client of the sandbox's API server.
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
