package kubelet

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
	"github.com/koupleless/koupsandbox/controller/workload"
)

const (
	queryTimeout  = 10 * time.Second
	switchTimeout = time.Minute
)

// ark implements the ark command, which users run with kubectl exec. The command queries the base of a Pod.
type ark struct {
	server *Server
	target target
	out    io.Writer
}

// usageError is an error in the command line.
type usageError struct {
	text   string
	status int
}

func (e *usageError) Error() string { return e.text }

func usage(format string, args ...any) error {
	return &usageError{text: fmt.Sprintf(format, args...) + "; see ark help", status: exitUsage}
}

const help = `ark queries the base of this module.

  queryAllBiz [-o table|json]   list the modules of the base and their states
  health [-o table|json]        show the metaspace usage and the uptime of the base
  switchBiz NAME VERSION        activate another version of a module of this Pod
  help                          show this text

Example: kubectl exec POD -- ark queryAllBiz
kubectl exec -it POD -- ark starts a prompt; enter exit or press Ctrl-D to leave it.
`

// run runs one ark command. The user sees the text of the returned error.
func (a *ark) run(ctx context.Context, fields []string) error {
	command, args := fields[0], fields[1:]
	switch command {
	case "help", "-h", "--help":
		_, err := io.WriteString(a.out, help)
		return err
	case string(arklet.CommandQueryAllBiz):
		return a.query(ctx, command, args, a.modules)
	case string(arklet.CommandHealth):
		return a.query(ctx, command, args, a.health)
	case string(arklet.CommandSwitchBiz):
		if len(args) != 2 {
			return usage("switchBiz requires NAME and VERSION, got %d arguments", len(args))
		}
		return a.switchBiz(ctx, arklet.Module{Name: args[0], Version: args[1]})
	}
	return &usageError{text: fmt.Sprintf(
		"command %q not found: a module has no shell and no files, only the command ark; run ark help",
		command), status: exitNotFound}
}

// query runs a read-only ark command. The command accepts only the flag -o and no arguments.
func (a *ark) query(ctx context.Context, command string, args []string,
	ask func(context.Context) (table func(io.Writer), document any, err error)) error {
	flags := flag.NewFlagSet(command, flag.ContinueOnError)
	flags.SetOutput(io.Discard)
	format := flags.String("o", "table", "")
	if err := flags.Parse(args); err != nil {
		return usage("%s: %v", command, err)
	}
	if flags.NArg() > 0 {
		return usage("%s takes no arguments, got %q", command, flags.Arg(0))
	}
	if *format != "table" && *format != "json" {
		return usage("%s: unsupported output format %q; use table or json", command, *format)
	}
	ctx, cancel := context.WithTimeout(ctx, queryTimeout)
	defer cancel()
	table, document, err := ask(ctx)
	if err != nil {
		return err
	}
	if *format == "json" {
		encoder := json.NewEncoder(a.out)
		encoder.SetIndent("", "  ")
		return encoder.Encode(document)
	}
	w := tabwriter.NewWriter(a.out, 0, 0, 3, ' ', 0)
	table(w)
	return w.Flush()
}

// bizView is the JSON output for a module, with the field names of the protocol.
type bizView struct {
	Name    string       `json:"bizName"`
	Version string       `json:"bizVersion"`
	State   arklet.State `json:"bizState"`
	Since   *time.Time   `json:"since,omitempty"`
	Reason  string       `json:"reason,omitempty"`
	Message string       `json:"message,omitempty"`
}

func (a *ark) modules(ctx context.Context) (func(io.Writer), any, error) {
	b, err := a.server.opts.Bases.Modules(ctx, a.target.identity, time.Time{})
	if err != nil {
		return nil, nil, err
	}
	list := make([]bizView, 0, len(b.Modules))
	for _, m := range b.Modules {
		v := bizView{Name: m.Name, Version: m.Version, State: m.State, Reason: m.Latest.Reason,
			Message: m.Latest.Message}
		if !m.Latest.At.IsZero() {
			at := m.Latest.At.UTC()
			v.Since = &at
		}
		list = append(list, v)
	}
	return func(w io.Writer) {
		fmt.Fprintln(w, "NAME\tVERSION\tSTATE\tSINCE\tREASON\tMESSAGE")
		for _, v := range list {
			since := ""
			if v.Since != nil {
				since = v.Since.Format(time.RFC3339)
			}
			message, _, _ := strings.Cut(v.Message, "\n")
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", v.Name, v.Version, v.State, since, v.Reason, message)
		}
	}, list, nil
}

