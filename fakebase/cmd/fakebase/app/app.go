// Package app holds the command line of fakebase.
package app

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"

	"github.com/urfave/cli/v2"
	"golang.org/x/sync/errgroup"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/remote"
	"github.com/koupleless/koupsandbox/fakebase/stdio"
)

// Categories of flags in the help text.
const (
	catTunnels  = "Tunnels (at least one)"
	catBase     = "The bases"
	catModules  = "Modules"
	catOperator = "Operation"
)

func env(name string) []string { return []string{"FAKEBASE_" + name} }

func flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "mqtt", Category: catTunnels, EnvVars: env("MQTT"),
			Usage: "`URL` of the MQTT broker, tcp://host:port or ssl://host:port"},
		&cli.StringFlag{Name: "mqtt-username", Category: catTunnels, EnvVars: env("MQTT_USERNAME"),
			Usage: "user name for the broker"},
		&cli.StringFlag{Name: "mqtt-password", Category: catTunnels, EnvVars: env("MQTT_PASSWORD"),
			Usage: "password for the broker; better given by the environment"},
		&cli.StringFlag{Name: "mqtt-client-prefix", Category: catTunnels, EnvVars: env("MQTT_CLIENT_PREFIX"),
			Value: "koupleless", Usage: "`PREFIX` of the client id, PREFIX@@@identity"},
		&cli.StringFlag{Name: "mqtt-ca", Category: catTunnels, EnvVars: env("MQTT_CA"),
			Usage: "PEM `FILE` of the certificate authority of an ssl broker"},
		&cli.StringFlag{Name: "mqtt-cert", Category: catTunnels, EnvVars: env("MQTT_CERT"),
			Usage: "PEM `FILE` of the client certificate"},
		&cli.StringFlag{Name: "mqtt-key", Category: catTunnels, EnvVars: env("MQTT_KEY"),
			Usage: "PEM `FILE` of the client key"},
		&cli.StringFlag{Name: "http", Category: catTunnels, EnvVars: env("HTTP"),
			Usage: "`URL` of the controller's HTTP tunnel, for heartbeats, http://host:7777"},
		&cli.StringFlag{Name: "http-token", Category: catTunnels, EnvVars: env("HTTP_TOKEN"),
			Usage: "`TOKEN` that heartbeats bear, as Authorization: Bearer TOKEN"},
		&cli.StringFlag{Name: "http-ca", Category: catTunnels, EnvVars: env("HTTP_CA"),
			Usage: "PEM `FILE` with the authority of an https controller"},
		&cli.StringFlag{Name: "http-cert", Category: catTunnels, EnvVars: env("HTTP_CERT"),
			Usage: "PEM `FILE` with the base's certificate for it; the identity is its name"},
		&cli.StringFlag{Name: "http-key", Category: catTunnels, EnvVars: env("HTTP_KEY"),
			Usage: "PEM `FILE` with its key"},
		&cli.StringFlag{Name: "http-addr", Category: catTunnels, EnvVars: env("HTTP_ADDR"),
			Usage: "`ADDR` where arklet listens", DefaultText: "127.0.0.1, first free port of 1238 to 1337"},

		&cli.IntFlag{Name: "count", Aliases: []string{"n"}, Category: catBase, EnvVars: env("COUNT"), Value: 1,
			Usage: "number of bases"},
		&cli.StringFlag{Name: "identity", Category: catBase, EnvVars: env("IDENTITY"),
			Usage: "identity of the base; with --count a number is added", DefaultText: "a random UUID"},
		&cli.StringFlag{Name: "name", Category: catBase, EnvVars: env("NAME"), Value: "base",
			Usage: "name of the base"},
		&cli.StringFlag{Name: "base-version", Category: catBase, EnvVars: env("BASE_VERSION"), Value: "1.0.0",
			Usage: "version of the base"},
		&cli.StringFlag{Name: "cluster", Category: catBase, EnvVars: env("CLUSTER"), Value: "default",
			Usage: "name of its cluster"},
		&cli.StringFlag{Name: "env", Category: catBase, EnvVars: env("ENV"), Value: "dev",
			Usage: "environment, the first part of topics"},
		&cli.StringFlag{Name: "ip", Category: catBase, EnvVars: env("IP"), Value: "198.18.0.1",
			Usage: "address that the first base reports; further bases count up, and listen on theirs if it is a " +
				"loopback address. Over HTTP a base reports where it listens unless this is given"},
		&cli.StringFlag{Name: "host-name", Category: catBase, EnvVars: env("HOST_NAME"),
			Usage: "host name that the base reports; with --count a number is added"},
		&cli.StringFlag{Name: "generation", Category: catBase, EnvVars: env("GENERATION"), Value: "C",
			Usage: "line of the runtime: A (1.3.1), B (1.3.2), C (1.3.3 and later)"},
		&cli.BoolFlag{Name: "faithful", Category: catBase, EnvVars: env("FAITHFUL"),
			Usage: "keep the flaws of the real base"},
		&cli.DurationFlag{Name: "startup-time", Category: catBase, EnvVars: env("STARTUP_TIME"),
			Usage: "how long a base starts"},
		&cli.DurationFlag{Name: "heartbeat-interval", Category: catBase, EnvVars: env("HEARTBEAT_INTERVAL"),
			Usage: "pause between heartbeats", DefaultText: "as the real base"},
		&cli.DurationFlag{Name: "heartbeat-jitter", Category: catBase, EnvVars: env("HEARTBEAT_JITTER"),
			Usage: "spreads the first heartbeats of many bases over a time"},
		&cli.Int64Flag{Name: "metaspace-max", Category: catBase, EnvVars: env("METASPACE_MAX"),
			Usage: "limit of the metaspace in bytes, -1 = none", DefaultText: "256 MiB"},
		&cli.Float64Flag{Name: "metaspace-leak", Category: catBase, EnvVars: env("METASPACE_LEAK"),
			Usage: "share of a module's metaspace that its uninstall leaks, 0 to 1"},
		&cli.IntFlag{Name: "metaspace-threshold", Category: catBase, EnvVars: env("METASPACE_THRESHOLD"),
			Usage: "refuse installs above so many percent of the limit", DefaultText: "no check"},

		&cli.StringFlag{Name: "activation", Category: catModules, EnvVars: env("ACTIVATION"), Value: "default",
			Usage: "which version is active: default (the old one), new, multi (all)"},
		&cli.BoolFlag{Name: "with-all-biz-readiness", Category: catModules, EnvVars: env("WITH_ALL_BIZ_READINESS"),
			Usage: "hot deployments count for the health of the base"},
		&cli.BoolFlag{Name: "auto-uninstall", Category: catModules, EnvVars: env("AUTO_UNINSTALL"), Value: true,
			Usage: "remove a module whose start failed"},
		&cli.StringSliceFlag{Name: "static-biz", Category: catModules, EnvVars: env("STATIC_BIZ"),
			Usage: "`URL` of a module that starts with the base; may be repeated"},
		&cli.StringFlag{Name: "catalogue", Category: catModules, EnvVars: env("CATALOGUE"),
			Usage: "YAML `FILE` that says what is behind module URLs"},
		&cli.DurationFlag{Name: "request-duration", Category: catModules, EnvVars: env("REQUEST_DURATION"),
			Usage: "how long a module works on a request"},

		&cli.StringFlag{Name: "faults", Category: catOperator, EnvVars: env("FAULTS"),
			Usage: "YAML `FILE` with a list of faults"},
		&cli.Uint64Flag{Name: "seed", Category: catOperator, EnvVars: env("SEED"),
			Usage: "makes random delays and faults repeatable"},
		&cli.BoolFlag{Name: "web", Category: catOperator, EnvVars: env("WEB"),
			Usage: "open the listeners for module traffic and print their addresses"},
		&cli.StringFlag{Name: "web-addr", Category: catOperator, EnvVars: env("WEB_ADDR"),
			Usage: "`ADDR` where a base listens for module traffic", DefaultText: "127.0.0.1, any free port"},
		&cli.StringFlag{Name: "control", Category: catOperator, EnvVars: env("CONTROL"),
			Usage: "`ADDR` of a control endpoint, 127.0.0.1:0 for any port; prints its URL"},
		&cli.BoolFlag{Name: "stdio", Category: catOperator,
			Usage: "be the bases that are described over standard input and output, as package remote does"},
		&cli.DurationFlag{Name: "patience", Category: catOperator,
			Usage:       "with --stdio, how long the other side may say nothing before the bases end",
			DefaultText: "for ever"},
		&cli.BoolFlag{Name: "idle", Category: catOperator,
			Usage: "do nothing until interrupted: in a Pod, in which others run with --stdio"},
		&cli.StringFlag{Name: "log-level", Category: catOperator, EnvVars: env("LOG_LEVEL"), Value: "info",
			Usage: "debug, info, warn or error"},
	}
}

