package main

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	results "github.com/koupleless/koupsandbox/sandbox/scenario"
)

func TestTally(t *testing.T) {
	stream := func(judge string, sent, lost int) results.Traffic {
		s := results.Traffic{Judge: judge}
		s.Sent, s.Summary.Lost = sent, lost
		return s
	}
	r := &results.Report{Runs: []*results.Run{
		{Verdict: results.Passed, Traffic: []results.Traffic{stream(lossless, 10, 0), stream("notFound > 0", 20, 5)}},
		{Verdict: results.Failed, Traffic: []results.Traffic{stream(lossless, 30, 1)}},
		{Verdict: results.Errored},
		{Verdict: results.Passed},
	}}
	var got tally
	got.add(r)
	want := tally{runs: 4, notPassed: 2, sent: 60, lost: 1, meant: 5}
	if d := cmp.Diff(want, got, cmp.AllowUnexported(tally{})); d != "" {
		t.Error(d)
	}
}

func TestFirstWrite(t *testing.T) {
	before := time.Now()
	var w firstWrite
	if _, err := io.Copy(&w, strings.NewReader("one")); err != nil { // as a command's output comes
		t.Fatal(err)
	}
	first := w.at
	if _, err := w.Write([]byte(" two")); err != nil {
		t.Fatal(err)
	}
	if w.at != first || first.Before(before) || w.text.String() != "one two" {
		t.Errorf("%q, first at %v of %v", w.text.String(), w.at, before)
	}
}
