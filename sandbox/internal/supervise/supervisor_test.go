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

// helperEnv turns the test binary into a component: its value says how the component behaves.
const helperEnv = "SUPERVISE_TEST_HELPER"

func TestMain(m *testing.M) {
	if how := os.Getenv(helperEnv); how != "" {
		helper(how, os.Args[1:])
		return
	}
	os.Exit(m.Run())
}

// helper is the component's main: it makes the file args[0] when its signal handlers stand, then
// waits for its end.
func helper(how string, args []string) {
	terms := make(chan os.Signal, 1)
	switch how {
	case "fail":
		fmt.Fprintln(os.Stderr, "cannot open the store: disk on fire")
		os.Exit(3)
	case "stubborn":
		signal.Ignore(syscall.SIGTERM)
	default:
		signal.Notify(terms, syscall.SIGTERM)
	}
	fmt.Println("component is up")
	if err := os.WriteFile(args[0], nil, 0o600); err != nil {
		panic(err)
	}
	// A helper that the test lost must not stay for ever.
	select {
	case <-terms:
		fmt.Println("component ends")
	case <-time.After(time.Minute):
		os.Exit(9)
	}
}

type bench struct {
	*Supervisor
	dir string
}

func newBench(t *testing.T) bench {
	t.Helper()
	dir := t.TempDir()
	b := bench{New(Options{Dir: filepath.Join(dir, "run")}), dir}
	t.Cleanup(func() {
		if err := b.StopAll(context.Background()); err != nil {
			t.Error(err)
		}
	})
	return b
}

// spec is a component that is ready when its handlers stand.
func (b bench) spec(name, how string) Spec {
	up := filepath.Join(b.dir, name+".up")
	return Spec{
		Name: name, Path: os.Args[0], Args: []string{up},
		Env:     []string{helperEnv + "=" + how, "GORACE=atexit_sleep_ms=0"},
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
func (b bench) up(t *testing.T, spec Spec) {
	t.Helper()
	check.Must(t, b.Start(t.Context(), spec))
	check.Must(t, b.WaitReady(t.Context(), spec.Name))
}

func (b bench) one(t *testing.T, name string) Component {
	t.Helper()
	for _, st := range b.Status(t.Context(), nil) {
		if st.Name == name {
			return st
		}
	}
	t.Fatalf("no status of %s", name)
	return Component{}
}

// volatile are the fields of a Status that differ from run to run.
var volatile = cmpopts.IgnoreFields(Component{}, "PID", "StartedAt", "RSS", "CPU", "Log")

func TestLifeOfAComponent(t *testing.T) {
	b := newBench(t)
	b.up(t, b.spec("store", "polite"))

	running := b.one(t, "store")
	if diff := cmp.Diff(Component{Name: "store", State: Running, Ready: true}, running, volatile); diff != "" {
		t.Errorf("running (-want +got):\n%s", diff)
	}
	if running.RSS == 0 || running.PID == 0 || running.StartedAt.IsZero() {
		t.Errorf("no memory, pid or start time in %+v", running)
	}
	if group, err := syscall.Getpgid(running.PID); err != nil || group != running.PID {
		t.Errorf("process group %d (%v), want its own, %d: Ctrl-C would reach it", group, err, running.PID)
	}

	check.Must(t, b.Pause("store"))
	if diff := cmp.Diff(Component{Name: "store", State: Paused, Reason: "paused"}, b.one(t, "store"),
		volatile); diff != "" {
		t.Errorf("paused (-want +got):\n%s", diff)
	}
	check.Must(t, b.Resume("store"))
	eventually(t, func() error { return differs(Running, b.one(t, "store").State) })

	check.Must(t, b.Kill("store"))
	want := Component{Name: "store", State: Exited, Exit: "signal: killed", Reason: "exited: signal: killed"}
	if diff := cmp.Diff(want, b.one(t, "store"), volatile); diff != "" {
		t.Errorf("killed (-want +got):\n%s", diff)
	}

	check.Must(t, b.Restart(t.Context(), "store"))
	again := b.one(t, "store")
	if again.State != Running || again.PID == running.PID {
		t.Errorf("after Restart: %+v; was process %d", again, running.PID)
	}
	check.Must(t, b.Stop(t.Context(), "store"))
	if err := b.Stop(t.Context(), "store"); err != nil {
		t.Errorf("stopping what is stopped: %v", err)
	}
	if records, err := Records(b.Supervisor.dir); err != nil || len(records) != 0 {
		t.Errorf("records after Stop: %v, %v", records, err)
	}
}

func TestStopEndsEvery(t *testing.T) {
	for name, tc := range map[string]struct {
		how   string
		pause bool
		exit  string
	}{
		"polite component by its signal":      {how: "polite", exit: "exit status 0"},
		"paused component by its signal":      {how: "polite", pause: true, exit: "exit status 0"},
		"stubborn component by SIGKILL":       {how: "stubborn", exit: "signal: killed"},
		"stubborn paused component, likewise": {how: "stubborn", pause: true, exit: "signal: killed"},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			spec := b.spec("store", tc.how)
			if tc.how == "stubborn" {
				spec.StopTimeout = 20 * time.Millisecond
			}
			b.up(t, spec)
			if tc.pause {
				check.Must(t, b.Pause("store"))
			}
			pid := b.one(t, "store").PID
			check.Must(t, b.Stop(t.Context(), "store"))
			if got := b.one(t, "store").Exit; got != tc.exit {
				t.Errorf("ended with %q, want %q", got, tc.exit)
			}
			if err := syscall.Kill(pid, 0); !errors.Is(err, syscall.ESRCH) {
				t.Errorf("process %d is still there: %v", pid, err)
			}
		})
	}
}

