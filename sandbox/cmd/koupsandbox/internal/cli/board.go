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
		Usage:     "serve a web UI with the live state and the history of a sandbox or a cluster",
		ArgsUsage: "[REPORT.json]",
		Description: describe(
			`The web UI shows a running sandbox, a finished scenario run (from the report of scenario run
--json), or, with --context or --kubeconfig, a cluster with module controllers. Access to
such a cluster is read-only without --allow-actions. The command prints a URL with a token
that is valid for one browser. It serves on 127.0.0.1 until Ctrl-C.`,
			"koupsandbox board", "koupsandbox board --context my-cluster"),
		Flags: []cli.Flag{
			sandboxNameFlag(),
			newContextFlag(),
			newKubeconfigFlag(),
			&cli.StringFlag{Name: addrFlag, Usage: "`ADDRESS:PORT`: address on which the web UI listens; port 0 selects a " +
				"free port",
				Value: "127.0.0.1:0", Category: boardCategory},
			&cli.BoolFlag{Name: noOpenFlag, Usage: "do not open a browser", Category: boardCategory},
			&cli.BoolFlag{Name: "allow-actions", Category: boardCategory,
				Usage: "enable scaling, releases and cordoning in a cluster that is not a sandbox"},
			&cli.StringSliceFlag{Name: "scenarios",
				Usage:       "`PATH`: scenario file or directory whose scenarios the web UI can run; repeatable",
				DefaultText: "none", Category: boardCategory},
			&cli.StringFlag{Name: "run", Usage: "`RUN`: scenario name or namespace of the run to show, if the report " +
				"has several runs",
				DefaultText: "the first run that did not pass, otherwise the first run", Category: boardCategory},
			&cli.BoolFlag{Name: clusterFlag,
				Usage:    "run in a Pod of a cluster; users log in with their own bearer tokens",
				Category: boardCategory},
			&cli.StringSliceFlag{Name: "host", Category: boardCategory,
				Usage: "`NAME`: host name in the URL of the web UI, for --in-cluster; repeatable"},
			newOutputFlag(formatJSON),
		},
		Action: withArgs(0, 1, "at most one argument: a JSON report", s.runBoard),
	}
}

func (s *commands) runBoard(c *cli.Context, list []string) error {
	otherCluster := c.IsSet(contextFlag) || c.IsSet(kubeconfigFlag) || s.isKubectlPlugin() && !s.onCommandLine(nameFlag)
	switch {
	case len(list) == 1 && (otherCluster || c.Bool(clusterFlag) || s.onCommandLine(nameFlag)):
		return usageError{fmt.Errorf(
			"a report cannot be combined with --name, --context, --kubeconfig or --in-cluster")}
	case c.IsSet("run") && len(list) == 0:
		return usageError{fmt.Errorf("--run requires a report; pass the report file as an argument")}
	case c.Bool(clusterFlag):
		return s.boardInCluster(c)
	case len(list) == 1:
		run, err := board.ReadReport(list[0], c.String("run"))
		if err != nil {
			return err
		}
		return s.serveBoard(c, board.Options{Run: run})
	case otherCluster:
		cluster, err := s.selectCluster(c)
		if err != nil {
			return err
		}
		o := board.Options{API: cluster.client, Title: clusterName(c), AllowActions: c.Bool("allow-actions")}
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
			return nil, usageError{fmt.Errorf("--scenarios: no *.yaml files in %q", path)}
		}
		files = append(files, found...)
	}
	for i, f := range files {
		full, err := filepath.Abs(f)
		if err != nil {
			return nil, fmt.Errorf("resolving the path %q: %w", f, err)
		}
		files[i] = full
	}
	slices.Sort(files)
	return slices.Compact(files), nil
}

