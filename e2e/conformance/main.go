package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := execute(ctx, os.Args[1:], os.Stdout, os.Stderr); err != nil {
		fmt.Fprintln(os.Stderr, "conformance:", err)
		os.Exit(1)
	}
}

// variables are repeated flags NAME=TEMPLATE.
type variables map[string]string

func (v variables) String() string { return "" }

func (v variables) Set(text string) error {
	name, value, ok := strings.Cut(text, "=")
	if !ok || name == "" {
		return errors.New("write NAME=TEMPLATE")
	}
	v[name] = value
	return nil
}

// settings are what a run is told.
type settings struct {
	timings
	controller v1alpha1.Controller
	bin        string
	known      string
	only       *regexp.Regexp
	format     string
	list, long bool
	own        bool
}

// execute is the program.
func execute(ctx context.Context, args []string, out, diagnostics io.Writer) error {
	s, err := parse(args, diagnostics)
	if err != nil {
		return err
	}
	if s.list {
		for _, e := range all() {
			fmt.Fprintf(out, "%-8s  %s: %s (%s)\n", e.Level, e.Name, e.Text, e.Source)
		}
		return nil
	}
	known := own
	if !s.own {
		known = nil
	}
	if s.known != "" {
		if known, err = os.ReadFile(s.known); err != nil {
			return fmt.Errorf("reading the known differences: %w", err)
		}
	}
	r, err := s.run(ctx, known)
	if err != nil {
		return err
	}
	if err := r.write(out, s.format); err != nil {
		return err
	}
	if wrong := r.wrong(); len(wrong) > 0 {
		return fmt.Errorf("%d expectations are not met as they must be:\n%s", len(wrong), strings.Join(wrong, "\n"))
	}
	return nil
}

// run brings a sandbox up, checks the expectations and takes it down.
func (s settings) run(ctx context.Context, knownText []byte) (r report, err error) {
	known, err := readKnown(knownText, all())
	if err != nil {
		return r, err
	}
	home, err := os.MkdirTemp("", "conf") // a short path, because sockets go there
	if err != nil {
		return r, err
	}
	b := &box.Box{Bin: s.bin, Home: home, Name: "conformance"}
	defer func() {
		err = errors.Join(err, b.Down(ctx))
		if err == nil {
			err = os.RemoveAll(home)
		}
	}()
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	l, err := open(ctx, b, s.controller, s.timings)
	if err != nil {
		return r, err
	}
	defer l.close()
	l.long = s.long
	start := time.Now()
	results, err := l.run(ctx, all(), s.only, known)
	return report{Controller: strings.Join(s.controller.Command, " "), Seconds: time.Since(start).Seconds(), Results: results}, err
}

// parse reads the command line.
func parse(args []string, diagnostics io.Writer) (settings, error) {
	s := settings{timings: originalTimings}
	env := variables{}
	f := flag.NewFlagSet("conformance", flag.ContinueOnError)
	f.SetOutput(diagnostics)
	program := f.String("controller", "", "`PROGRAM` of the module controller; what follows the flags are its arguments (default: this repository's, with short timings)")
	config := f.String("config", "", "configuration `FILE` of a sandbox whose spec.controller is the module controller")
	f.Var(env, "env", "`NAME=TEMPLATE` of a variable for the controller; may be repeated")
	ready := f.String("ready", "", "`URL` or path of the controller that answers 200 when it works (default: it works at once)")
	replicas := f.Int("replicas", 0, "`NUMBER` of controllers (default: 1)")
	f.StringVar(&s.bin, "bin", "bin", "`FOLDER` with the programs of make build")
	only := f.String("run", "", "`REGEXP` of the names of the expectations to check (default: all)")
	f.StringVar(&s.known, "known", "", "`FILE` with known differences: names of expectations and reasons (YAML)")
	f.StringVar(&s.format, "o", "table", "`FORMAT` of the report: table, json or markdown")
	f.BoolVar(&s.list, "list", false, "list the expectations and check none")
	f.BoolVar(&s.long, "long", false, "check also what lasts longer than --dead-after")
	f.DurationVar(&s.unreachable, "unreachable-after", s.unreachable, "silence after which the controller takes a base for unreachable")
	f.DurationVar(&s.dead, "dead-after", s.dead, "silence after which it takes a base for gone")
	f.DurationVar(&s.healthEvery, "health-interval", s.healthEvery, "how often it asks a base for its health")
	f.DurationVar(&s.listEvery, "list-interval", s.listEvery, "how often it asks a base for its modules")
	f.DurationVar(&s.patience, "patience", s.patience, "how long anything else may take")
	if err := f.Parse(args); err != nil {
		return s, err
	}
	switch s.format {
	case "table", "json", "markdown":
	default:
		return s, fmt.Errorf("-o is %q: use table, json or markdown", s.format)
	}
	var err error
	if s.bin, err = filepath.Abs(s.bin); err != nil {
		return s, err
	}
	if *only != "" {
		if s.only, err = regexp.Compile(*only); err != nil {
			return s, fmt.Errorf("-run: %w", err)
		}
	}
	switch {
	case s.list:
		return s, nil
	case *config != "" && *program != "":
		return s, errors.New("--config and --controller exclude each other")
	case *config != "":
		err = s.fromConfig(*config)
	case *program != "":
		s.controller = v1alpha1.Controller{Command: append([]string{*program}, f.Args()...)}
		if *ready != "" {
			s.controller.Ready = &v1alpha1.ControllerReady{HTTP: *ready}
		}
	default:
		s.ours()
	}
	if err != nil {
		return s, err
	}
	if s.controller.Env == nil {
		s.controller.Env = map[string]string{}
	}
	maps.Copy(s.controller.Env, env)
	if *replicas != 0 {
		s.controller.Replicas = replicas
	}
	if program := s.controller.Command[0]; strings.Contains(program, "/") && s.controller.WorkingDir == "" {
		if s.controller.Command[0], err = filepath.Abs(program); err != nil {
			return s, err
		}
	}
	return s, box.CheckPrograms(s.bin)
}

