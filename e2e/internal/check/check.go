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

// Must fails the test on an error.
func Must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Eventually waits until look returns nil. After patience, or when ctx ends, it fails the test with the last error.
func Eventually(ctx context.Context, t testing.TB, patience time.Duration, what string,
	look func(context.Context) error) {
	t.Helper()
	last := errors.New("no check was made")
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

// Patience is the maximum time that tests wait. The slowest events are the deletion of Pods of a deleted Node, which
// takes Kubernetes up to a minute, and the start of a JVM.
const Patience = 3 * time.Minute

// Soon waits, at most for Patience, until look returns nil.
func Soon(t *testing.T, what string, look func(context.Context) error) {
	t.Helper()
	Eventually(t.Context(), t, Patience, what, look)
}

// NodeReady reports whether the Node's Ready condition is True.
func NodeReady(n *corev1.Node) bool {
	return slices.ContainsFunc(n.Status.Conditions, func(c corev1.NodeCondition) bool {
		return c.Type == corev1.NodeReady && c.Status == corev1.ConditionTrue
	})
}

// ClosedPort returns an address without a listener.
func ClosedPort(t testing.TB) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	Must(t, err)
	Must(t, l.Close())
	return l.Addr().String()
}

// longestName is the maximum length of a directory name in bytes. Names of tests contain descriptions of scenarios.
const longestName = 120

var unusual = regexp.MustCompile(`[^A-Za-z0-9._-]+`)

// Artifacts creates an empty directory for the failure of a test, below artifacts in the directory e2e, and returns its
// path. Long names of tests are shortened, and stay unique.
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
