// Package check has helpers for the tests of the sandbox.
package check

import (
	"context"
	"strings"
	"testing"
	"time"
)

// Patience is the timeout of tests for an event that must happen. Only a failing test waits that long.
const Patience = time.Minute

// poll is the time between two attempts.
const poll = 5 * time.Millisecond

// Eventually calls look until it returns nil. After the timeout patience, it fails the test with the last
// error.
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
