package embedded

import (
	"context"
	"log/slog"
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// binary returns the path of koup-controlplane as the Makefile builds it, and skips the test where it is not built.
func binary(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../../../../bin/koup-controlplane")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs the control plane's program, which is not built: %v", err)
	}
	return path
}

// newControlPlane is one in dir that ends with the test.
func newControlPlane(t testing.TB, dir string, change func(*Options)) *ControlPlane {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	o := Options{
		Sandbox: "demo", Dir: dir, Binary: binary(t), Logger: logger,
		Supervisor: supervise.New(supervise.Options{Dir: filepath.Join(dir, "run"), Logger: logger}),
	}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := c.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// up runs the steps and logs how long each took.
func up(t testing.TB, c *ControlPlane) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begin := time.Now()
	for _, step := range c.Steps() {
		if err := step.Run(ctx); err != nil {
			t.Fatalf("%s: %v", step.Name, err)
		}
		t.Logf("%5.2f s  %s", time.Since(begin).Seconds(), step.Name)
	}
}

func TestUp(t *testing.T) {
	c := newControlPlane(t, t.TempDir(), nil)
	up(t, c)
	for _, st := range c.o.Supervisor.Status(t.Context()) {
		t.Logf("%s %s ready=%v %s rss=%d MB cpu=%s", st.Name, st.State, st.Ready, st.Reason, st.RSS>>20, st.CPU)
	}
	b := time.Now()
	if err := c.Down(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Logf("down %s", time.Since(b))
}
