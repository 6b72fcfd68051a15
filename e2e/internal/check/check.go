// Package check has what every e2e test does: fail on an error, wait until
// something is so, and name a server that is not there.
package check

import (
	"context"
	"errors"
	"net"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
)

// poll is the pause between two looks.
const poll = 50 * time.Millisecond

// Must fails the test on an error.
func Must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually waits until look finds nothing wrong; when patience has passed, or ctx
// ends, it fails the test with what was wrong last.
func Eventually(ctx context.Context, t *testing.T, patience time.Duration, what string, look func(context.Context) error) {
	t.Helper()
	last := errors.New("nothing was looked at")
	err := wait.PollUntilContextTimeout(ctx, poll, patience, true, func(ctx context.Context) (bool, error) {
		err := look(ctx)
		if err != nil && ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("not within %s: %s; last seen: %v", patience, what, last)
	}
}

// ClosedPort returns an address at which nobody listens.
func ClosedPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	Must(t, l.Close())
	return l.Addr().String()
}