// New returns the command line of fakebase. Its action blocks until the context ends.
func New(version string, stdout, stderr io.Writer) *cli.App {
	return &cli.App{
		Name:            "fakebase",
		Usage:           "simulate Koupleless bases",
		Version:         version,
		UsageText:       "fakebase --mqtt tcp://127.0.0.1:1883 [--count 10]\n   fakebase --http http://127.0.0.1:7777",
		HideHelpCommand: true,
		Flags:           flags(),
		Writer:          stdout, ErrWriter: stderr,
		// Errors go back to the caller; nothing here ends the process.
		ExitErrHandler: func(*cli.Context, error) {},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("unknown argument %q; see fakebase --help", c.Args().First())
			}
			return serve(c.Context, c, stdout, stderr)
		},
	}
}

func serve(ctx context.Context, c *cli.Context, stdout, stderr io.Writer) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return fmt.Errorf("--log-level %q: use debug, info, warn or error", c.String("log-level"))
	}
	logger := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: level}))
	if c.Bool("idle") {
		<-ctx.Done()
		return nil
	}
	if c.Bool("stdio") {
		conn, err := stdio.Standard()
		if err != nil {
			return err
		}
		remote.Serve(ctx, conn, c.App.Version, logger, c.Duration("patience"))
		return nil
	}
	all, err := options(c, logger)
	if err != nil {
		return err
	}
	bases := make([]*fakebase.Base, len(all))
	for i, o := range all {
		bases[i], err = fakebase.New(o)
		if err != nil {
			return err
		}
	}
	group, ctx := errgroup.WithContext(ctx)
	if addr := c.String("control"); addr != "" {
		ctl, err := listenControl(ctx, addr, bases)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(stdout, "control http://%s\n", ctl.addr()); err != nil {
			return fmt.Errorf("printing control address: %w", err)
		}
		group.Go(func() error { return ctl.start(ctx) })
	}
	for _, b := range bases {
		group.Go(func() error { return b.Start(ctx) })
	}
	if c.Bool("web") {
		group.Go(func() error { return openWeb(ctx, bases, stdout) })
	}
	if err := group.Wait(); err != nil && !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func openWeb(ctx context.Context, bases []*fakebase.Base, stdout io.Writer) error {
	for _, b := range bases {
		addr, err := b.WebAddr(ctx)
		if err != nil {
			return err
		}
		if _, err := fmt.Fprintf(stdout, "web %s http://%s\n", b.Identity(), addr); err != nil {
			return fmt.Errorf("printing web address: %w", err)
		}
	}
	return nil
}
