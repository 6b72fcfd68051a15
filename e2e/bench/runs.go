package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	results "github.com/koupleless/koupsandbox/sandbox/scenario"
)

// lossless is what a stream of requests is judged by when the scenario says
// nothing else.
const lossless = "lost == 0"

// showing is one call of koupsandbox scenario run.
type showing struct {
	report results.Report
	// verdict is how long it took until the first verdict was printed, whole until
	// the command had ended.
	verdict, whole time.Duration
}

// prepare brings a sandbox up for scenarios, which bring bases of their own.
func (b *bench) prepare(ctx context.Context) error {
	one := 1
	return b.Up(ctx, v1alpha1.Spec{Bases: v1alpha1.Bases{Count: &one, Name: "unused"}})
}

// show runs scenarios as their user does. Those that do not pass are told at
// once, and are no error: figures count them.
func (b *bench) show(ctx context.Context, args ...string) (*showing, error) {
	file := filepath.Join(b.Home, b.Name+"-report.json")
	cmd := b.Command(ctx, append([]string{"scenario", "run", "--json", file}, args...)...)
	var out firstWrite
	var stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &stderr
	start := time.Now()
	err := cmd.Run()
	s := &showing{verdict: out.at.Sub(start), whole: time.Since(start)}
	const notPassed = 1
	var exit *exec.ExitError
	switch {
	case errors.As(err, &exit) && exit.ExitCode() == notPassed:
		_, _ = out.text.WriteTo(b.stderr) // as all that goes there
	case err != nil:
		return nil, fmt.Errorf("%s: %w\n%s%s", cmd, err, out.text.String(), stderr.String())
	}
	text, err := os.ReadFile(file)
	if err == nil {
		err = json.Unmarshal(text, &s.report)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the report of scenarios: %w", err)
	}
	return s, nil
}

// firstWrite keeps what is written, and when that began.
type firstWrite struct {
	text bytes.Buffer // not embedded: a copy would go past Write
	at   time.Time
}

// Write never fails.
func (w *firstWrite) Write(p []byte) (int, error) {
	if w.at.IsZero() {
		w.at = time.Now()
	}
	return w.text.Write(p)
}

// tally counts what runs have led to.
type tally struct {
	runs, notPassed int
	// sent are requests, lost those that were lost though none should be, meant
	// those of streams that are there to lose some.
	sent, lost, meant int
}

func (t *tally) add(r *results.Report) {
	for _, run := range r.Runs {
		t.runs++
		if run.Verdict != results.Passed {
			t.notPassed++
		}
		for _, stream := range run.Traffic {
			t.sent += stream.Sent
			if stream.Judge == lossless {
				t.lost += stream.Summary.Lost
			} else {
				t.meant += stream.Summary.Lost
			}
		}
	}
}

// noteTally adds what has been counted.
func (b *bench) noteTally(t tally) {
	b.note("runs", float64(t.runs), "runs")
	b.judge("runs that have not passed", float64(t.notPassed), "runs", 0)
	b.note("requests sent", float64(t.sent), "requests")
	b.judge("requests lost", float64(t.lost), "requests", 0)
	b.note("requests lost where a scenario is there to lose some", float64(t.meant), "requests")
}
