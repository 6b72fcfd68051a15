package cli

import (
	"context"
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"

	"github.com/go-logr/logr"
	"github.com/urfave/cli/v2"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/klog/v2"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/board"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

const (
	addrFlag    = "addr"
	noOpenFlag  = "no-open"
	boardFlag   = "board"
	clusterFlag = "in-cluster"
)

func (s *commands) board() *cli.Command {
	return &cli.Command{
		Name:      "board",
		Usage:     "show the whole platform on a web page, live and back in time",
		ArgsUsage: "[REPORT.json]",
		Description: `It shows a running sandbox; with --context or --kubeconfig any cluster with module controllers, of
which it only reads; or a finished run, from the JSON report of scenario run --json.
It prints an address with a token, which opens the page in one browser, and ends with Ctrl-C.
Nothing but this machine can reach it.`,
		Flags: []cli.Flag{
			sandboxNameFlag(),
			&cli.StringFlag{Name: contextFlag, Usage: "`CONTEXT` of a kubeconfig, instead of a sandbox",
				DefaultText: "the current one"},
			&cli.StringFlag{Name: kubeconfigFlag, Usage: "`FILE` to read instead of a sandbox",
				DefaultText: "with --context: as kubectl does"},
			&cli.StringFlag{Name: addrFlag, Usage: "serve the page at `ADDRESS`; port 0 is a free one",
				Value: "127.0.0.1:0"},
			&cli.BoolFlag{Name: noOpenFlag, Usage: "open no browser"},
			&cli.BoolFlag{Name: "allow-actions",
				Usage: "let the page scale, release and cordon in a cluster that is no sandbox"},
			&cli.StringSliceFlag{Name: "scenarios",
				Usage:       "scenarios that the page may run in a sandbox: `FILE` or folder; may be repeated",
				DefaultText: "none"},
			&cli.StringFlag{Name: "run", Usage: "show this `RUN` of a report, by its scenario or namespace",
				DefaultText: "the first that has not passed, else the first"},
			&cli.BoolFlag{Name: clusterFlag, Usage: "run in a Pod: users log in with their own bearer tokens"},
			&cli.StringSliceFlag{Name: "host",
				Usage: "with --in-cluster: `NAME` by which the page is called, such as that of an Ingress; " +
					"may be repeated"},
			newOutputFlag(formatJSON),
		},
		Action: withArgs(0, 1, "a JSON report, or nothing", s.runBoard),
	}
}

func (s *commands) runBoard(c *cli.Context, list []string) error {
	other := c.IsSet(contextFlag) || c.IsSet(kubeconfigFlag) || s.isKubectlPlugin() && !s.onCommandLine(nameFlag)
	switch {
	case len(list) == 1 && (other || c.Bool(clusterFlag) || s.onCommandLine(nameFlag)):
		return usageError{fmt.Errorf("board shows a report, or a sandbox, or a cluster, but not two of them")}
	case c.IsSet("run") && len(list) == 0:
		return usageError{fmt.Errorf("--run is for a report: name its file")}
	case c.Bool(clusterFlag):
		return s.boardInCluster(c)
	case len(list) == 1:
		run, err := board.ReadReport(list[0], c.String("run"))
		if err != nil {
			return err
		}
		return s.serveBoard(c, board.Options{Run: run})
	case other:
		client, _, err := s.clusterClient(c)
		if err != nil {
			return err
		}
		o := board.Options{API: client, Title: clusterName(c), AllowActions: c.Bool("allow-actions")}
		for _, flag := range []string{contextFlag, kubeconfigFlag} {
			if c.IsSet(flag) {
				o.Flags = append(o.Flags, "--"+flag, c.String(flag))
			}
		}
		return s.serveBoard(c, o)
	}
	return inSandbox(c, func(up *sandbox.Sandbox) error { return s.serveSandboxBoard(c, up) })
}

func clusterName(c *cli.Context) string {
	if name := c.String(contextFlag); name != "" {
		return name
	}
	if path := c.String(kubeconfigFlag); path != "" {
		return filepath.Base(path)
	}
	return "the current context"
}

func (s *commands) serveSandboxBoard(c *cli.Context, up *sandbox.Sandbox) error {
	api, err := apiOf(up)
	if err != nil {
		return err
	}
	files, err := scenarioFiles(c.StringSlice("scenarios"))
	if err != nil {
		return err
	}
	o := board.Options{Sandbox: up, API: api, Scenarios: files, Flags: []string{"--" + nameFlag, up.Name}}
	if s.onCommandLine(homeFlag) {
		o.Flags = append(o.Flags, "--"+homeFlag, c.String(homeFlag))
	}
	return s.serveBoard(c, o)
}

func scenarioFiles(paths []string) ([]string, error) {
	var files []string
	for _, path := range paths {
		info, err := os.Stat(path)
		if err != nil {
			return nil, usageError{fmt.Errorf("--scenarios: %w", err)}
		}
		if !info.IsDir() {
			files = append(files, path)
			continue
		}
		found, err := filepath.Glob(filepath.Join(path, "*.yaml"))
		if err != nil || len(found) == 0 {
			return nil, usageError{fmt.Errorf("--scenarios: there are no scenarios in %s", path)}
		}
		files = append(files, found...)
	}
	for i, f := range files {
		full, err := filepath.Abs(f)
		if err != nil {
			return nil, fmt.Errorf("finding %s: %w", f, err)
		}
		files[i] = full
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func (s *commands) boardInCluster(c *cli.Context) error {
	if c.Bool("allow-actions") {
		return usageError{fmt.Errorf(
			"a board in a cluster only looks: what its users do would be done with its rights, not theirs; leave " +
				"--allow-actions out")}
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("--%s is for a Pod of a cluster: %w", clusterFlag, err)
	}
	config.UserAgent = "koupsandbox board"
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("making a client of the cluster: %w", err)
	}
	return s.serveBoard(c, board.Options{
		API: api, Title: "the cluster", Reviews: true, Hosts: append(c.StringSlice("host"), "localhost"),
		Logger: slog.New(slog.NewTextHandler(s.Err, nil)),
	})
}

func (s *commands) serveBoard(c *cli.Context, o board.Options) error {
	klog.SetLogger(logr.Discard()) // watches that break show on the page
	address := c.String(addrFlag)
	if address == "" {
		address = "127.0.0.1:0" // of up --board
	}
	if host, _, err := net.SplitHostPort(address); err != nil {
		return usageError{fmt.Errorf("--%s %q is no ADDRESS:PORT: %w", addrFlag, address, err)}
	} else if ip := net.ParseIP(host); !o.Reviews && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usageError{fmt.Errorf("--%s %q: the board is served to this machine only: use 127.0.0.1", addrFlag,
			address)}
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("opening the port of the board: %w", err)
	}
	o.Listener = listener
	var folder string
	if o.Sandbox != nil {
		folder = filepath.Dir(o.Sandbox.Kubeconfig)
	}
	var redirect string // the path of the redirect file
	defer func() { _ = os.Remove(redirect) }()
	opened := 0
	o.Opened = func(url string) {
		opened++
		if opened == 1 {
			redirect = s.openBoard(c, folder, url)
		} else if c.String(outputFlag) != formatJSON {
			printf(s.Err, "For another browser: %s\n", url)
		}
	}
	b, err := board.New(o)
	if err != nil {
		_ = listener.Close() // nothing was served
		return err
	}
	if o.Reviews {
		printf(s.Err, "The board is served at %s.\n", listener.Addr())
	}
	return b.Start(c.Context)
}

// openBoard prints the address, and opens it in a browser. It returns the path of the redirect file in folder,
// or the empty string if no browser was opened.
func (s *commands) openBoard(c *cli.Context, folder, url string) (redirect string) {
	if c.String(outputFlag) == formatJSON {
		_ = s.printAs(formatJSON, map[string]string{"url": url}) // a map of texts can be written
	} else {
		printf(s.Out, "%s\n", url)
		printf(s.Err, "The address opens the board in one browser. Ctrl-C ends it.\n")
	}
	if !c.Bool(noOpenFlag) && s.Screen {
		var err error
		redirect, err = openBrowser(context.WithoutCancel(c.Context), folder, url)
		if err != nil {
			printf(s.Err, "The browser was not opened: %v\n", err)
		}
	}
	return redirect
}

const redirectPage = `<!DOCTYPE html><meta charset="utf-8"><title>koupsandbox</title><meta http-equiv="refresh" content="0; url=%s">`

// openBrowser opens the address in a browser, if this machine has a desktop. The address contains a token, and
// every local user can read the arguments of a process. So openBrowser gives the browser a file that redirects
// to the address. Only this user can read the file. It is in folder, or in the directory for temporary files if
// folder is empty.
func openBrowser(ctx context.Context, folder, url string) (redirect string, err error) {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	} else if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return "", nil
	}
	page := fmt.Appendf(nil, redirectPage, html.EscapeString(url))
	if folder != "" {
		redirect = filepath.Join(folder, "board.html")
		err = state.WriteFile(redirect, page)
	} else if f, createErr := os.CreateTemp("", "koupsandbox-*.html"); createErr != nil { // CreateTemp uses mode 0600
		err = createErr
	} else {
		redirect = f.Name()
		_, err = f.Write(page)
		err = errors.Join(err, f.Close())
	}
	if err != nil {
		return redirect, err
	}
	cmd := exec.CommandContext(ctx, program, redirect)
	if err := cmd.Start(); err == nil { // an error is ignored: many machines do not have the program
		go func() { _ = cmd.Wait() }() // an error is ignored: the address was printed
	}
	return redirect, nil
}
