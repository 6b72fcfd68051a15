package sandbox_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// TestMain makes the test binary replace all binaries of a sandbox. The file name of the binary selects its behavior:
// koupsandbox runs the daemon; koup-controlplane either fails or never becomes ready; module-controller fails. The
// end-to-end tests run a complete sandbox.
func TestMain(m *testing.M) {
	program := filepath.Base(os.Args[0])
	// read by TestProcessesGetCleanEnvironment
	if program == "koupsandbox" || program == sandbox.ControlPlaneBinary {
		_ = os.WriteFile(os.Args[0]+".environ", []byte(strings.Join(os.Environ(), "\n")), 0o600)
	}
	switch program {
	case "koupsandbox":
		ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
		defer stop()
		dir := os.Args[slices.Index(os.Args, "--dir")+1]
		binaries := sandbox.Binaries{Daemon: os.Args[0],
			ControlPlane: os.Args[slices.Index(os.Args, "--controlplane")+1],
			Controller:   os.Args[slices.Index(os.Args, "--controller")+1]}
		if err := sandbox.RunDaemon(ctx, dir, binaries, slog.New(slog.NewTextHandler(os.Stderr, nil))); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	case sandbox.ControlPlaneBinary:
		if _, err := os.Stat(filepath.Join(filepath.Dir(os.Args[0]), "patient")); err == nil {
			select {} // until the process is killed
		}
		fmt.Fprintln(os.Stderr, "the disk is on fire")
		os.Exit(7)
	case sandbox.ControllerBinary:
		os.Exit(1)
	}
	os.Exit(m.Run())
}

// newOptions returns options with a new home directory and with copies of the test binary. If patient is true, the
// control plane does not fail, but never becomes ready.
func newOptions(t *testing.T, patient bool) sandbox.Options {
	t.Helper()
	home, err := os.MkdirTemp("", "home") // short, because the path of a socket is limited
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) })
	self, err := os.Executable()
	check.Must(t, err)
	bin := t.TempDir()
	for _, name := range []string{"koupsandbox", sandbox.ControlPlaneBinary, sandbox.ControllerBinary} {
		check.Must(t, os.Symlink(self, filepath.Join(bin, name)))
	}
	if patient {
		check.Must(t, os.WriteFile(filepath.Join(bin, "patient"), nil, 0o600))
	}
	config := &v1alpha1.Sandbox{}
	config.Spec.Provider = v1alpha1.ProviderEmbedded
	config.Spec.Wait = &metav1.Duration{Duration: 30 * time.Second}
	v1alpha1.SetDefaults(config)
	return sandbox.Options{Home: home, Config: config,
		Binaries: sandbox.FindBinaries(filepath.Join(bin, "koupsandbox"), "")}
}

func nothingRuns(t *testing.T, o sandbox.Options) {
	t.Helper()
	records, err := supervise.Records(state.Home(o.Home).Dir("koup").Run())
	if err != nil {
		t.Error(err)
	}
	for _, r := range records {
		if r.Running && r.PID != os.Getpid() {
			t.Errorf("%s is still running as process %d", r.Name, r.PID)
		}
	}
}

// TestFailedUp checks that the error of a failed up contains the last log lines of the failed component, and that the
// up stops everything and keeps only the logs.
func TestFailedUp(t *testing.T) {
	o := newOptions(t, false)
	dir := state.Home(o.Home).Dir("koup")
	_, err := sandbox.Up(t.Context(), o)
	if err == nil {
		t.Fatal("up succeeded")
	}
	for _, want := range []string{"exit status 7", "the disk is on fire", "the logs are in " + dir.Logs()} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("the error does not contain %q: %v", want, err)
		}
	}
	nothingRuns(t, o)
	entries, readErr := os.ReadDir(string(dir))
	if readErr != nil || len(entries) != 2 || entries[0].Name() != ".made-by-koupsandbox" ||
		entries[1].Name() != "logs" {
		t.Errorf("remaining files: %v, %v", entries, readErr)
	}
	list, listErr := sandbox.List(t.Context(), o.Home)
	if listErr != nil || len(list) != 0 {
		t.Errorf("list: %v, %v", list, listErr)
	}
	if was, err := sandbox.Down(t.Context(), sandbox.DownOptions{Home: o.Home, Name: "koup"}); was || err != nil ||
		dir.Exists() {
		t.Errorf("down: %t, %v; directory exists: %t", was, err, dir.Exists())
	}
}

