// Package app implements the command line of fakebase.
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

// Categories of the flags in the help text.
const (
	catTunnels  = "Tunnels (at least one)"
	catBase     = "Bases"
	catModules  = "Modules"
	catOperator = "Operation"
)

func env(name string) []string { return []string{"FAKEBASE_" + name} }

func flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "mqtt", Category: catTunnels, EnvVars: env("MQTT"),
			Usage: "`URL` of the MQTT broker: tcp://HOST:PORT or ssl://HOST:PORT"},
		&cli.StringFlag{Name: "mqtt-username", Category: catTunnels, EnvVars: env("MQTT_USERNAME"),
			Usage: "user `name` for the MQTT broker"},
		&cli.StringFlag{Name: "mqtt-password", Category: catTunnels, EnvVars: env("MQTT_PASSWORD"),
			Usage: "`password` for the MQTT broker; prefer the environment variable, because other " +
				"users can read the " +
				"command line"},
		&cli.StringFlag{Name: "mqtt-client-prefix", Category: catTunnels, EnvVars: env("MQTT_CLIENT_PREFIX"),
			Value: "koupleless", Usage: "`prefix` of the MQTT client ID, which is PREFIX@@@IDENTITY"},
		&cli.StringFlag{Name: "mqtt-ca", Category: catTunnels, EnvVars: env("MQTT_CA"),
			Usage: "PEM `file` with the CA certificate that verifies an ssl:// broker"},
		&cli.StringFlag{Name: "mqtt-cert", Category: catTunnels, EnvVars: env("MQTT_CERT"),
			Usage: "PEM `file` with the client certificate for the MQTT broker"},
		&cli.StringFlag{Name: "mqtt-key", Category: catTunnels, EnvVars: env("MQTT_KEY"),
			Usage: "PEM `file` with the private key of --mqtt-cert"},
		&cli.StringFlag{Name: "http", Category: catTunnels, EnvVars: env("HTTP"),
			Usage: "`URL` of the controller's HTTP tunnel, which receives the heartbeats: http://HOST:7777"},
		&cli.StringFlag{Name: "http-token", Category: catTunnels, EnvVars: env("HTTP_TOKEN"),
			Usage: "bearer `token` that the base sends with its heartbeats"},
		&cli.StringFlag{Name: "http-ca", Category: catTunnels, EnvVars: env("HTTP_CA"),
			Usage: "PEM `file` with the CA certificate that verifies an https:// controller"},
		&cli.StringFlag{Name: "http-cert", Category: catTunnels, EnvVars: env("HTTP_CERT"),
			Usage: "PEM `file` with the client certificate for an https:// controller; the name in the " +
				"certificate must be the identity of the base"},
		&cli.StringFlag{Name: "http-key", Category: catTunnels, EnvVars: env("HTTP_KEY"),
			Usage: "PEM `file` with the private key of --http-cert"},
		&cli.StringFlag{Name: "http-addr", Category: catTunnels, EnvVars: env("HTTP_ADDR"),
			Usage: "`address` on which the arklet HTTP server listens",
			DefaultText: "127.0.0.1, first free port of 1238 " +
				"to 1337"},

		&cli.IntFlag{Name: "count", Aliases: []string{"n"}, Category: catBase, EnvVars: env("COUNT"), Value: 1,
			Usage: "`number` of bases"},
		&cli.StringFlag{Name: "identity", Category: catBase, EnvVars: env("IDENTITY"),
			Usage: "`identity` of the base; with --count, a number is appended", DefaultText: "a random UUID"},
		&cli.StringFlag{Name: "name", Category: catBase, EnvVars: env("NAME"), Value: "base",
			Usage: "`name` that the base reports"},
		&cli.StringFlag{Name: "base-version", Category: catBase, EnvVars: env("BASE_VERSION"), Value: "1.0.0",
			Usage: "`version` that the base reports"},
		&cli.StringFlag{Name: "cluster", Category: catBase, EnvVars: env("CLUSTER"), Value: "default",
			Usage: "cluster `name` that the base reports"},
		&cli.StringFlag{Name: "env", Category: catBase, EnvVars: env("ENV"), Value: "dev",
			Usage: "`environment` of the base, the first part of its MQTT topics"},
		&cli.StringFlag{Name: "ip", Category: catBase, EnvVars: env("IP"), Value: "198.18.0.1",
			Usage: "IP `address` that the first base reports; each further base reports the next address. " +
				"Without --ip, a base with an HTTP tunnel reports the address on which it listens"},
		&cli.StringFlag{Name: "host-name", Category: catBase, EnvVars: env("HOST_NAME"),
			Usage: "host `name` that the base reports; with --count, a number is appended"},
		&cli.StringFlag{Name: "generation", Category: catBase, EnvVars: env("GENERATION"), Value: "C",
			Usage: "`generation` of the Koupleless runtime: A (1.3.1), B (1.3.2), C (1.3.3 and later) or D " +
				"(1.4.3 and later)"},
		&cli.BoolFlag{Name: "faithful", Category: catBase, EnvVars: env("FAITHFUL"),
			Usage: "reproduce the defects of a real base"},
		&cli.DurationFlag{Name: "startup-time", Category: catBase, EnvVars: env("STARTUP_TIME"),
			Usage: "`duration` that a base takes to start"},
		&cli.DurationFlag{Name: "heartbeat-interval", Category: catBase, EnvVars: env("HEARTBEAT_INTERVAL"),
			Usage: "`duration` between two heartbeats", DefaultText: "the interval of a real base"},
		&cli.DurationFlag{Name: "heartbeat-jitter", Category: catBase, EnvVars: env("HEARTBEAT_JITTER"),
			Usage: "maximum random `delay` before the first heartbeat"},
		&cli.Int64Flag{Name: "metaspace-max", Category: catBase, EnvVars: env("METASPACE_MAX"),
			Usage: "maximum metaspace in `bytes`; -1 sets no limit", DefaultText: "256 MiB"},
		&cli.Float64Flag{Name: "metaspace-leak", Category: catBase, EnvVars: env("METASPACE_LEAK"),
			Usage: "`share` of a module's metaspace, from 0 to 1, that is not freed when the module is uninstalled"},
		&cli.IntFlag{Name: "metaspace-threshold", Category: catBase, EnvVars: env("METASPACE_THRESHOLD"),
			Usage:       "metaspace usage, in `percent` of the maximum, above which the base rejects installs",
			DefaultText: "no check"},

		&cli.StringFlag{Name: "activation", Category: catModules, EnvVars: env("ACTIVATION"), Value: "default",
			Usage: "`rule` that selects the active versions of a module: default (the first), new (the newest) or multi (all)"},
		&cli.BoolFlag{Name: "with-all-biz-readiness", Category: catModules, EnvVars: env("WITH_ALL_BIZ_READINESS"),
			Usage: "let the health and readiness of the base depend on modules that commands install"},
		&cli.DurationFlag{Name: "silence-before-uninstall", Category: catModules,
			EnvVars: env("SILENCE_BEFORE_UNINSTALL"),
			Usage:   "`duration` that a base waits before it uninstalls a module"},
		&cli.BoolFlag{Name: "auto-uninstall", Category: catModules, EnvVars: env("AUTO_UNINSTALL"), Value: true,
			Usage: "remove a module that fails to start"},
		&cli.StringSliceFlag{Name: "static-biz", Category: catModules, EnvVars: env("STATIC_BIZ"),
			Usage: "`URL` of a module that the base starts at startup; repeatable"},
		&cli.StringFlag{Name: "catalogue", Category: catModules, EnvVars: env("CATALOGUE"),
			Usage: "YAML `file` that describes the modules and their URLs"},
		&cli.DurationFlag{Name: "request-duration", Category: catModules, EnvVars: env("REQUEST_DURATION"),
			Usage: "`duration` that a module takes to process a request"},

		&cli.StringFlag{Name: "faults", Category: catOperator, EnvVars: env("FAULTS"),
			Usage: "YAML `file` with a list of faults"},
		&cli.Uint64Flag{Name: "seed", Category: catOperator, EnvVars: env("SEED"),
			Usage: "random `seed`, which makes delays and faults reproducible"},
		&cli.BoolFlag{Name: "web", Category: catOperator, EnvVars: env("WEB"),
			Usage: "open the listeners for module traffic, and print their addresses"},
		&cli.StringFlag{Name: "web-addr", Category: catOperator, EnvVars: env("WEB_ADDR"),
			Usage: "`address` on which a base listens for module traffic", DefaultText: "127.0.0.1, any free port"},
		&cli.StringFlag{Name: "control", Category: catOperator, EnvVars: env("CONTROL"),
			Usage: "`address` of the control endpoint; 127.0.0.1:0 selects a free port. The URL is printed"},
		&cli.BoolFlag{Name: "stdio", Category: catOperator,
			Usage: "run bases for the process that is connected to standard input and output; see package remote"},
		&cli.DurationFlag{Name: "patience", Category: catOperator,
			Usage: "`duration` after which the bases stop if the connected process sends no data; requires " +
				"--stdio",
			DefaultText: "no limit"},
		&cli.BoolFlag{Name: "idle", Category: catOperator,
			Usage: "wait for a signal without starting bases, for Pods in which other processes run fakebase --stdio"},
		&cli.StringFlag{Name: "log-level", Category: catOperator, EnvVars: env("LOG_LEVEL"), Value: "info",
			Usage: "log `level`: debug, info, warn or error"},
	}
}