func TestWaitReadyFailure(t *testing.T) {
	b := newBench(t)
	failing := b.spec("store", "fail")
	// The next two wait until the process has logged something, and give up then.
	waiting := b.spec("api", "polite")
	upOnce := waiting.Ready
	waitingCtx, giveUp := context.WithCancel(t.Context())
	waiting.Ready = func(ctx context.Context) error {
		if upOnce(ctx) == nil {
			giveUp()
		}
		return errors.New("etcd is not ready")
	}
	slow := b.spec("controller", "polite")
	slowUp, asked := slow.Ready, false
	slowCtx, giveUpSlow := context.WithCancel(t.Context())
	slow.Ready = func(ctx context.Context) error {
		if !asked {
			asked = slowUp(ctx) == nil
			return errors.New("no Node yet")
		}
		giveUpSlow()
		<-ctx.Done()
		return ctx.Err()
	}
	hanging := b.spec("broker", "fail")
	hanging.Ready = func(ctx context.Context) error { <-ctx.Done(); return ctx.Err() }
	// What an earlier run logged is not the reason for this failure.
	check.Must(t, os.MkdirAll(filepath.Dir(failing.LogFile), 0o700))
	check.Must(t, os.WriteFile(failing.LogFile, []byte("from an earlier run\n"), 0o600))
	for name, tc := range map[string]struct {
		spec  Spec
		ctx   context.Context
		want  NotReadyError
		cause error
	}{
		"process exits": {failing, t.Context(), NotReadyError{
			Name: "store", Reason: "it exited: exit status 3", Exited: true, LogFile: failing.LogFile,
			LastLines: []string{"cannot open the store: disk on fire"}}, nil},
		"process exits while Ready hangs": {hanging, t.Context(), NotReadyError{
			Name: "broker", Reason: "it exited: exit status 3", Exited: true, LogFile: hanging.LogFile,
			LastLines: []string{"cannot open the store: disk on fire"}}, nil},
		"not ready in time": {waiting, waitingCtx, NotReadyError{
			Name: "api", Reason: "etcd is not ready", LogFile: waiting.LogFile,
			LastLines: []string{"component is up"}}, context.Canceled},
		"the last answer counts, not the end of the wait": {slow, slowCtx, NotReadyError{
			Name: "controller", Reason: "no Node yet", LogFile: slow.LogFile,
			LastLines: []string{"component is up"}}, context.Canceled},
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
				t.Errorf("the sentence lacks the reason or the log: %s", text)
			}
		})
	}
}