// TestCancelledUp checks that an up that is interrupted by Ctrl-C leaves nothing, not even logs. A second up at the
// same time must fail with ErrBusy.
func TestCancelledUp(t *testing.T) {
	o := newOptions(t, true)
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	var once sync.Once
	var second error
	o.Progress = func(e sandbox.Event) {
		if e.Kind == "started" && e.Step == "Starting etcd" {
			once.Do(func() {
				other := o
				other.Progress = nil
				_, second = sandbox.Up(ctx, other)
				cancel()
			})
		}
	}
	_, err := sandbox.Up(ctx, o)
	if !errors.Is(err, context.Canceled) {
		t.Errorf("up returned %v", err)
	}
	if !errors.Is(second, state.ErrBusy) {
		t.Errorf("the second up returned %v", second)
	}
	nothingRuns(t, o)
	if state.Home(o.Home).Dir("koup").Exists() {
		t.Error("the state directory still exists")
	}
}

func listen(t *testing.T, dir state.Dir) net.Listener {
	t.Helper()
	path, err := dir.NewSocketPath()
	check.Must(t, err)
	l, err := net.Listen("unix", path)
	check.Must(t, err)
	return l
}

// TestRejectedUpClosesConnection checks that Up closes its connection if a running daemon rejects the request.
func TestRejectedUpClosesConnection(t *testing.T) {
	o := newOptions(t, false)
	dir := state.Home(o.Home).Dir("koup")
	check.Must(t, dir.Create())
	l := listen(t, dir)
	closed := make(chan net.Conn, 10)
	daemon := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path == "/Up" {
			w.WriteHeader(http.StatusConflict)
		}
		_, _ = w.Write([]byte("{}"))
	}))
	daemon.Listener = l
	daemon.Config.ConnState = func(c net.Conn, s http.ConnState) {
		if s == http.StateClosed {
			closed <- c
		}
	}
	daemon.Start()
	defer daemon.Close()
	if _, err := sandbox.Up(t.Context(), o); err == nil ||
		!strings.Contains(err.Error(), "was already running and keeps its state") {
		t.Errorf("up returned %v", err)
	}
	select {
	case <-closed:
	case <-time.After(30 * time.Second):
		t.Error("the connection to the daemon is open")
	}
}

// TestUpCancelledBeforeDaemonAnswers checks that Ctrl-C does not change the sandbox while a running daemon has not
// responded yet.
func TestUpCancelledBeforeDaemonAnswers(t *testing.T) {
	o := newOptions(t, true)
	dir := state.Home(o.Home).Dir("koup")
	check.Must(t, dir.Create())
	part := supervise.New(supervise.Options{Dir: dir.Run()})
	check.Must(t, part.Start(t.Context(), supervise.Spec{Name: "etcd", Path: o.Binaries.ControlPlane}))
	t.Cleanup(func() {
		if err := part.StopAll(context.Background()); err != nil {
			t.Error(err)
		}
	})
	l := listen(t, dir)
	ctx, cancel := context.WithCancelCause(t.Context())
	stopped := errors.New("interrupt signal received")
	daemon := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		cancel(stopped)
		w.WriteHeader(http.StatusServiceUnavailable)
	}))
	daemon.Listener = l
	daemon.Start()
	defer daemon.Close()
	if _, err := sandbox.Up(ctx, o); !errors.Is(err, stopped) {
		t.Errorf("up: %v", err)
	}
	if _, err := sandbox.Open(ctx, o.Home, "koup"); !errors.Is(err, stopped) {
		t.Errorf("open: %v", err)
	}
	if was, err := sandbox.Down(ctx, sandbox.DownOptions{Home: o.Home, Name: "koup"}); was || !errors.Is(err, stopped) {
		t.Errorf("down: %t, %v", was, err)
	}
	records, err := supervise.Records(dir.Run())
	if err != nil || len(records) != 1 || !records[0].Running {
		t.Errorf("components: %+v, %v", records, err)
	}
}