// New returns the command-line application of fakebase. The action of the application blocks until its context is
// done.
func New(version string, stdout, stderr io.Writer) *cli.App {
	return &cli.App{
		Name:            "fakebase",
		Usage:           "simulate Koupleless bases",
		Version:         version,
		UsageText:       "fakebase --mqtt tcp://127.0.0.1:1883 [--count 10]\n   fakebase --http http://127.0.0.1:7777",
		HideHelpCommand: true,
		Flags:           flags(),
		Writer:          stdout, ErrWriter: stderr,
		// Errors are returned to the caller, which exits.
		ExitErrHandler: func(*cli.Context, error) {},
		Action: func(c *cli.Context) error {
			if c.Args().Present() {
				return fmt.Errorf("unexpected argument %q; see fakebase --help", c.Args().First())
			}
			return serve(c.Context, c, stdout, stderr)
		},
	}
}

func serve(ctx context.Context, c *cli.Context, stdout, stderr io.Writer) error {
	var level slog.Level
	if err := level.UnmarshalText([]byte(c.String("log-level"))); err != nil {
		return fmt.Errorf("--log-level %q: must be debug, info, warn or error", c.String("log-level"))
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
			return fmt.Errorf("printing the control address: %w", err)
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
			return fmt.Errorf("printing the web address: %w", err)
		}
	}
	return nil
}
