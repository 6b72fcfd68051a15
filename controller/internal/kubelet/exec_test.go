package kubelet

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/remotecommand"
	utilexec "k8s.io/client-go/util/exec"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/internal/base"
	"github.com/koupleless/koupsandbox/controller/internal/tunnel"
)

// stream runs a command in the same way as kubectl exec, and returns its exit status.
func (w *fixture) stream(ctx context.Context, t *testing.T, pod string, command []string,
	o remotecommand.StreamOptions) (status int, err error) {
	t.Helper()
	q := url.Values{"command": command}
	for name, there := range map[string]bool{"input": o.Stdin != nil, "output": o.Stdout != nil,
		"error": o.Stderr != nil, "tty": o.Tty} {
		if there {
			q.Set(name, "1")
		}
	}
	u, err := url.Parse(w.url + "/exec/default/" + pod + "/biz1?" + q.Encode())
	if err != nil {
		t.Fatal(err)
	}
	executor, err := remotecommand.NewSPDYExecutor(&rest.Config{TLSClientConfig: w.authority.client("kube-apiserver")},
		http.MethodPost, u)
	if err != nil {
		t.Fatal(err)
	}
	err = executor.StreamWithContext(ctx, o)
	if e, ok := errors.AsType[utilexec.CodeExitError](err); ok {
		return e.Code, nil
	}
	return 0, err
}

var twoVersions = []arklet.Biz{
	{Name: "biz1", Version: "1.0.0", State: arklet.StateActivated,
		Latest: arklet.Record{At: noon, State: arklet.StateActivated, Reason: "STARTED"}},
	{Name: "biz1", Version: "2.0.0", State: arklet.StateDeactivated,
		Latest: arklet.Record{At: noon, State: arklet.StateDeactivated, Reason: "STARTED",
			Message: "start but is deactivated\nmore"}},
	{Name: "biz3", Version: "1", State: arklet.StateResolved},
}