// TestStatusAndDownWithoutDaemon checks that status and down use the run records if the daemon has exited
// unexpectedly.
func TestStatusAndDownWithoutDaemon(t *testing.T) {
	o := newOptions(t, true)
	dir := state.Home(o.Home).Dir("koup")
	check.Must(t, dir.Create())
	check.Must(t, state.WriteFile(dir.Config(), []byte("spec: {provider: embedded}\n")))
	left := supervise.New(supervise.Options{Dir: dir.Run()})
	check.Must(t, left.Start(t.Context(), supervise.Spec{Name: "etcd", Path: o.Binaries.ControlPlane}))
	status, err := sandbox.Inspect(t.Context(), o.Home, "koup", true)
	check.Must(t, err)
	if status.Phase != "dead" || status.Healthy || len(status.Problems) != 1 || len(status.Components) != 1 ||
		status.Components[0].State != "running" {
		t.Errorf("status: %+v", status)
	}
	if _, err := sandbox.Open(t.Context(), o.Home, "koup"); !errors.Is(err, sandbox.ErrNotUp) ||
		!strings.Contains(err.Error(), "its daemon is not running") {
		t.Errorf("open returned %v", err)
	}
	was, err := sandbox.Down(t.Context(), sandbox.DownOptions{Home: o.Home, Name: "koup", KeepLogs: true})
	if !was || err != nil {
		t.Errorf("down: %t, %v", was, err)
	}
	nothingRuns(t, o)
	if dir.InUse() || !dir.Exists() {
		t.Errorf("after down with KeepLogs: in use %t, exists %t", dir.InUse(), dir.Exists())
	}
}

// TestDirectoryWithoutMarker checks that a directory without the ownership marker is not treated as a sandbox, and
// that no command changes this directory.
func TestDirectoryWithoutMarker(t *testing.T) {
	o := newOptions(t, false)
	dir := state.Home(o.Home).Dir("koup")
	files := map[string]string{dir.Config(): "metadata: {name: koup}\n", dir.Log("etcd"): "theirs\n",
		filepath.Join(dir.Run(), "x.json"): "{}\n"}
	for file, text := range files {
		check.Must(t, os.MkdirAll(filepath.Dir(file), 0o755))
		check.Must(t, os.WriteFile(file, []byte(text), 0o644))
	}
	if _, err := sandbox.Up(t.Context(), o); !errors.Is(err, state.ErrNotOwned) {
		t.Errorf("up: %v", err)
	}
	for _, keepLogs := range []bool{false, true} {
		if was, err := sandbox.Down(t.Context(),
			sandbox.DownOptions{Home: o.Home, Name: "koup", KeepLogs: keepLogs}); was ||
			!errors.Is(err, state.ErrNotOwned) {
			t.Errorf("down: %t, %v", was, err)
		}
	}
	if _, err := sandbox.Open(t.Context(), o.Home, "koup"); !errors.Is(err, sandbox.ErrNotUp) ||
		strings.Contains(err.Error(), "daemon is gone") {
		t.Errorf("open: %v", err)
	}
	if _, err := sandbox.Inspect(t.Context(), o.Home, "koup", true); !errors.Is(err, sandbox.ErrNotUp) {
		t.Errorf("inspect: %v", err)
	}
	if list, err := sandbox.List(t.Context(), o.Home); err != nil || len(list) != 0 {
		t.Errorf("list: %v, %v", list, err)
	}
	for file, text := range files {
		if got, err := os.ReadFile(file); err != nil || string(got) != text {
			t.Errorf("%s: %q, %v", file, got, err)
		}
	}
	if entries, err := os.ReadDir(string(dir)); err != nil || len(entries) != 3 {
		t.Errorf("files in the directory: %v, %v", entries, err)
	}
}

// TestFailedDownCanBeRepeated checks that a failed down keeps the record of a cluster that cannot be removed, so that
// another down can remove the cluster.
func TestFailedDownCanBeRepeated(t *testing.T) {
	home, path := t.TempDir(), t.TempDir()
	busy := filepath.Join(path, "busy")
	script := `#!/bin/sh
case "$1" in
info) echo '{"ServerVersion":"27.5.1"}';;
ps) echo koup-demo-control-plane;;
rm) [ ! -e ` + busy + ` ] || { echo "device is busy" >&2; exit 1; };;
esac
`
	for file, text := range map[string]string{filepath.Join(path, "docker"): script, busy: ""} {
		check.Must(t, os.WriteFile(file, []byte(text), 0o755))
	}
	t.Setenv("PATH", path)
	dir := state.Home(home).Dir("demo")
	check.Must(t, dir.Create())
	for file, text := range map[string]string{
		dir.Config():                            "metadata: {name: demo}\nspec: {provider: kind}\n",
		filepath.Join(string(dir), "kind.json"): `{"cluster":"koup-demo","engine":"docker","complete":true}`,
	} {
		check.Must(t, state.WriteFile(file, []byte(text)))
	}
	o := sandbox.DownOptions{Home: home, Name: "demo"}
	if was, err := sandbox.Down(t.Context(), o); !was || err == nil ||
		!strings.Contains(err.Error(), "device is busy") || !dir.InUse() {
		t.Errorf("down: %t, %v; directory exists: %t", was, err, dir.InUse())
	}
	check.Must(t, os.Remove(busy))
	if was, err := sandbox.Down(t.Context(), o); !was || err != nil || dir.Exists() {
		t.Errorf("down again: %t, %v; directory exists: %t", was, err, dir.Exists())
	}
}