func TestStartRefuses(t *testing.T) {
	b := newBench(t)
	b.up(t, b.spec("store", "polite"))
	missing := b.spec("api", "polite")
	missing.Path = filepath.Join(b.dir, "no-such-program")
	cancelled, cancel := context.WithCancel(t.Context())
	cancel()
	for name, tc := range map[string]struct {
		ctx  context.Context
		spec Spec
		want string
	}{
		"a name that runs":      {t.Context(), b.spec("store", "polite"), "it already runs as process"},
		"a program that is not": {t.Context(), missing, "no such file"},
		"a name with a path":    {t.Context(), b.spec("../store", "polite"), "use letters, digits"},
		"an ended context":      {cancelled, b.spec("other", "polite"), "context canceled"},
	} {
		t.Run(name, func(t *testing.T) {
			if err := b.Start(tc.ctx, tc.spec); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("Start: %v, want %q", err, tc.want)
			}
		})
	}
	for name, err := range map[string]error{
		"WaitReady": b.WaitReady(t.Context(), "nobody"), "Kill": b.Kill("nobody"), "Pause": b.Pause("nobody"),
		"Resume": b.Resume("nobody"), "Restart": b.Restart(t.Context(), "nobody"),
	} {
		if !errors.Is(err, ErrUnknown) {
			t.Errorf("%s of an unknown component: %v", name, err)
		}
	}
}

// Operations on one component from many callers must neither race nor leave two processes.
func TestConcurrentOperations(t *testing.T) {
	b := newBench(t)
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
	if got := b.one(t, "store").State; got != Exited {
		t.Errorf("state %s after Stop", got)
	}
}

func differs[T comparable](want, got T) error {
	if want != got {
		return fmt.Errorf("got %v, want %v", got, want)
	}
	return nil
}

// eventually waits for something that the operating system does in its own time.
func eventually(t *testing.T, look func() error) {
	t.Helper()
	check.Eventually(t, check.Patience, look)
}

// Only what exited, and said so since its start, has found its port taken.
func TestPortTaken(t *testing.T) {
	const said = "echo 'java.net.BindException: Address already in use (Bind failed)'; "
	for name, tc := range map[string]struct {
		before, script string
		want           bool
	}{
		"it says so and exits":      {"", said + "for i in $(seq 60); do echo \"  at line $i\"; done; exit 1", true},
		"it says something else":    {"", "echo disk on fire; exit 1", false},
		"it said so at other times": {"address already in use\n", "exit 1", false},
		"it goes on":                {"", said + "exec sleep 60", false},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBench(t)
			log := filepath.Join(b.dir, "script.log")
			check.Must(t, os.WriteFile(log, []byte(tc.before), 0o600))
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			spec := Spec{Name: "script", Path: "/bin/sh", Args: []string{"-c", tc.script}, LogFile: log,
				Ready: func(context.Context) error {
					if logs(log, 0, addressInUse) && tc.before == "" && strings.Contains(tc.script, "exec") {
						cancel()
					}
					return errors.New("not ready")
				}}
			check.Must(t, b.Start(ctx, spec))
			if err := b.WaitReady(ctx, "script"); PortTaken(err) != tc.want {
				t.Errorf("taken: %t, for the error %v", PortTaken(err), err)
			}
		})
	}
}

// A program that is not ours may leave others behind: with Group they go with it, and it is ready by what it logs.
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
	check.Eventually(t, check.Patience, func() error {
		if err := syscall.Kill(child, 0); errors.Is(err, syscall.ESRCH) {
			return nil
		}
		// Whoever inherits it may not have collected it yet.
		if stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", child)); err != nil ||
			!strings.Contains(string(stat), ") Z ") {
			return fmt.Errorf("process %d goes on", child)
		}
		return nil
	})
}