func TestExec(t *testing.T) {
	timeout := fmt.Errorf("queryAllBiz on base %q: %w", "a", base.ErrNoAnswer)
	answer := func(a arklet.Answer, err error) func(string, arklet.Request) (arklet.Answer, error) {
		return func(identity string, r arklet.Request) (arklet.Answer, error) {
			if want := (arklet.Request{Command: arklet.CommandSwitchBiz,
				Module: arklet.Module{Name: "biz1", Version: "2.0.0"}}); identity != "a" || r != want {
				return arklet.Answer{}, fmt.Errorf("base %q got the request %+v", identity, r)
			}
			return a, err
		}
	}
	for _, c := range []struct {
		name           string
		pod            string // Pod name; default pod-0
		command        []string
		bases          fakeBases
		stdout, stderr string // stderr: texts, separated by |, that its only line must contain
		status         int
	}{
		{name: "help", command: []string{"help"}, stdout: help},
		{name: "ark alone", command: []string{"ark"}, stdout: help},
		{
			name: "modules in a table", command: []string{"ark", "queryAllBiz"}, bases: fakeBases{modules: twoVersions},
			stdout: "NAME   VERSION   STATE         SINCE                  REASON    MESSAGE\n" +
				"biz1   1.0.0     activated     2024-07-18T12:00:00Z   STARTED   \n" +
				"biz1   2.0.0     deactivated   2024-07-18T12:00:00Z   STARTED   start but is deactivated\n" +
				"biz3   1         resolved                                       \n",
		},
		{
			name: "modules in JSON", command: []string{"queryAllBiz", "-o", "json"},
			bases: fakeBases{modules: twoVersions[1:]},
			stdout: `[
  {
    "bizName": "biz1",
    "bizVersion": "2.0.0",
    "bizState": "deactivated",
    "since": "2024-07-18T12:00:00Z",
    "reason": "STARTED",
    "message": "start but is deactivated\nmore"
  },
  {
    "bizName": "biz3",
    "bizVersion": "1",
    "bizState": "resolved"
  }
]
`,
		},
		{name: "no modules in JSON", command: []string{"queryAllBiz", "-o=json"}, stdout: "[]\n"},
		{name: "a base that does not answer", command: []string{"queryAllBiz"}, bases: fakeBases{err: timeout},
			stderr: timeout.Error(), status: 1},
		{
			name: "health in a table", command: []string{"health"},
			bases: fakeBases{
				health: arklet.Health{MetaspaceUsed: 55574528, MetaspaceCommitted: 58589184,
					MetaspaceMax: arklet.Unlimited, RunTime: 34432 * time.Millisecond, State: arklet.StateActivated}},
			stdout: "BASE     ACTIVATED   RUNNING   METASPACE USED   COMMITTED   MAX\nhost-a   true        34s       " +
				"53.0Mi           55.9Mi      -\n",
		},
		{
			name: "health in JSON", command: []string{"ark", "health", "-o", "json"},
			bases: fakeBases{health: arklet.Health{MetaspaceUsed: 1, MetaspaceCommitted: 2, MetaspaceMax: 3,
				RunTime: 1500 * time.Millisecond}},
			stdout: `{
  "baseIdentity": "a",
  "activated": false,
  "runTimeSeconds": 1.5,
  "metaspaceUsedBytes": 1,
  "metaspaceCommittedBytes": 2,
  "metaspaceMaxBytes": 3
}
`,
		},
		{name: "no health", command: []string{"health"}, bases: fakeBases{err: timeout}, stderr: timeout.Error(),
			status: 1},
		{
			name: "switched", command: []string{"switchBiz", "biz1", "2.0.0"},
			bases: fakeBases{
				do: answer(arklet.Answer{Code: "SUCCESS", DataCode: "SUCCESS",
					DataMessage: "Switch biz: biz1:2.0.0 is activated."}, nil)},
			stdout: "Switch biz: biz1:2.0.0 is activated.\n",
		},
		{
			name: "not switched", command: []string{"switchBiz", "biz1", "2.0.0"}, status: 1,
			bases: fakeBases{
				do: answer(arklet.Answer{Code: "FAILED", Message: "switch biz not success!", DataCode: "NOT_FOUND_BIZ",
					DataMessage: "Switch biz: biz1:2.0.0 not found."}, nil)},
			stderr: "\"host-a\"|FAILED switch biz not success! NOT_FOUND_BIZ Switch biz: biz1:2.0.0 not found.",
		},
		{
			name: "switched over MQTT", command: []string{"switchBiz", "biz1", "2.0.0"}, status: 1,
			bases:  fakeBases{do: answer(arklet.Answer{}, fmt.Errorf("switchBiz: %w", tunnel.ErrNotSupported))},
			stderr: "\"host-a\"|MQTT|switchBiz|HTTP",
		},
		{name: "another Pod's module", command: []string{"switchBiz", "biz3", "1"}, status: 1,
			stderr: "pod-0|\"biz3\"|biz1, biz2"},
		{name: "a version forgotten", command: []string{"switchBiz", "biz1"},
			stderr: "switchBiz|NAME|VERSION|1|ark help", status: 2},
		{name: "an unknown format", command: []string{"health", "-o", "yaml"},
			stderr: "health|\"yaml\"|table|json|ark help", status: 2},
		{name: "an unknown flag", command: []string{"health", "-x"}, stderr: "health|-x|ark help", status: 2},
		{name: "an argument too many", command: []string{"queryAllBiz", "biz1"},
			stderr: "queryAllBiz|\"biz1\"|ark help", status: 2},
		{name: "a shell", command: []string{"sh"}, stderr: "\"sh\"|ark help", status: 127},
		{name: "a Pod that is not here", pod: "pod-9", command: []string{"help"}, stderr: "default/pod-9", status: 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			w := newFixture(t, nil)
			*w.bases = c.bases
			if c.pod == "" {
				c.pod = "pod-0"
			}
			var stdout, stderr bytes.Buffer
			status, err := w.stream(t.Context(), t, c.pod, c.command,
				remotecommand.StreamOptions{Stdout: &stdout, Stderr: &stderr})
			if err != nil || status != c.status {
				t.Errorf("exit status %d, error %v, want %d", status, err, c.status)
			}
			if diff := cmp.Diff(c.stdout, stdout.String()); diff != "" {
				t.Errorf("stdout (-want +got):\n%s", diff)
			}
			if got := stderr.String(); !mentions(got, c.stderr) || strings.Count(got, "\n") != min(len(c.stderr), 1) {
				t.Errorf("stderr %q, want one line with %q", got, c.stderr)
			}
		})
	}
}

func TestSwitchIsLogged(t *testing.T) {
	w := newFixture(t, nil)
	w.bases.do = func(string, arklet.Request) (arklet.Answer, error) {
		return arklet.Answer{Code: "SUCCESS", DataMessage: "done"}, nil
	}
	if status, err := w.stream(t.Context(), t, "pod-0", []string{"switchBiz", "biz1", "2"},
		remotecommand.StreamOptions{Stdout: io.Discard}); err != nil || status != 0 {
		t.Fatalf("exit status %d, error %v", status, err)
	}
	var events []string
	entries, _ := w.opts.EventLog.entriesAfter(moduleKey{"a", "biz1"}, 0, podEntries{})
	for _, e := range entries {
		events = append(events, e.Event+" "+e.Version+" "+e.Detail)
	}
	if diff := cmp.Diff([]string{"switchBiz sent 2 ", "switchBiz answered 2 SUCCESS done"}, events); diff != "" {
		t.Errorf("log (-want +got):\n%s", diff)
	}
}

