package progress_test

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/progress"
)

func TestStepReportsItsEnd(t *testing.T) { synctest.Test(t, testStepReportsItsEnd) }

func testStepReportsItsEnd(t *testing.T) {
	var events []progress.Event
	steps := progress.New(func(e progress.Event) { events = append(events, e) })
	broken := errors.New("no port\nmore about it")
	work := func(d time.Duration, err error) func(context.Context) error {
		return func(context.Context) error {
			time.Sleep(d)
			return err
		}
	}
	if err := steps.Step(t.Context(), "broker", work(200*time.Millisecond, nil)); err != nil {
		t.Error(err)
	}
	if err := steps.Step(t.Context(), "fleet", work(time.Second, broken)); !errors.Is(err, broken) {
		t.Errorf("Step returned %v", err)
	}
	steps.Note("done")
	want := []progress.Event{
		{Kind: progress.Started, Step: "broker"},
		{Kind: progress.Done, Step: "broker", Elapsed: 200 * time.Millisecond},
		{Kind: progress.Started, Step: "fleet"},
		{Kind: progress.Failed, Step: "fleet", Elapsed: time.Second, Error: "no port"},
		{Kind: progress.Note, Step: "done"},
	}
	if diff := cmp.Diff(want, events); diff != "" {
		t.Errorf("events (-want +got):\n%s", diff)
	}
}

var overlap = []progress.Event{
	{Kind: progress.Started, Step: "etcd"},
	{Kind: progress.Started, Step: "broker"},
	{Kind: progress.Done, Step: "broker", Elapsed: 140 * time.Millisecond},
	{Kind: progress.Failed, Step: "etcd", Elapsed: 2 * time.Second, Error: "disk full"},
	{Kind: progress.Note, Step: "logs are kept"},
}

func TestPrinter(t *testing.T) {
	const (
		brokerLine = "✓ broker                                             0.1s\n"
		etcdLine   = "✗ etcd                                               2.0s  disk full\n"
		erase      = "\r\033[K"
	)
	for _, tc := range []struct {
		name    string
		options progress.PrinterOptions
		want    string
	}{
		{"plain", progress.PrinterOptions{}, brokerLine + etcdLine + "  logs are kept\n"},
		{"quiet", progress.PrinterOptions{Quiet: true}, etcdLine},
		{"quiet terminal", progress.PrinterOptions{Quiet: true, Terminal: true}, etcdLine},
		{"terminal", progress.PrinterOptions{Terminal: true}, "" +
			erase + "⠋ etcd (0.0s)" +
			erase + erase + "⠋ etcd, broker (0.0s)" +
			erase + brokerLine + erase + "⠋ etcd (0.0s)" +
			erase + etcdLine + "  logs are kept\n"},
		{"narrow terminal", progress.PrinterOptions{Terminal: true, Width: 10}, "" +
			erase + "⠋ etcd (…" +
			erase + erase + "⠋ etcd, …" +
			erase + brokerLine + erase + "⠋ etcd (…" +
			erase + etcdLine + "  logs are kept\n"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var out bytes.Buffer
			p := progress.NewPrinter(&out, tc.options)
			for _, e := range overlap {
				p.Event(e)
			}
			p.Close()
			if diff := cmp.Diff(tc.want, out.String()); diff != "" {
				t.Errorf("output (-want +got):\n%s", diff)
			}
		})
	}
}

// TestPrinterEscapesControlCharacters checks that control characters are escaped, because the printed texts can come
// from bases and container engines.
func TestPrinterEscapesControlCharacters(t *testing.T) {
	var out bytes.Buffer
	p := progress.NewPrinter(&out, progress.PrinterOptions{})
	p.Event(progress.Event{Kind: progress.Failed, Step: "a\x1b[2J", Error: "b\u009b"})
	p.Event(progress.Event{Kind: progress.Note, Step: "c\r"})
	p.Close()
	want := "✗ a\\x1b[2J                                           0.0s  b\\u009b\n  c\\r\n"
	if diff := cmp.Diff(want, out.String()); diff != "" {
		t.Errorf("output (-want +got):\n%s", diff)
	}
}