// fromConfig takes the controller of a sandbox's configuration file.
func (s *settings) fromConfig(file string) error {
	text, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var config v1alpha1.Sandbox
	if err := yaml.UnmarshalStrict(text, &config); err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	s.controller = config.Spec.Controller
	if len(s.controller.Command) == 0 {
		return fmt.Errorf("%s has no spec.controller.command", file)
	}
	s.controller.WorkingDir, err = filepath.Abs(filepath.Join(filepath.Dir(file), s.controller.WorkingDir))
	return err
}

// ours makes it a run of this repository's controller, with timings that save minutes.
func (s *settings) ours() {
	s.own = true
	s.unreachable, s.dead = 8*time.Second, 20*time.Second
	s.healthEvery, s.listEvery = time.Second, 2*time.Second
	s.controller = v1alpha1.Controller{
		Command: []string{filepath.Join(s.bin, box.ControllerProgram)},
		Ready:   &v1alpha1.ControllerReady{HTTP: "/tunnelz"},
		Env: map[string]string{
			"KUBECONFIG": "{{.Kubeconfig}}", "ENV": "{{.Env}}", "CLIENT_ID": "{{.ClientID}}", "IS_CLUSTER": "{{gt .Replicas 1}}",
			"ENABLE_MQTT_TUNNEL": "true", "MQTT_BROKER": "{{.BrokerHost}}", "MQTT_PORT": "{{.BrokerPort}}", "MQTT_USERNAME": "{{.BrokerUser}}",
			"MQTT_PASSWORD": "{{.BrokerPassword}}", "MQTT_CLIENT_PREFIX": "{{.ClientPrefix}}", "MQTT_CA_PATH": "{{.BrokerCA}}",
			"ENABLE_HTTP_TUNNEL": "true", "HTTP_TUNNEL_LISTEN_HOST": "127.0.0.1", "HTTP_TUNNEL_LISTEN_PORT": "{{.HTTPTunnelPort}}", "BASE_NETWORKS": "0.0.0.0/0,::/0",
			"METRICS_ADDR": "{{.MetricsAddr}}", "HEALTH_ADDR": "{{.HealthAddr}}", "ENABLE_MODULE_DEPLOYMENT_CONTROLLER": "true",
			"BASE_UNREACHABLE_AFTER": s.unreachable.String(), "BASE_DEAD_AFTER": s.dead.String(),
			"HEALTH_INTERVAL": s.healthEvery.String(), "LIST_INTERVAL": s.listEvery.String(),
			"MODULE_DRAIN": "2s", "INSTALL_TIMEOUT": "1m", "UNINSTALL_TIMEOUT": "30s", "LEASE_DURATION": "6s", "RECONNECT_GRACE": "5s",
		},
	}
}
