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

// binary returns the path of koup-controlplane as the Makefile builds it, and skips the test where
// it is not built.
func binary(t testing.TB) string {
	t.Helper()
	path, err := filepath.Abs("../../../../bin/koup-controlplane")
	check.Must(t, err)
	if _, err := os.Stat(path); err != nil {
		t.Skipf("needs the control plane's program, which is not built: %v", err)
	}
	return path
}

// newControlPlane is one in dir, with a supervisor of its own, that ends with the test.
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

// up runs the steps and logs how long they took.
func up(t testing.TB, c *ControlPlane) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	begin := time.Now()
	for _, step := range c.Steps().All() {
		if err := step.Run(ctx); err != nil {
			t.Fatalf("%s: %v", step.Name, err)
		}
		t.Logf("%5.2f s  %s", time.Since(begin).Seconds(), step.Name)
	}
}

// One state folder lives through stop, start, a crash of the supervisor, and a wipe.
func TestStateFolder(t *testing.T) {
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
		etcd:      "signal: terminated", // with Durable it closes its files
		apiserver: "signal: killed", controllerManager: "signal: killed", scheduler: "signal: killed",
	}
	if diff := cmp.Diff(want, exits); diff != "" {
		t.Errorf("how the components ended (-want +got):\n%s", diff)
	}
	if records, err := supervise.Records(filepath.Join(dir, "run")); err != nil || len(records) != 0 {
		t.Errorf("after Down there are the records %v (%v)", records, err)
	}

	// The second supervisor crashes: nobody calls its Down, and the third cleans up after it.
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
		t.Errorf("an object of the first start: %v", err)
	}
	config, err := clientcmd.RESTConfigFromKubeConfig(kubeconfig)
	check.Must(t, err)
	if _, err := kubernetes.NewForConfigOrDie(config).CoreV1().ConfigMaps("default").Get(t.Context(), "kept",
		metav1.GetOptions{}); err != nil {
		t.Errorf("with the kubeconfig of the first start: %v", err)
	}
	check.Must(t, again.Down(t.Context()))

	wiped := newControlPlane(t, dir, func(o *Options) { o.Wipe = true })
	up(t, wiped)
	_, err = wiped.client().CoreV1().ConfigMaps("default").Get(t.Context(), "kept", metav1.GetOptions{})
	if !apierrors.IsNotFound(err) {
		t.Errorf("an object from before the wipe: %v", err)
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
		t.Fatal("etcd has written no log")
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
		t.Errorf("no exit with log lines: %v", err)
	}
	if err == nil || !strings.HasPrefix(err.Error(), "etcd does not start on the data in "+c.etcdDir()) {
		t.Errorf("the sentence is: %v", err)
	}
}

// A port can be taken between the moment it is picked and the moment the component listens.
func TestPortTakenInBetween(t *testing.T) {
	for _, name := range []string{apiserver, scheduler} { // with and without callers
		t.Run(name, func(t *testing.T) {
			t.Parallel() // much of a start is waiting
			c, stranger := withoutPort(t, name)
			defer func() { _ = stranger.Close() }() // nobody reads from it
			steps, picked := c.Steps().All(), c.access.Load().ports[name]
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			for _, step := range steps[1:] {
				if err := step.Run(ctx); err != nil {
					t.Fatalf("%s: %v", step.Name, err)
				}
			}
			if c.access.Load().ports[name] == picked {
				t.Error("the taken port is still in use")
			}
			for _, st := range c.o.Supervisor.Status(ctx, nil) {
				if !st.Ready {
					t.Errorf("%s is not ready: %s", st.Name, st.Reason)
				}
			}
		})
	}
}

// withoutPort prepares a control plane one of whose ports is taken then.
func withoutPort(t *testing.T, name string) (c *ControlPlane, stranger net.Listener) {
	t.Helper()
	for {
		c = newControlPlane(t, t.TempDir(), nil)
		check.Must(t, c.prepare(t.Context()))
		stranger, err := listen(c.access.Load().ports[name])
		if err == nil {
			return c, stranger
		}
		if !errors.Is(err, syscall.EADDRINUSE) { // else another test was quicker, and may let go of it
			t.Fatal(err)
		}
	}
}

// Who took the port may have been there for a moment only.
func TestPortTakenForAMoment(t *testing.T) {
	c, stranger := withoutPort(t, etcd)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	check.Must(t, c.launch(ctx, etcd))
	if err := c.o.Supervisor.WaitUntil(ctx, etcd, c.etcdReady); !exited(err) {
		t.Fatalf("etcd goes on without its port: %v", err)
	}
	check.Must(t, stranger.Close())
	check.Must(t, c.waitUntil(ctx, etcd, c.etcdReady))
}
