// Package check has what tests of the sandbox do again and again.
package check

import (
	"context"
	"strings"
	"testing"
	"time"
)

// Patience is the time that tests wait for something that must happen. It only limits the run of a broken test: a slow
// machine needs a fraction of it.
const Patience = 2 * time.Minute

// poll is the pause between two attempts.
const poll = 5 * time.Millisecond

// Eventually looks again and again until there is nothing to complain about. When
// patience has passed, it fails the test with the last complaint.
func Eventually(t testing.TB, patience time.Duration, look func() error) {
	t.Helper()
	limit := time.After(patience)
	tick := time.NewTicker(poll)
	defer tick.Stop()
	for {
		err := look()
		if err == nil {
			return
		}
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("after %s: %v", patience, err)
		}
	}
}

// Run runs start in the background. When the test ends, it cancels the context, waits for start, and fails the test on
// an error.
func Run(t testing.TB, start func(context.Context) error) {
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- start(ctx) }()
	t.Cleanup(func() {
		cancel()
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
}

// Must fails the test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ContainsWords reports an error for each word that is not in the text.
func ContainsWords(t testing.TB, text, words string) {
	t.Helper()
	for word := range strings.FieldsSeq(words) {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not in %s", word, text)
		}
	}
}