func (s *commands) boardInCluster(c *cli.Context) error {
	if c.Bool("allow-actions") {
		return usageError{fmt.Errorf(
			"--allow-actions and --in-cluster are mutually exclusive: actions would use the permissions " +
				"of the web UI " +
				"instead of the user's")}
	}
	config, err := rest.InClusterConfig()
	if err != nil {
		return fmt.Errorf("--%s works only in a Pod: %w", clusterFlag, err)
	}
	config.UserAgent = "koupsandbox board"
	api, err := kubernetes.NewForConfig(config)
	if err != nil {
		return fmt.Errorf("creating a client for the cluster: %w", err)
	}
	return s.serveBoard(c, board.Options{
		API: api, Title: "the cluster", Reviews: true, Hosts: append(c.StringSlice("host"), "localhost"),
		Logger: slog.New(slog.NewTextHandler(s.Err, nil)),
	})
}

func (s *commands) serveBoard(c *cli.Context, o board.Options) error {
	klog.SetLogger(logr.Discard()) // the web UI shows interrupted watches
	address := c.String(addrFlag)
	if address == "" {
		address = "127.0.0.1:0" // up --board has no such flag
	}
	if host, _, err := net.SplitHostPort(address); err != nil {
		return usageError{fmt.Errorf("invalid --%s %q; use ADDRESS:PORT: %w", addrFlag, address, err)}
	} else if ip := net.ParseIP(host); !o.Reviews && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
		return usageError{fmt.Errorf("invalid --%s %q; use a loopback address, such as 127.0.0.1:0",
			addrFlag, address)}
	}
	listener, err := net.Listen("tcp", address)
	if err != nil {
		return fmt.Errorf("listening for the web UI: %w", err)
	}
	o.Listener = listener
	var dir string
	if o.Sandbox != nil {
		dir = filepath.Dir(o.Sandbox.Kubeconfig)
	}
	var redirect string // the path of the redirect file
	defer func() { _ = os.Remove(redirect) }()
	opened := 0
	o.Opened = func(url string) {
		opened++
		if opened == 1 {
			redirect = s.openBoard(c, dir, url)
		} else if c.String(outputFlag) != formatJSON {
			printf(s.Err, "URL for another browser: %s\n", url)
		}
	}
	b, err := board.New(o)
	if err != nil {
		_ = listener.Close() // nothing was served
		return err
	}
	if o.Reviews {
		printf(s.Err, "Serving the web UI at %s.\n", listener.Addr())
	}
	return b.Start(c.Context)
}

// openBoard prints the URL of the web UI and opens it in a browser. It returns the path of the redirect file in dir,
// or an empty string if no browser was opened.
func (s *commands) openBoard(c *cli.Context, dir, url string) (redirect string) {
	if c.String(outputFlag) == formatJSON {
		_ = s.printAs(formatJSON, map[string]string{"url": url}) // a map of strings can be encoded
	} else {
		printf(s.Out, "%s\n", url)
		printf(s.Err, "The URL is valid for one browser. Press Ctrl-C to stop the web UI.\n")
	}
	if !c.Bool(noOpenFlag) && s.Screen {
		var err error
		redirect, err = openBrowser(context.WithoutCancel(c.Context), dir, url)
		if err != nil {
			printf(s.Err, "Opening the browser failed: %v\n", err)
		}
	}
	return redirect
}

const redirectPage = `<!DOCTYPE html><meta charset="utf-8"><title>koupsandbox</title>` +
	`<meta http-equiv="refresh" content="0; url=%s">`

// openBrowser opens the address in a browser if this machine has a desktop. The address contains a token, and every
// local user can read the arguments of a process. Therefore, openBrowser opens a file that redirects to the address
// and that only the current user can read. It creates the file in dir, or in the directory for temporary files if dir
// is empty.
func openBrowser(ctx context.Context, dir, url string) (redirect string, err error) {
	program := "xdg-open"
	if runtime.GOOS == "darwin" {
		program = "open"
	} else if os.Getenv("DISPLAY") == "" && os.Getenv("WAYLAND_DISPLAY") == "" {
		return "", nil
	}
	page := fmt.Appendf(nil, redirectPage, html.EscapeString(url))
	if dir != "" {
		redirect = filepath.Join(dir, "board.html")
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
