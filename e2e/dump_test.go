package e2e

import (
	"context"
	"io"
	"os"
	"path/filepath"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
)

// dump keeps everything that explains a failure in a folder below artifacts, and
// says where. What cannot be had is noted in its place.
func dump(ctx context.Context, t *testing.T, b *box.Box) {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	folder, err := check.Artifacts(".", t.Name())
	if err != nil {
		t.Logf("nothing is kept of this failure: %v", err)
		return
	}
	write := func(name string, value any, err error) {
		text, ready := value.([]byte)
		if !ready && err == nil {
			text, err = yaml.Marshal(value)
		}
		if err != nil {
			text = []byte(err.Error() + "\n")
		}
		if err := os.WriteFile(filepath.Join(folder, name), text, 0o600); err != nil {
			t.Logf("%s is not kept: %v", name, err)
		}
	}
	status, err := b.Run(ctx, "status", "-o", "yaml")
	write("status.yaml", []byte(status.Out+status.Err), err)
	if c, err := b.Client(); err != nil {
		write("kubernetes.yaml", nil, err)
	} else {
		all := metav1.ListOptions{}
		nodes, err := c.CoreV1().Nodes().List(ctx, all)
		write("nodes.yaml", nodes, err)
		podList, err := c.CoreV1().Pods("").List(ctx, all)
		write("pods.yaml", podList, err)
		events, err := c.CoreV1().Events("").List(ctx, all)
		write("events.yaml", events, err)
		leases, err := c.CoordinationV1().Leases("").List(ctx, all)
		write("leases.yaml", leases, err)
	}
	logs, err := filepath.Glob(b.Log("*"))
	if err != nil {
		t.Logf("the logs are not kept: %v", err)
	}
	for _, log := range logs {
		if err := copyFile(log, filepath.Join(folder, filepath.Base(log))); err != nil {
			t.Logf("%s is not kept: %v", log, err)
		}
	}
	t.Logf("what explains this failure is in %s", folder)
}

func copyFile(from, to string) (err error) {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer func() { _ = in.Close() }() // it was only read
	out, err := os.Create(to)
	if err != nil {
		return err
	}
	defer func() {
		if closeErr := out.Close(); err == nil {
			err = closeErr
		}
	}()
	_, err = io.Copy(out, in)
	return err
}
