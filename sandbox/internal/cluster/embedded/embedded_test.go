package embedded

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// binary returns the path of koup-controlplane. It skips the test if the binary has not been built.
func binary(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../../../../bin/koup-controlplane")
	check.Must(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("requires the control plane binary: %v", err)
	}
	return path
}

// newControlPlane returns a control plane with its own supervisor. The control plane is stopped at the end of the
// test.
func newControlPlane(t testing.TB, dir string, change func(*Options)) *ControlPlane {
	t.Helper()
	logger := slog.New(slog.NewTextHandler(t.Output(), nil))
	o := Options{
		Owner: cluster.Owner{Sandbox: "demo"}, Dir: dir, Binary: binary(t), Logger: logger,
		Supervisor: supervise.New(supervise.Options{Dir: filepath.Join(dir, "run"), Logger: logger}),
	}
	if change != nil {
		change(&o)
	}
	c, err := New(o)
	check.Must(t, err)
	t.Cleanup(func() {
		if err := c.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return c
}

// up runs the steps of a control plane and logs the duration of each step.
func up(t testing.TB, c *ControlPlane) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	start := time.Now()
	for _, step := range c.Steps().All() {
		if err := step.Run(ctx); err != nil {
			t.Fatalf("%s: %v", step.Name, err)
		}
		t.Logf("%5.2f s  %s", time.Since(start).Seconds(), step.Name)
	}
}

// TestStateDirectory checks that a control plane can start in the state directory of an earlier one: after a normal
// stop, after a crash of the supervisor, and with Wipe.
func TestStateDirectory(t *testing.T) {
	dir := t.TempDir()
	c := newControlPlane(t, dir, func(o *Options) { o.Durable = true })
	up(t, c)
	_, err := c.client().CoreV1().ConfigMaps("default").Create(t.Context(),
		&corev1.ConfigMap{ObjectMeta: metav1.ObjectMeta{Name: "kept"}}, metav1.CreateOptions{})
	check.Must(t, err)
	kubeconfig, err := os.ReadFile(c.Cluster().Kubeconfig)
	check.Must(t, err)

	check.Must(t, c.Down(t.Context()))
	exits := map[string]string{}
	for _, st := range c.o.Supervisor.Status(t.Context(), nil) {
		exits[st.Name] = st.Exit
	}
	want := map[string]string{
		etcd:      "signal: terminated", // shuts down gracefully because of Durable
		apiserver: "signal: killed", controllerManager: "signal: killed", scheduler: "signal: killed",
	}
	if diff := cmp.Diff(want, exits); diff != "" {
		t.Errorf("exits (-want +got):\n%s", diff)
	}
	if records, err := supervise.Records(filepath.Join(dir, "run")); err != nil || len(records) != 0 {
		t.Errorf("records after Down: %v (%v)", records, err)
	}

	// The second supervisor crashes without Down. CleanStale ends its processes.
	crashed := newControlPlane(t, dir, nil)
	up(t, crashed)
	ended, err := supervise.CleanStale(t.Context(), filepath.Join(dir, "run"))
	check.Must(t, err)
	if len(ended) != len(componentNames) {
		t.Errorf("CleanStale ended %v", ended)
	}

	again := newControlPlane(t, dir, nil)
	up(t, again)
	if _, err := again.client().CoreV1().ConfigMaps("default").Get(t.Context(), "kept",
		metav1.GetOptions{}); err != nil {
		t.Errorf("reading an object of the first run: %v", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	check.Must(t, err)
	if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default").Get(t.Context(), "kept",
		metav1.GetOptions{}); err != nil {
		t.Errorf("using the kubeconfig of the first run: %v", err)
	}
	check.Must(t, again.Down(t.Context()))

	wiped := newControlPlane(t, dir, func(o *Options) { o.Wipe = true })
	up(t, wiped)
	_, err = wiped.client().CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("reading an object after Wipe: %v", err)
	}
}

func TestDamagedData(t *testing.T) {
	dir := t.TempDir()
	c := newControlPlane(t, dir, nil)
	check.Must(t, c.prepare(t.Context()))
	check.Must(t, c.startEtcd(t.Context()))
	check.Must(t, c.Down(t.Context()))
	wals, err := filepath.Glob(filepath.Join(c.etcdDir(), "member", "wal", "*.wal"))
	check.Must(t, err)
	if len(wals) == 0 {
		t.Fatal("etcd has no write-ahead log")
	}
	for _, wal := range wals {
		check.Must(t, os.WriteFile(wal, bytes.Repeat([]byte("damaged "), 1024), 0o600))
	}

	c = newControlPlane(t, dir, nil)
	check.Must(t, c.prepare(t.Context()))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	err = c.startEtcd(ctx)
	var notReady *supervise.NotReadyError
	if !errors.As(err, &notReady) || !notReady.Exited || len(notReady.LastLines) == 0 {
		t.Errorf("error without exit or log lines: %v", err)
	}
	if err == nil || !strings.HasPrefix(err.Error(),
		"etcd did not start with the data of an earlier run in "+c.etcdDir()) {
		t.Errorf("error %v", err)
	}
}

// TestPortTaken checks that the control plane starts on another port if another process takes an assigned port before
// the component opens it.
func TestPortTaken(t *testing.T) {
	for _, name := range []string{apiserver, scheduler} { // with and without clients among the components
		t.Run(name, func(t *testing.T) {
			t.Parallel() // a start consists mostly of waiting
			c, listener := withoutPort(t, name)
			defer func() { _ = listener.Close() }() // it was not used
			steps, assigned := c.Steps().All(), c.access.Load().ports[name]
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, step := range steps[1:] {
				if err := step.Run(ctx); err != nil {
					t.Fatalf("%s: %v", step.Name, err)
				}
			}
			if c.access.Load().ports[name] == assigned {
				t.Error("the port was not changed")
			}
			for _, st := range c.o.Supervisor.Status(ctx, nil) {
				if !st.Ready {
					t.Errorf("%s is not ready: %s", st.Name, st.Reason)
				}
			}
		})
	}
}

// withoutPort prepares a control plane whose port for the named component is in use.
func withoutPort(t *testing.T, name string) (c *ControlPlane, listener net.Listener) {
	t.Helper()
	for {
		c = newControlPlane(t, t.TempDir(), nil)
		check.Must(t, c.prepare(t.Context()))
		listener, err := listen(c.access.Load().ports[name])
		if err == nil {
			return c, listener
		}
		if !errors.Is(err, syscall.EADDRINUSE) { // otherwise another test has taken the port
			t.Fatal(err)
		}
	}
}

// TestPortTakenBriefly checks that a component starts even if its port is in use at the first attempt and free again
// at the next.
func TestPortTakenBriefly(t *testing.T) {
	c, listener := withoutPort(t, etcd)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check.Must(t, c.launch(ctx, etcd))
	if err := c.o.Supervisor.WaitUntil(ctx, etcd, c.etcdReady); !exited(err) {
		t.Fatalf("etcd is running without its port: %v", err)
	}
	check.Must(t, listener.Close())
	check.Must(t, c.waitUntil(ctx, etcd, c.etcdReady))
}
