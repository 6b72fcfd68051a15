// Package check has helpers for e2e tests.
package check

import (
	"context"
	"errors"
	"fmt"
	"hash/fnv"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/wait"
)

const poll = 50 * time.Millisecond

// Must fails the test if err is not nil.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually calls check repeatedly until it returns nil. If the timeout expires or ctx ends first, Eventually fails
// the test with the last error of check.
func Eventually(ctx context.Context, t testing.TB, timeout time.Duration, what string,
	check func(context.Context) error) {
	t.Helper()
	last := errors.New("the condition was not checked")
	err := wait.PollUntilContextTimeout(ctx, poll, timeout, true, func(ctx context.Context) (bool, error) {
		err := check(ctx)
		if err != nil && ctx.Err() == nil {
			last = err
		}
		return err == nil, nil
	})
	if err != nil {
		t.Fatalf("timed out after %s: %s; last error: %v", timeout, what, last)
	}
}

// Timeout is the timeout of Soon. The slowest awaited events are the start of a JVM and the deletion of the Pods of a
// deleted Node, which takes Kubernetes up to a minute.
const Timeout = 3 * time.Minute

// Soon calls Eventually with Timeout and the context of the test.
func Soon(t *testing.T, what string, check func(context.Context) error) {
	t.Helper()
	Eventually(t.Context(), t, Timeout, what, check)
}

// NodeReady reports whether the Node's Ready condition is True.
func NodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// ClosedPort returns host:port of a loopback address on which no process listens.
func ClosedPort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	Must(t, l.Close())
	return l.Addr().String()
}

// longestName is the maximum length of a directory name in bytes. Test names can be longer, because they contain
// descriptions of scenarios.
const longestName = 120

var unusual = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// Artifacts creates an empty directory for the artifacts of a test, and returns its path. The argument e2e is the
// path of the directory e2e. Long test names are shortened but stay unique.
func Artifacts(e2e, test string) (string, error) {
	name := unusual.ReplaceAllString(test, "_")
	if len(name) > longestName {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(test)) // a hash never returns an error
		name = fmt.Sprintf("%s-%08x", name[:longestName], hash.Sum32())
	}
	folder, err := filepath.Abs(filepath.Join(e2e, "artifacts", name))
	if err == nil {
		err = os.RemoveAll(folder)
	}
	if err == nil {
		err = os.MkdirAll(folder, 0o750)
	}
	return folder, err
}
