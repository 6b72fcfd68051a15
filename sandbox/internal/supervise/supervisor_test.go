package supervise

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

// helperEnv is an environment variable that makes the test binary run as a component. Its value selects the behaviour
// of the component.
const helperEnv = "SUPERVISE_TEST_HELPER"

func TestMain(m *testing.M) {
	if behaviour := os.Getenv(helperEnv); behaviour != "" {
		helper(behaviour, os.Args[1:])
		return
	}
	os.Exit(m.Run())
}

// helper is the main function of the test component. It installs its signal handlers, creates the file args[0], and
// then waits for signals.
func helper(behaviour string, args []string) {
	terms := make(chan os.Signal, 1)
	switch behaviour {
	case "fail":
		fmt.Fprintln(os.Stderr, "cannot open the store: disk on fire")
		os.Exit(3)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	default:
		signal.Notify(terms, syscall.SIGTERM)
	}
	fmt.Println("component started")
	if err := os.WriteFile(args[0], nil, 0o600); err != nil {
		panic(err)
	}
	// Limit the run time in case the test does not end the process.
	select {
	case <-terms:
		fmt.Println("component stopping")
	case <-time.After(time.Minute):
		os.Exit(9)
	}
}

type fixture struct {
	*Supervisor
	dir string
}

func newFixture(t *testing.T) fixture {
	t.Helper()
	dir := t.TempDir()
	b := fixture{New(Options{Dir: filepath.Join(dir, "run")}), dir}
	t.Cleanup(func() {
		if err := b.StopAll(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// spec returns the Spec of a test component, which is ready once it has installed its signal handlers.
func (b fixture) spec(name, behaviour string) Spec {
	up := filepath.Join(b.dir, name+".up")
	return Spec{
		Name: name, Path: os.Args[0], Args: []string{up},
		Env:     []string{helperEnv + "=" + behaviour, "GORACE=atexit_sleep_ms=0"},
		LogFile: filepath.Join(b.dir, "logs", name+".log"),
		Ready: func(context.Context) error {
			if _, err := os.Stat(up); err != nil {
				return errors.New("not up yet")
			}
			return nil
		},
	}
}

// up starts a component and waits until it is ready.
func (b fixture) up(t *testing.T, spec Spec) {
	t.Helper()
	check.Must(t, b.Start(t.Context(), spec))
	check.Must(t, b.WaitReady(t.Context(), spec.Name))
}

func (b fixture) status(t *testing.T, name string) Component {
	t.Helper()
	for _, st := range b.Status(t.Context(), nil) {
		if st.Name == name {
			return st
		}
	}
	t.Fatalf("no status of %s", name)
	return Component{}
}

// volatile is a comparison option that ignores the fields of Component that differ from run to run.
var volatile = cmpopts.IgnoreFields(Component{}, "PID", "StartedAt", "RSS", "CPU", "Log")

func TestComponentStates(t *testing.T) {
	b := newFixture(t)
	b.up(t, b.spec("store", "polite"))

	running := b.status(t, "store")
	if diff := cmp.Diff(Component{Name: "store", State: Running, Ready: true}, running, volatile); diff != "" {
		t.Errorf("running (-want +got):\n%s", diff)
	}
	if running.RSS == 0 || running.PID == 0 || running.StartedAt.IsZero() {
		t.Errorf("memory, PID or start time missing: %+v", running)
	}
	if group, err := syscall.Getpgid(running.PID); err != nil || group != running.PID {
		t.Errorf("process group %d (%v), want %d: Ctrl-C would reach the process", group, err, running.PID)
	}

	check.Must(t, b.Pause("store"))
	if diff := cmp.Diff(Component{Name: "store", State: Paused, Reason: "paused"}, b.status(t, "store"),
		volatile); diff != "" {
		t.Errorf("paused (-want +got):\n%s", diff)
	}
	check.Must(t, b.Resume("store"))
	eventually(t, func() error { return differs(Running, b.status(t, "store").State) })

	check.Must(t, b.Kill("store"))
	want := Component{Name: "store", State: Exited, Exit: "signal: killed", Reason: "signal: killed"}
	if diff := cmp.Diff(want, b.status(t, "store"), volatile); diff != "" {
		t.Errorf("killed (-want +got):\n%s", diff)
	}

	check.Must(t, b.Restart(t.Context(), "store"))
	again := b.status(t, "store")
	if again.State != Running || again.PID == running.PID {
		t.Errorf("after Restart: %+v; previous process %d", again, running.PID)
	}
	check.Must(t, b.Stop(t.Context(), "store"))
	if err := b.Stop(t.Context(), "store"); err != nil {
		t.Errorf("second Stop: %v", err)
	}
	if records, err := Records(b.Supervisor.dir); err != nil || len(records) != 0 {
		t.Errorf("records after Stop: %v, %v", records, err)
	}
}

func TestStop(t *testing.T) {
	for name, tc := range map[string]struct {
		behaviour string
		pause     bool
		exit      string
	}{
		"polite component":          {behaviour: "polite", exit: "exit status 0"},
		"paused component":          {behaviour: "polite", pause: true, exit: "exit status 0"},
		"stubborn component":        {behaviour: "stubborn", exit: "signal: killed"},
		"paused stubborn component": {behaviour: "stubborn", pause: true, exit: "signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			spec := b.spec("store", tc.behaviour)
			if tc.behaviour == "stubborn" {
				spec.StopTimeout = 20 * time.Millisecond
			}
			b.up(t, spec)
			if tc.pause {
				check.Must(t, b.Pause("store"))
			}
			pid := b.status(t, "store").PID
			check.Must(t, b.Stop(t.Context(), "store"))
			if got := b.status(t, "store").Exit; got != tc.exit {
				t.Errorf("exit %q, want %q", got, tc.exit)
			}
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d still exists: %v", pid, err)
			}
		})
	}
}

func TestWaitReadyFailure(t *testing.T) {
	b := newFixture(t)
	failing := b.spec("store", "fail")
	// The checks of waiting and slow cancel their contexts after the process has written its log.
	waiting := b.spec("api", "polite")
	waitingReady := waiting.Ready
	waitingCtx, cancelWaiting := context.WithCancel(t.Context())
	waiting.Ready = func(ctx context.Context) error {
		if waitingReady(ctx) == nil {
			cancelWaiting()
		}
		return errors.New("etcd is not ready")
	}
	slow := b.spec("controller", "polite")
	slowReady, checked := slow.Ready, false
	slowCtx, cancelSlow := context.WithCancel(t.Context())
	slow.Ready = func(ctx context.Context) error {
		if !checked {
			checked = slowReady(ctx) == nil
			return errors.New("no Node yet")
		}
		cancelSlow()
		<-ctx.Done()
		return ctx.Err()
	}
	hanging := b.spec("broker", "fail")
	hanging.Ready = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	// Log lines of an earlier run are not reported.
	check.Must(t, os.MkdirAll(filepath.Dir(failing.LogFile), 0o700))
	check.Must(t, os.WriteFile(failing.LogFile, []byte("from an earlier run\n"), 0o600))
	for name, tc := range map[string]struct {
		spec  Spec
		ctx   context.Context
		want  NotReadyError
		cause error
	}{
		"process exits": {failing, t.Context(), NotReadyError{
			Name: "store", Reason: "exited: exit status 3", Exited: true, LogFile: failing.LogFile,
			LastLines: []string{"cannot open the store: disk on fire"}}, nil},
		"process exits while Ready hangs": {hanging, t.Context(), NotReadyError{
			Name: "broker", Reason: "exited: exit status 3", Exited: true, LogFile: hanging.LogFile,
			LastLines: []string{"cannot open the store: disk on fire"}}, nil},
		"not ready in time": {waiting, waitingCtx, NotReadyError{
			Name: "api", Reason: "etcd is not ready", LogFile: waiting.LogFile,
			LastLines: []string{"component started"}}, context.Canceled},
		"last complete check is reported": {slow, slowCtx, NotReadyError{
			Name: "controller", Reason: "no Node yet", LogFile: slow.LogFile,
			LastLines: []string{"component started"}}, context.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			check.Must(t, b.Start(t.Context(), tc.spec))
			err := b.WaitReady(tc.ctx, tc.spec.Name)
			var got *NotReadyError
			if !errors.As(err, &got) {
				t.Fatalf("WaitReady: %v", err)
			}
			if diff := cmp.Diff(tc.want, *got, cmpopts.IgnoreUnexported(NotReadyError{})); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
			if tc.cause != nil && !errors.Is(err, tc.cause) {
				t.Errorf("%v does not wrap %v", err, tc.cause)
			}
			if text := err.Error(); !strings.Contains(text, tc.want.Reason) ||
				!strings.Contains(text, tc.want.LastLines[0]) {
				t.Errorf("error without the reason or the log: %s", text)
			}
		})
	}
}

func TestStartFails(t *testing.T) {
	b := newFixture(t)
	b.up(t, b.spec("store", "polite"))
	missing := b.spec("api", "polite")
	missing.Path = filepath.Join(b.dir, "no-such-binary")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		spec Spec
		want string
	}{
		"already running":   {t.Context(), b.spec("store", "polite"), "it is already running as process"},
		"missing binary":    {t.Context(), missing, "no such file"},
		"name with a path":  {t.Context(), b.spec("../store", "polite"), "use letters, digits"},
		"cancelled context": {cancelled, b.spec("other", "polite"), "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := b.Start(tc.ctx, tc.spec); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Start: %v, want %q", err, tc.want)
			}
		})
	}
	for name, err := range map[string]error{
		"WaitReady": b.WaitReady(t.Context(), "unknown"), "Kill": b.Kill("unknown"), "Pause": b.Pause("unknown"),
		"Resume": b.Resume("unknown"), "Restart": b.Restart(t.Context(), "unknown"),
	} {
		if !errors.Is(err, ErrUnknown) {
			t.Errorf("%s of an unknown component returned %v", name, err)
		}
	}
}

