// Package check has what every e2e test does: fail on an error, wait until
// something is so, look whether a Node is Ready, name a server that is not there, and find a folder for what explains a failure.
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

// poll is the pause between two looks.
const poll = 50 * time.Millisecond

// Must fails the test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually waits until look finds nothing wrong; when patience has passed, or ctx
// ends, it fails the test with what was wrong last.
func Eventually(ctx context.Context, t testing.TB, patience time.Duration, what string, look func(context.Context) error) {
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

// Patience is how long tests wait on a busy machine. The slowest are the garbage collector of Kubernetes, which deletes the
// Pods of a deleted Node after up to a minute, and a JVM that starts.
const Patience = 3 * time.Minute

// Soon waits, at most for Patience, until look returns nil.
func Soon(t *testing.T, what string, look func(context.Context) error) {
	t.Helper()
	Eventually(t.Context(), t, Patience, what, look)
}

// NodeReady tells whether Kubernetes has a Node for ready.
func NodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// ClosedPort returns an address at which nobody listens.
func ClosedPort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	Must(t, l.Close())
	return l.Addr().String()
}

// longestName of a folder, in bytes. File systems take 255; the names of tests may have more, since
// descriptions of scenarios are in them.
const longestName = 120

var unusual = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// Artifacts makes an empty folder for what explains the failure of a test, below artifacts in the
// folder e2e, and returns its path. A long name of a test is cut, and stays its own.
func Artifacts(e2e, test string) (string, error) {
	name := unusual.ReplaceAllString(test, "_")
	if len(name) > longestName {
		hash := fnv.New32a()
		_, _ = hash.Write([]byte(test)) // never fails
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