// TestDownWithUnreachableCluster checks that down with Force removes a sandbox whose cluster is unreachable, and that
// Force is called with the remaining objects.
func TestDownWithUnreachableCluster(t *testing.T) {
	home := t.TempDir()
	dir := state.Home(home).Dir("demo")
	check.Must(t, dir.Create())
	config := "metadata: {name: demo}\nspec: {provider: existing, cluster: {kubeconfig: " +
		filepath.Join(home, "gone") + ", context: theirs}}\n"
	check.Must(t, state.WriteFile(dir.Config(), []byte(config)))
	o := sandbox.DownOptions{Home: home, Name: "demo"}
	if was, err := sandbox.Down(t.Context(), o); !was || err == nil ||
		!strings.Contains(err.Error(), "koupsandbox down --name demo --force") || !dir.InUse() {
		t.Errorf("down: %t, %v; directory exists: %t", was, err, dir.InUse())
	}
	var left error
	o.Force = func(err error) { left = err }
	if was, err := sandbox.Down(t.Context(), o); !was || err != nil || dir.Exists() {
		t.Errorf("down by force: %t, %v; directory exists: %t", was, err, dir.Exists())
	}
	if left == nil || !strings.Contains(left.Error(), "gone") {
		t.Errorf("remaining objects: %v", left)
	}
}

func TestFindBinaries(t *testing.T) {
	o := newOptions(t, false)
	bin := filepath.Dir(o.Binaries.ControlPlane)
	elsewhere := sandbox.FindBinaries("/nowhere/koupsandbox", bin)
	if elsewhere.Controller != filepath.Join(bin, sandbox.ControllerBinary) {
		t.Errorf("found %+v", elsewhere)
	}
	named := t.TempDir()
	other := filepath.Join(named, sandbox.ControllerBinary)
	check.Must(t, os.WriteFile(other, nil, 0o700))
	want := sandbox.FindBinaries(o.Binaries.Daemon, "")
	want.Controller = other
	if diff := cmp.Diff(want, sandbox.FindBinaries(o.Binaries.Daemon, named)); diff != "" {
		t.Errorf("the given directory has priority (-want +got):\n%s", diff)
	}
	t.Chdir(filepath.Dir(named))
	if p := sandbox.FindBinaries(o.Binaries.Daemon, filepath.Base(named)); p.Controller != other {
		t.Errorf("found in a relative directory %+v, want %s", p, other)
	}
	t.Setenv("PATH", bin)
	if p := sandbox.FindBinaries("/nowhere/koupsandbox", ""); p.ControlPlane != filepath.Join(bin,
		sandbox.ControlPlaneBinary) {
		t.Errorf("found in $PATH %+v", p)
	}
	t.Setenv("PATH", "")
	if p := sandbox.FindBinaries("/nowhere/koupsandbox", ""); p.ControlPlane != "" || p.Controller != "" {
		t.Errorf("found without any directory %+v", p)
	}
	o.Binaries.ControlPlane = ""
	if _, err := sandbox.Up(t.Context(), o); err == nil || !strings.Contains(err.Error(), "koup-controlplane") {
		t.Errorf("up without a control plane: %v", err)
	}
}

