// Package check has what tests of the sandbox do again and again.
package check

import (
	"testing"
	"time"
)

// poll is the pause between two looks.
const poll = time.Millisecond

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

// Must fails the test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}