// TestConcurrentOperations checks that concurrent operations on one component cause no data race and leave no process
// behind.
func TestConcurrentOperations(t *testing.T) {
	b := newFixture(t)
	b.up(t, b.spec("store", "polite"))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() { _ = b.Restart(t.Context(), "store") })
		wg.Go(func() { _ = b.Pause("store"); _ = b.Resume("store") })
		wg.Go(func() { b.Status(t.Context(), nil) })
		wg.Go(func() { _ = b.Kill("store") })
	}
	wg.Wait()
	check.Must(t, b.Stop(t.Context(), "store"))
	if got := b.status(t, "store").State; got != Exited {
		t.Errorf("state %s after Stop, want %s", got, Exited)
	}
}

// TestStateChanges checks which changes are reported when a component is killed, stopped, or exits by itself.
func TestStateChanges(t *testing.T) {
	var mu sync.Mutex
	var got []State
	dir := t.TempDir()
	b := fixture{New(Options{Dir: filepath.Join(dir, "run"), OnChange: func(c StateChange) {
		mu.Lock()
		defer mu.Unlock()
		got = append(got, c.State)
	}}), dir}
	b.up(t, b.spec("store", "polite"))
	check.Must(t, b.Kill("store"))
	check.Must(t, b.Restart(t.Context(), "store"))
	check.Must(t, b.Stop(t.Context(), "store"))
	check.Must(t, b.Stop(t.Context(), "store"))
	check.Must(t, b.Start(t.Context(), b.spec("store", "fail")))
	eventually(t, func() error { return differs(Exited, b.status(t, "store").State) })
	mu.Lock()
	defer mu.Unlock()
	want := []State{Running, Stopping, Exited, Running, Stopping, Exited, Running, Exited}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("state changes (-want +got):\n%s", diff)
	}
}