// TestProviderAuto checks that up reports which provider it has selected for the provider auto, and that the provider
// of an earlier run has priority over a container engine.
func TestProviderAuto(t *testing.T) {
	for name, tc := range map[string]struct {
		docker string // script that replaces the command docker
		stored string // configuration of an earlier run
		want   string // expected substring of a note; empty if no note is expected
	}{
		"no engine": {want: "embedded, because no container engine is usable: docker is not installed; podman is"},
		"an engine without an image": {
			docker: `case $1 in info) echo '{"ServerVersion":"27.5.1","Architecture":"x86_64"}';; *) exit 1;; esac`,
			want:   "embedded, because docker "},
		"an earlier run": {
			docker: `case $1 in info) echo '{"ServerVersion":"27.5.1","Architecture":"x86_64"}';; *) echo amd64;; esac`,
			stored: "spec: {provider: embedded}\n"},
	} {
		t.Run(name, func(t *testing.T) {
			o := newOptions(t, false)
			o.Config.Spec.Provider = v1alpha1.ProviderAuto
			path := t.TempDir()
			t.Setenv("PATH", path)
			if tc.docker != "" {
				check.Must(t, os.WriteFile(filepath.Join(path, "docker"), []byte("#!/bin/sh\n"+tc.docker+"\n"), 0o755))
			}
			dir := state.Home(o.Home).Dir("koup")
			if tc.stored != "" {
				check.Must(t, dir.Create())
				check.Must(t, state.WriteFile(dir.Config(), []byte(tc.stored)))
			}
			var notes []string
			o.Progress = func(e sandbox.Event) {
				if strings.HasPrefix(e.Step, "the provider is") {
					notes = append(notes, e.Step)
				}
			}
			// The embedded control plane fails in these tests, so this error shows that the provider is embedded.
			if _, err := sandbox.Up(t.Context(), o); err == nil ||
				!strings.Contains(err.Error(), "the disk is on fire") {
				t.Errorf("error %v", err)
			}
			if got := strings.Join(notes, "\n"); tc.want == "" && got != "" || !strings.Contains(got, tc.want) {
				t.Errorf("notes %q, want %q", got, tc.want)
			}
		})
	}
}

// TestDownKeepsDirectoryIfProcessRemains checks that Down keeps the state directory if a process cannot be stopped,
// here because its run record is damaged. With Force, Down must remove the directory.
func TestDownKeepsDirectoryIfProcessRemains(t *testing.T) {
	home, dir := writeSandbox(t)
	check.Must(t, state.WriteFile(filepath.Join(dir.Run(), "etcd.json"), []byte("{")))
	for range 2 {
		_, err := sandbox.Down(t.Context(), sandbox.DownOptions{Home: string(home), Name: "koup"})
		if err == nil || !strings.Contains(err.Error(), "etcd.json is damaged") ||
			!strings.Contains(err.Error(), "kept in "+string(dir)) {
			t.Errorf("Down: %v", err)
		}
	}
	var left error
	_, err := sandbox.Down(t.Context(),
		sandbox.DownOptions{Home: string(home), Name: "koup", Force: func(err error) { left = err }})
	if err != nil || left == nil || dir.Exists() {
		t.Errorf("with Force: %v, left %v, and directory exists: %t", err, left, dir.Exists())
	}
}

// writeSandbox creates the directory of the sandbox koup in a new home. Its provider is embedded, and nothing runs.
func writeSandbox(t *testing.T) (state.Home, state.Dir) {
	t.Helper()
	home := state.Home(t.TempDir())
	dir := home.Dir("koup")
	check.Must(t, dir.Create())
	config := "apiVersion: sandbox.koupleless.io/v1alpha1\nkind: Sandbox\nmetadata: {name: koup}\nspec: " +
		"{provider: embedded}\n"
	check.Must(t, state.WriteFile(dir.Config(), []byte(config)))
	return home, dir
}

// TestDownWhileDaemonEnds checks that Down succeeds if the daemon ends by itself between its answer and the call of
// Down, as the daemon of a killed client does.
func TestDownWhileDaemonEnds(t *testing.T) {
	home, dir := writeSandbox(t)
	path, err := dir.NewSocketPath()
	check.Must(t, err)
	socket, err := control.Listen(path)
	check.Must(t, err)
	api := http.NewServeMux()
	control.MethodStatus.Handle(api, func(context.Context, control.StatusRequest) (*control.Status, error) {
		return &control.Status{Name: "koup"}, nil
	})
	api.HandleFunc("/", func(http.ResponseWriter, *http.Request) {
		_ = socket.Close()
		panic(http.ErrAbortHandler)
	})
	server := control.NewServer(api)
	t.Cleanup(func() { _ = server.Close() })
	go func() { _ = server.Serve(socket) }()
	if was, err := sandbox.Down(t.Context(), sandbox.DownOptions{Home: string(home), Name: "koup"}); !was ||
		err != nil || dir.Exists() {
		t.Errorf("down: %t, %v; directory exists: %t", was, err, dir.Exists())
	}
}

