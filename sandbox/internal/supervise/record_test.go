package supervise

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func names(records []Record) []string {
	var names []string
	for _, r := range records {
		names = append(names, r.Name)
	}
	return names
}

func TestRecordSaysWhatRuns(t *testing.T) {
	b := newBench(t)
	spec := b.spec("store", "polite")
	spec.StopSignal, spec.StopTimeout = syscall.SIGINT, 7*time.Second
	b.up(t, spec)
	want := []Record{{
		Name: "store", PID: b.one(t, "store").PID, Command: append([]string{spec.Path}, spec.Args...),
		StopSignal: int(syscall.SIGINT), StopTimeout: 7 * time.Second, Alive: true,
	}}
	got, err := Records(b.Supervisor.dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Record{}, "Start", "StartedAt")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if err := b.Kill("store"); err != nil {
		t.Fatal(err)
	}
	want[0].Alive = false
	got, err = Records(b.Supervisor.dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Record{}, "Start", "StartedAt")); diff != "" {
		t.Errorf("after Kill (-want +got):\n%s", diff)
	}
}

func TestRecordsOfNothing(t *testing.T) {
	if got, err := Records(filepath.Join(t.TempDir(), "missing")); err != nil || got != nil {
		t.Errorf("Records of a missing folder: %v, %v", got, err)
	}
}

// A second supervisor of the same folder stands for the sandbox after its crash: the processes are
// not its own.
func TestCleanStale(t *testing.T) {
	b := newBench(t)
	dir := b.Supervisor.dir
	b.up(t, b.spec("store", "polite"))
	stubborn := b.spec("api", "stubborn")
	stubborn.StopTimeout = 20 * time.Millisecond
	b.up(t, stubborn)
	b.up(t, b.spec("dead", "polite"))
	b.up(t, b.spec("stranger", "polite"))
	if err := b.Kill("dead"); err != nil {
		t.Fatal(err)
	}
	if err := RecordSelf(dir, "self"); err != nil {
		t.Fatal(err)
	}
	// The stranger got the pid of a process that was started at another time.
	stranger, err := readRecord(filepath.Join(dir, "stranger.json"))
	if err != nil {
		t.Fatal(err)
	}
	stranger.Start += "0"
	if err := writeRecord(dir, stranger); err != nil {
		t.Fatal(err)
	}

	if got, err := readRecord(filepath.Join(dir, "stranger.json")); err != nil || got.Alive {
		t.Errorf("the record of a process that is gone: %+v, %v", got, err)
	}

	ended, err := CleanStale(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"api", "store"}, names(ended)); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
	states := map[string]string{}
	for _, name := range []string{"store", "api"} {
		eventually(t, func() error { return differs(Exited, b.one(t, name).State) })
	}
	for _, st := range b.Status(t.Context(), nil) {
		states[st.Name] = string(st.State) + " " + st.ExitError
	}
	want := map[string]string{
		"store": "exited exit status 0", "api": "exited signal: killed", "dead": "exited signal: killed", "stranger": "running ",
	}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	left, err := Records(dir)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff([]string{"self"}, names(left)); diff != "" {
		t.Errorf("records left (-want +got):\n%s", diff)
	}
}

func TestCleanStaleKillsWhenTimeIsUp(t *testing.T) {
	b := newBench(t)
	b.up(t, b.spec("store", "stubborn"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended, err := CleanStale(ctx, b.Supervisor.dir)
	if err != nil || len(ended) != 1 {
		t.Errorf("CleanStale: %v, %v", names(ended), err)
	}
}

func TestDamagedRecords(t *testing.T) {
	b := newBench(t)
	b.up(t, b.spec("store", "polite"))
	dir := b.Supervisor.dir
	for file, content := range map[string]string{
		"torn.json": `{"name": "torn", "pid":`, "other.json": `{"name": "store", "pid": 4242}`, "init.json": `{"name": "init", "pid": 1}`,
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	got, err := Records(dir)
	if diff := cmp.Diff([]string{"store"}, names(got)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	for _, file := range []string{"torn.json", "other.json", "init.json"} {
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("%v does not name %s", err, file)
		}
	}
}

// lines is a log handler that keeps message and component.
type lines struct {
	slog.Handler
	mu   sync.Mutex
	kept []string
}

func (l *lines) logger() *slog.Logger { return slog.New(l) }

func (l *lines) Enabled(context.Context, slog.Level) bool { return true }

func (l *lines) Handle(_ context.Context, r slog.Record) error {
	text := r.Message
	r.Attrs(func(a slog.Attr) bool {
		if a.Key == "component" {
			text += " " + a.Value.String()
		}
		return true
	})
	l.mu.Lock()
	defer l.mu.Unlock()
	l.kept = append(l.kept, text)
	return nil
}

func (l *lines) take() []string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.kept
}
