package supervise

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"

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

func TestRecords(t *testing.T) {
	b := newFixture(t)
	spec := b.spec("store", "polite")
	spec.StopSignal, spec.StopTimeout = syscall.SIGINT, 7*time.Second
	b.up(t, spec)
	want := []Record{{
		Name: "store", PID: b.status(t, "store").PID, Command: append([]string{spec.Path}, spec.Args...),
		StopSignal: int(syscall.SIGINT), StopTimeout: 7 * time.Second, Running: true,
	}}
	got, err := Records(b.Supervisor.dir)
	check.Must(t, err)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Record{}, "Start", "StartedAt")); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	check.Must(t, b.Kill("store"))
	want[0].Running = false
	got, err = Records(b.Supervisor.dir)
	check.Must(t, err)
	if diff := cmp.Diff(want, got, cmpopts.IgnoreFields(Record{}, "Start", "StartedAt")); diff != "" {
		t.Errorf("after Kill (-want +got):\n%s", diff)
	}
}

// TestCleanStale checks that CleanStale, as after a crash of the supervisor, stops the recorded processes that are
// still running. It must not stop the calling process or a later process with a recorded PID.
func TestCleanStale(t *testing.T) {
	b := newFixture(t)
	dir := b.Supervisor.dir
	b.up(t, b.spec("store", "polite"))
	stubborn := b.spec("api", "stubborn")
	stubborn.StopTimeout = 20 * time.Millisecond
	b.up(t, stubborn)
	b.up(t, b.spec("dead", "polite"))
	b.up(t, b.spec("stranger", "polite"))
	check.Must(t, b.Kill("dead"))
	check.Must(t, RecordSelf(dir, "self"))
	// The PID of the record "stranger" now belongs to a process with another start time.
	stranger, err := readRecord(filepath.Join(dir, "stranger.json"))
	check.Must(t, err)
	stranger.Start += "0"
	check.Must(t, writeRecord(dir, stranger))

	if got, err := readRecord(filepath.Join(dir, "stranger.json")); err != nil || got.Running {
		t.Errorf("record of an ended process: %+v, %v", got, err)
	}

	ended, err := CleanStale(t.Context(), dir)
	check.Must(t, err)
	if diff := cmp.Diff([]string{"api", "store"}, names(ended)); diff != "" {
		t.Errorf("ended (-want +got):\n%s", diff)
	}
	states := map[string]string{}
	for _, name := range []string{"store", "api"} {
		eventually(t, func() error { return differs(Exited, b.status(t, name).State) })
	}
	for _, st := range b.Status(t.Context(), nil) {
		states[st.Name] = string(st.State) + " " + st.Exit
	}
	want := map[string]string{
		"store": "exited exit status 0", "api": "exited signal: killed", "dead": "exited signal: killed",
		"stranger": "running ",
	}
	if diff := cmp.Diff(want, states); diff != "" {
		t.Errorf("states (-want +got):\n%s", diff)
	}
	left, err := Records(dir)
	check.Must(t, err)
	if diff := cmp.Diff([]string{"self"}, names(left)); diff != "" {
		t.Errorf("remaining records (-want +got):\n%s", diff)
	}
}

func TestCleanStaleKillsWhenContextEnds(t *testing.T) {
	b := newFixture(t)
	b.up(t, b.spec("store", "stubborn"))
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	ended, err := CleanStale(ctx, b.Supervisor.dir)
	if err != nil || len(ended) != 1 {
		t.Errorf("CleanStale: %v, %v", names(ended), err)
	}
}

func TestRecordsReportsDamagedFiles(t *testing.T) {
	b := newFixture(t)
	b.up(t, b.spec("store", "polite"))
	dir := b.Supervisor.dir
	for file, content := range map[string]string{
		"torn.json": `{"name": "torn", "pid":`, "other.json": `{"name": "store", "pid": 4242}`,
		"init.json": `{"name": "init", "pid": 1}`,
	} {
		check.Must(t, os.WriteFile(filepath.Join(dir, file), []byte(content), 0o600))
	}
	got, err := Records(dir)
	if diff := cmp.Diff([]string{"store"}, names(got)); diff != "" {
		t.Errorf("records (-want +got):\n%s", diff)
	}
	for _, file := range []string{"torn.json", "other.json", "init.json"} {
		if err == nil || !strings.Contains(err.Error(), file) {
			t.Errorf("error %v does not name %s", err, file)
		}
	}
}