// TestDownWithHangingDaemon checks that Down removes a sandbox whose daemon accepts connections but does not respond,
// like a suspended process.
func TestDownWithHangingDaemon(t *testing.T) {
	t.Parallel()
	home, dir := writeSandbox(t)
	path, err := dir.NewSocketPath()
	check.Must(t, err)
	daemon, err := net.Listen("unix", path)
	check.Must(t, err)
	defer func() { _ = daemon.Close() }()
	if was, err := sandbox.Down(t.Context(), sandbox.DownOptions{Home: string(home), Name: "koup"}); !was ||
		err != nil || dir.Exists() {
		t.Errorf("down: %t, %v; directory exists: %t", was, err, dir.Exists())
	}
}

// TestProcessesGetCleanEnvironment checks that the daemon and the components do not inherit settings or secrets from
// the environment of the up command.
func TestProcessesGetCleanEnvironment(t *testing.T) {
	poison := map[string]string{
		"METRICS_ADDR": ":9090", "REPORT_HOOKS": "https://chat.example", "HTTP_TUNNEL_TOKEN": "t", "ETCD_NAME": "x",
		"AWS_SECRET_ACCESS_KEY":        "s",
		"KUBE_FEATURE_WatchListClient": "false", "KOUPSANDBOX_BROKER_PASSWORD": "p", "KUBECONFIG": "/theirs",
	}
	for name, value := range poison {
		t.Setenv(name, value)
	}
	o := newOptions(t, false)
	if _, err := sandbox.Up(t.Context(), o); err == nil {
		t.Fatal("up succeeded")
	}
	for _, path := range []string{o.Binaries.Daemon, o.Binaries.ControlPlane} {
		text, err := os.ReadFile(path + ".environ")
		if err != nil || !strings.Contains(string(text), "PATH=") {
			t.Errorf("the environment of %s: %q, %v", path, text, err)
		}
		for name := range poison {
			if strings.Contains("\n"+string(text), "\n"+name+"=") {
				t.Errorf("%s has %s", path, name)
			}
		}
	}
}

// TestCommandsRejectDirectoryOfAnotherUser checks that no command reads, changes or connects to a sandbox whose
// directory belongs to another user. The run records in such a directory could contain PIDs of the current user's
// processes, and the socket could belong to a process of the other user.
func TestCommandsRejectDirectoryOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: only root can give a dir away: make test-root")
	}
	o := newOptions(t, false)
	dir := state.Home(o.Home).Dir("koup")
	check.Must(t, dir.Create())
	supervisor := supervise.New(supervise.Options{Dir: dir.Run()})
	check.Must(t, supervisor.Start(t.Context(), supervise.Spec{Name: "mine", Path: "sleep", Args: []string{"600"}}))
	t.Cleanup(func() {
		if err := supervisor.Kill("mine"); err != nil {
			t.Error(err)
		}
	})
	check.Must(t, state.WriteFile(dir.Config(), []byte("kind: Sandbox\n")))
	listener, err := net.Listen("unix", filepath.Join(string(dir), "daemon.sock"))
	check.Must(t, err)
	defer func() { _ = listener.Close() }()
	go func() {
		if conn, err := listener.Accept(); err == nil {
			t.Error("a command connected to the socket")
			_ = conn.Close()
		}
	}()
	for _, dir := range []string{string(dir), o.Home} {
		check.Must(t, os.Chown(dir, 54321, 54321))
		_, upErr := sandbox.Up(t.Context(), o)
		_, downErr := sandbox.Down(t.Context(), sandbox.DownOptions{Home: o.Home, Name: "koup", Force: func(error) {}})
		_, openErr := sandbox.Open(t.Context(), o.Home, "koup")
		_, inspectErr := sandbox.Inspect(t.Context(), o.Home, "koup", false)
		for name, err := range map[string]error{"Up": upErr, "Down": downErr, "Open": openErr, "Inspect": inspectErr} {
			if err == nil || !strings.Contains(err.Error(), dir+" belongs to user 54321") {
				t.Errorf("%s: %v", name, err)
			}
		}
		if all, err := sandbox.List(t.Context(), o.Home); len(all) > 0 || dir == o.Home && err == nil {
			t.Errorf("List: %v, %v", all, err)
		}
		check.Must(t, os.Chown(string(dir), 0, 0))
	}
	if status := supervisor.Status(t.Context(), nil); len(status) != 1 || status[0].State != supervise.Running {
		t.Errorf("the process of the run record: %+v", status)
	}
}
