package control_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
)

const (
	// somebody is a user who is neither the one of the tests nor root.
	somebody = 54321
	// callEnv names a socket that this program calls in place of the tests, and prints what came of it.
	callEnv = "CONTROL_TEST_SOCKET"
)

func TestMain(m *testing.M) {
	if socket := os.Getenv(callEnv); socket != "" {
		fmt.Print(call(context.Background(), socket))
		return
	}
	os.Exit(m.Run())
}

// call says what the daemon behind a socket answers.
func call(ctx context.Context, socket string) string {
	client := control.NewClient(socket)
	defer client.Close()
	status, err := client.Status(ctx, false)
	var refused *control.Error
	switch {
	case errors.As(err, &refused):
		return fmt.Sprintf("%d: %s", refused.Code, refused.Message)
	case errors.Is(err, control.ErrUnreachable):
		return "unreachable"
	case err != nil:
		return err.Error()
	}
	return "the sandbox " + status.Name
}

// daemon answers Status alone.
type daemon struct{ control.Service }

func (daemon) Status(context.Context, bool) *control.Status { return &control.Status{Name: "a"} }

// serve serves a daemon, and returns the path of its socket, in a folder that everybody may look into.
func serve(t *testing.T) string {
	t.Helper()
	folder, err := os.MkdirTemp("", "koup-") // a short path, because a socket goes there
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(folder) }) // a folder for temporary files
	if err := os.Chmod(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(folder, "s")
	l, err := control.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	server := control.Server(daemon{})
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(l) }()
	t.Cleanup(func() {
		_ = server.Close()
		if err := <-ended; !errors.Is(err, http.ErrServerClosed) {
			t.Errorf("serving: %v", err)
		}
	})
	return path
}

// The user of the daemon is served; another one cannot open the socket, and is refused in words if it
// can be opened all the same.
func TestOnlyItsUserMayCall(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can call as another user")
	}
	path := serve(t)
	as := func(uid uint32) string {
		t.Helper()
		program, err := os.ReadFile("/proc/self/exe") // the folder of the test's program may be closed
		if err != nil {
			t.Fatal(err)
		}
		copied := filepath.Join(filepath.Dir(path), "call")
		if err := os.WriteFile(copied, program, 0o755); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(copied)
		cmd.Env, cmd.Dir = []string{callEnv + "=" + path}, "/"
		cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
		out, err := cmd.CombinedOutput()
		if err != nil {
			t.Fatalf("calling as %d: %v\n%s", uid, err, out)
		}
		return string(out)
	}
	got := []string{call(t.Context(), path), as(0), as(somebody)}
	if err := os.Chmod(path, 0o666); err != nil {
		t.Fatal(err)
	}
	got = append(got, as(somebody))
	want := []string{
		"the sandbox a", "the sandbox a", "unreachable",
		"403: the sandbox is that of the user 0, and not yours, 54321: bring up one of your own",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("answers to the test, to root, and twice to somebody (-want +got):\n%s", diff)
	}
}