func differs[T comparable](want, got T) error {
	if want != got {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// eventually waits until condition returns nil, for conditions that depend on the operating system.
func eventually(t *testing.T, condition func() error) {
	t.Helper()
	check.Eventually(t, check.WaitTimeout, condition)
}

// TestPortTaken checks that PortTaken returns true only if the component has exited and has logged the error message
// since it was last started.
func TestPortTaken(t *testing.T) {
	const message = "echo 'java.net.BindException: Address already in use (Bind failed)'; "
	for name, tc := range map[string]struct {
		before, script string
		want           bool
	}{
		"logged, exited":           {"", message + "for i in $(seq 60); do echo \"  at line $i\"; done; exit 1", true},
		"other message, exited":    {"", "echo disk on fire; exit 1", false},
		"logged by an earlier run": {"address already in use\n", "exit 1", false},
		"logged, still running":    {"", message + "exec sleep 60", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newFixture(t)
			log := filepath.Join(b.dir, "script.log")
			check.Must(t, os.WriteFile(log, []byte(tc.before), 0o600))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			spec := Spec{Name: "script", Path: "/bin/sh", Args: []string{"-c", tc.script}, LogFile: log,
				Ready: func(context.Context) error {
					if logContains(log, 0, addressInUse) && tc.before == "" && strings.Contains(tc.script, "exec") {
						cancel()
					}
					return errors.New("not ready")
				}}
			check.Must(t, b.Start(ctx, spec))
			if err := b.WaitReady(ctx, "script"); PortTaken(err) != tc.want {
				t.Errorf("PortTaken returned %t for %v", PortTaken(err), err)
			}
		})
	}
}

// TestGroup checks two fields of Spec. With Group, the child processes of a component must be killed when the
// component exits. With ReadyLog, the component must be ready once it has logged a matching line.
func TestGroup(t *testing.T) {
	dir := t.TempDir()
	log := filepath.Join(dir, "script.log")
	s := New(Options{Dir: filepath.Join(dir, "run")})
	if err := s.Start(t.Context(),
		Spec{Name: "script", Path: "/bin/sh",
			Args:    []string{"-c", `sleep 600 & echo "child $!"; echo I am ready; wait`},
			LogFile: log, ReadyLog: regexp.MustCompile("ready$"), Group: true}); err != nil {
		t.Fatal(err)
	}
	check.Must(t, s.WaitReady(t.Context(), "script"))
	text, err := os.ReadFile(log)
	var child int
	if err == nil {
		_, err = fmt.Sscanf(string(text), "child %d", &child)
	}
	if err != nil || child <= 1 {
		t.Fatalf("no child in %q: %v", text, err)
	}
	check.Must(t, s.Kill("script"))
	check.Eventually(t, check.WaitTimeout, func() error {
		if err := syscall.Kill(child, 0); errors.Is(err, syscall.ESRCH) {
			return nil
		}
		// Its parent may not have collected its exit status yet.
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child)); err != nil ||
			!strings.Contains(string(stat), ") Z ") {
			return fmt.Errorf("process %d is still running", child)
		}
		return nil
	})
}