// TestDisconnect checks that a query ends when the client disconnects, not only after its timeout.
func TestDisconnect(t *testing.T) {
	w := newFixture(t, nil)
	w.bases.queried, w.bases.canceled = make(chan struct{}), make(chan error, 1)
	ctx, disconnect := context.WithCancel(t.Context())
	go func() {
		<-w.bases.queried
		disconnect()
	}()
	_, err := w.stream(ctx, t, "pod-0", []string{"health"}, remotecommand.StreamOptions{Stdout: io.Discard})
	if !errors.Is(err, context.Canceled) {
		t.Errorf("error %v, want %v", err, context.Canceled)
	}
	if err := <-w.bases.canceled; !errors.Is(err, context.Canceled) {
		t.Errorf("the query ended with %v, want %v", err, context.Canceled)
	}
}

func TestScript(t *testing.T) {
	w := newFixture(t, nil)
	w.bases.modules = twoVersions[2:]
	var stdout, stderr bytes.Buffer
	status, err := w.stream(t.Context(), t, "pod-0", []string{"ark"}, remotecommand.StreamOptions{
		Stdin: strings.NewReader("\nark queryAllBiz -o json\nls -l\nqueryAllBiz\n"), Stdout: &stdout, Stderr: &stderr,
	})
	if err != nil || status != exitNotFound {
		t.Errorf("exit status %d, error %v, want %d after the first failure", status, err, exitNotFound)
	}
	if want := "[\n  {\n    \"bizName\": \"biz3\",\n    \"bizVersion\": \"1\",\n    \"bizState\": " +
		"\"resolved\"\n  }\n]\n"; stdout.String() != want {
		t.Errorf("stdout %q, want %q", stdout.String(), want)
	}
	if !strings.HasPrefix(stderr.String(), `command "ls"`) {
		t.Errorf("stderr %q", stderr.String())
	}
}

// terminal simulates the terminal of a user who types at a prompt.
type terminal struct {
	t      *testing.T
	keys   *io.PipeWriter
	screen chan byte
	seen   strings.Builder
	done   chan int
}

// noSize is a terminal size queue that returns one size of zero and then ends.
type noSize struct{ told bool }

// Next implements remotecommand.TerminalSizeQueue.
func (n *noSize) Next() *remotecommand.TerminalSize {
	if n.told {
		return nil
	}
	n.told = true
	return &remotecommand.TerminalSize{}
}

// openPrompt starts a prompt on a simulated terminal.
func (w *fixture) openPrompt(t *testing.T) *terminal {
	t.Helper()
	stdin, keys := io.Pipe()
	screen, stdout := io.Pipe()
	term := &terminal{t: t, keys: keys, screen: make(chan byte, 1<<16), done: make(chan int, 1)}
	go func() {
		defer close(term.screen)
		b := make([]byte, 1)
		for {
			if _, err := screen.Read(b); err != nil {
				return
			}
			term.screen <- b[0]
		}
	}()
	ctx := t.Context()
	go func() {
		status, err := w.stream(ctx, t, "pod-0", []string{"ark"}, remotecommand.StreamOptions{
			Stdin: stdin, Stdout: stdout, Tty: true, TerminalSizeQueue: &noSize{},
		})
		if err != nil {
			t.Errorf("exec: %v", err)
		}
		_ = stdout.Close()
		term.done <- status
	}()
	return term
}

// waitFor waits until the screen shows a text.
func (s *terminal) waitFor(want string) {
	s.t.Helper()
	limit := time.After(30 * time.Second)
	for !strings.HasSuffix(s.seen.String(), want) {
		select {
		case b, more := <-s.screen:
			if !more {
				s.t.Fatalf("the screen ends with %q, want %q", s.seen.String(), want)
			}
			s.seen.WriteByte(b)
		case <-limit:
			s.t.Fatalf("the screen shows %q, want %q", s.seen.String(), want)
		}
	}
	s.seen.Reset()
}

func (s *terminal) types(keys string) {
	s.t.Helper()
	if _, err := io.WriteString(s.keys, keys); err != nil {
		s.t.Fatal(err)
	}
}

func TestPrompt(t *testing.T) {
	w := newFixture(t, nil)
	w.bases.health.State = arklet.StateActivated
	for name, end := range map[string]string{"exit": "exit\r", "Ctrl-D": "\x04"} {
		t.Run(name, func(t *testing.T) {
			s := w.openPrompt(t)
			s.waitFor(prompt)
			s.types("helth") // each key is echoed
			s.waitFor("helth")
			s.types("\x7f\x7f\x7falth\r") // edit the line
			s.waitFor("BASE     ACTIVATED   RUNNING   METASPACE USED   COMMITTED   MAX\r\n")
			s.waitFor(prompt)
			s.types("sh\r")
			s.waitFor(`"sh"`)
			s.waitFor(prompt) // the next prompt
			s.types(end)
			if status := <-s.done; status != 0 {
				t.Errorf("exit status %d", status)
			}
		})
	}
	t.Run("the server stops", func(t *testing.T) {
		s := w.openPrompt(t)
		s.waitFor(prompt)
		w.stop()
		if status := <-s.done; status != exitFailed {
			t.Errorf("exit status %d, want %d", status, exitFailed)
		}
		s.waitFor("the module controller is stopping\r\n")
	})
}