// healthView is the JSON output for the health of a base. -1 means no limit or no value.
type healthView struct {
	Base               string  `json:"baseIdentity"`
	Activated          bool    `json:"activated"`
	RunTimeSeconds     float64 `json:"runTimeSeconds"`
	MetaspaceUsed      int64   `json:"metaspaceUsedBytes"`
	MetaspaceCommitted int64   `json:"metaspaceCommittedBytes"`
	MetaspaceMax       int64   `json:"metaspaceMaxBytes"`
}

func (a *ark) health(ctx context.Context) (func(io.Writer), any, error) {
	h, err := a.server.opts.Bases.Health(ctx, a.target.identity)
	if err != nil {
		return nil, nil, err
	}
	v := healthView{a.target.identity, h.State == arklet.StateActivated, h.RunTime.Seconds(), h.MetaspaceUsed,
		h.MetaspaceCommitted, h.MetaspaceMax}
	return func(w io.Writer) {
		fmt.Fprintln(w, "BASE\tACTIVATED\tRUNNING\tMETASPACE USED\tCOMMITTED\tMAX")
		fmt.Fprintf(w, "%s\t%t\t%s\t%s\t%s\t%s\n", a.server.opts.Bases.DisplayName(v.Base), v.Activated,
			h.RunTime.Round(time.Second), mebibytes(v.MetaspaceUsed), mebibytes(v.MetaspaceCommitted),
			mebibytes(v.MetaspaceMax))
	}, v, nil
}

func mebibytes(n int64) string {
	if n == arklet.Unlimited {
		return "-"
	}
	return fmt.Sprintf("%.1fMi", float64(n)/(1<<20))
}

// switchBiz activates a version of a module of the Pod. It rejects modules that belong to other Pods on the base.
func (a *ark) switchBiz(ctx context.Context, m arklet.Module) error {
	containers, _ := workload.Modules(a.target.pod.Spec)
	if !slices.ContainsFunc(containers, func(c corev1.Container) bool { return c.Name == m.Name }) {
		names := make([]string, 0, len(containers))
		for _, c := range containers {
			names = append(names, c.Name)
		}
		return fmt.Errorf("pod %s has no module %q, only %s; run switchBiz in a Pod with this module",
			a.target.pod.Name,
			m.Name, strings.Join(names, ", "))
	}
	r := arklet.Request{Command: arklet.CommandSwitchBiz, Module: m}
	log, identity := a.server.opts.EventLog, a.target.identity
	log.Add(identity, m.Name, CommandSent(time.Now(), r))
	ctx, cancel := context.WithTimeout(ctx, switchTimeout)
	defer cancel()
	answer, err := a.server.opts.Bases.Do(ctx, identity, r, nil)
	if err != nil {
		log.Add(identity, m.Name, CommandUnanswered(time.Now(), r, err))
		if errors.Is(err, tunnel.ErrNotSupported) {
			return fmt.Errorf("switchBiz is not supported over MQTT, the tunnel of base %q; connect the base over HTTP",
				a.server.opts.Bases.DisplayName(identity))
		}
		return err
	}
	log.Add(identity, m.Name, CommandAnswered(time.Now(), r, answer))
	if !answer.Succeeded() {
		return fmt.Errorf("base %q did not switch to %s: %s", a.server.opts.Bases.DisplayName(identity), m.Identity(),
			CommandAnswered(time.Time{}, r, answer).Detail)
	}
	fmt.Fprintln(a.out, answer.DataMessage)
	return nil
}
