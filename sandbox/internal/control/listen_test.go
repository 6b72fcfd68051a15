package control_test

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
)

const (
	// otherUser is a user ID that differs from root and from the user who runs the tests.
	otherUser = 54321
	// callEnv is an environment variable that contains the path of a socket. If it is set, the test binary runs no
	// tests. It calls the daemon on this socket and prints the result.
	callEnv = "CONTROL_TEST_SOCKET"
	// listenEnv is an environment variable that contains the path of a socket. If it is set, the test binary runs no
	// tests. It listens on this socket.
	listenEnv = "CONTROL_TEST_LISTEN"
)

func TestMain(m *testing.M) {
	if socket := os.Getenv(callEnv); socket != "" {
		fmt.Print(call(context.Background(), socket))
		return
	}
	if socket := os.Getenv(listenEnv); socket != "" {
		listen(socket)
		return
	}
	os.Exit(m.Run())
}

// call calls Status on a socket and returns the result as text.
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

// serve serves a control API that implements only Status. It returns the path of the socket. All users can access the
// directory of the socket.
func serve(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "koup-") // short, because the path of a socket is limited
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) }) // a temporary directory
	check.Must(t, os.Chmod(dir, 0o755))
	path := filepath.Join(dir, "s")
	l, err := control.Listen(path)
	check.Must(t, err)
	api := http.NewServeMux()
	control.MethodStatus.Handle(api, func(context.Context, control.StatusRequest) (*control.Status, error) {
		return &control.Status{Name: "a"}, nil
	})
	server := control.NewServer(api)
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

// asUser returns a command that runs the test binary as another user.
func asUser(t *testing.T, dir string, uid uint32) *exec.Cmd {
	t.Helper()
	program, err := os.ReadFile("/proc/self/exe") // other users may have no access to the directory of the test binary
	check.Must(t, err)
	copied := filepath.Join(dir, "call")
	check.Must(t, os.WriteFile(copied, program, 0o755))
	cmd := exec.Command(copied)
	cmd.Dir = "/"
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: uid, Gid: uid}}
	return cmd
}

// TestServerRejectsOtherUsers checks that only the user of the daemon can use the API. Another user must not be able
// to open the socket. If the permissions of the socket are relaxed, the server must reject the other user.
func TestServerRejectsOtherUsers(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: only root can call as another user: make test-root")
	}
	path := serve(t)
	as := func(uid uint32) string {
		t.Helper()
		cmd := asUser(t, filepath.Dir(path), uid)
		cmd.Env = []string{callEnv + "=" + path, "GOCOVERDIR=" + filepath.Dir(path)} // no warning with -cover
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("calling as %d: %v\n%s", uid, err, out)
		}
		return string(out)
	}
	got := []string{call(t.Context(), path), as(0), as(otherUser)}
	check.Must(t, os.Chmod(path, 0o666))
	got = append(got, as(otherUser))
	want := []string{
		"the sandbox a", "the sandbox a", "unreachable",
		"403: the sandbox belongs to user 0, and you are user 54321; create your own sandbox",
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("responses for the current user, root, and twice another user (-want +got):\n%s", diff)
	}
}

// TestClientRejectsDaemonOfAnotherUser checks that a client does not connect to a socket of another user's process.
func TestClientRejectsDaemonOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("NOT TESTED: only root can run a process as another user: make test-root")
	}
	dir, err := os.MkdirTemp("", "koup-") // short, because the path of a socket is limited
	check.Must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	check.Must(t, os.Chmod(dir, 0o777))
	cmd := asUser(t, dir, otherUser)
	cmd.Env = []string{listenEnv + "=" + filepath.Join(dir, "s")}
	out, err := cmd.StdoutPipe()
	check.Must(t, err)
	check.Must(t, cmd.Start())
	t.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
	})
	lines := bufio.NewScanner(out)
	lines.Scan() // the process listens
	client := control.NewClient(filepath.Join(dir, "s"))
	defer client.Close()
	_, err = client.Status(t.Context(), false)
	if err == nil || !strings.Contains(err.Error(), "runs as user 54321; the daemon must run as your user or root") {
		t.Errorf("error: %v", err)
	}
	if lines.Scan() { // the connection ends without a request
		t.Errorf("the listener received %q", lines.Text())
	}
}

// listen listens on a socket. It prints "ready", and later the first line that a client sends.
func listen(path string) {
	l, err := net.Listen("unix", path)
	if err != nil {
		panic(err)
	}
	fmt.Println("ready")
	conn, err := l.Accept()
	if err != nil {
		panic(err)
	}
	lines := bufio.NewScanner(conn)
	for lines.Scan() {
		fmt.Println(lines.Text())
	}
}
