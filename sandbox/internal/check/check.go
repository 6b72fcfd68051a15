// Package check has helpers for the tests of the sandbox.
package check

import (
	"context"
	"strings"
	"testing"
	"time"
)

// WaitTimeout is the timeout for an event that must happen in a test. Only a failing test waits that long.
const WaitTimeout = time.Minute

// poll is the interval between two attempts of Eventually.
const poll = 5 * time.Millisecond

// Eventually calls look repeatedly until it returns nil. It blocks for at most timeout, and then fails the test with
// the last error of look.
func Eventually(t testing.TB, timeout time.Duration, look func() error) {
	t.Helper()
	limit := time.After(timeout)
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
			t.Fatalf("after %s: %v", timeout, err)
		}
	}
}

// Run runs start in the background. At the end of the test, Run cancels the context of start, waits until start has
// returned, and fails the test if start returns an error.
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

// Must fails the test immediately if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// ContainsWords reports a test error for each word that the text does not contain.
func ContainsWords(t testing.TB, text, words string) {
	t.Helper()
	for word := range strings.FieldsSeq(words) {
		if !strings.Contains(text, word) {
			t.Errorf("%q is not in %s", word, text)
		}
	}
}
