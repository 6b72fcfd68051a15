package ci

import (
	"net"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"golang.org/x/sys/unix"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
)

// TestOffline checks that a sandbox works in a network namespace that has only the loopback interface.
func TestOffline(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("*** OFFLINE USE IS NOT TESTED: a network namespace needs root ***")
	}
	bin, err := box.FindBinaries(root)
	must(t, err)
	b := &box.Box{Bin: bin, Home: shortFolder(t), Name: "offline"}
	defer func() { must(t, b.Down(t.Context())) }()
	emptyNetwork(t)
	// No subtests, because only this goroutine is in the network namespace.
	for _, tc := range []struct {
		args []string
		want string // regular expression for the output
	}{
		{[]string{"up", "--bases", "2"}, `(?m)^Sandbox "offline" is up after `},
		{[]string{"status"}, `(?m)^kube-apiserver +running`},
		{[]string{"scenario", "run", filepath.Join(root, "examples", "module", "scenarios", "release.yaml")},
			`(?m)^1 passed in .* 0 lost`},
		{[]string{"down"}, `(?m)^Sandbox "offline" is down after `},
	} {
		result, err := b.Run(t.Context(), tc.args...)
		must(t, err)
		if result.Status != 0 || !regexp.MustCompile(tc.want).MatchString(result.Out) {
			t.Errorf("koupsandbox %s: exit status %d; want 0 and %s in\n%s%s", strings.Join(tc.args, " "),
				result.Status,
				tc.want, result.Out, result.Err)
		}
	}
}

// emptyNetwork moves this goroutine, and the processes that it starts, to a new network namespace with only the
// loopback interface. The goroutine stays locked to its thread, and the thread exits with the goroutine.
func emptyNetwork(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	must(t, unix.Unshare(unix.CLONE_NEWNET))
	socket, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM, 0)
	must(t, err)
	defer func() { must(t, unix.Close(socket)) }()
	request, err := unix.NewIfreq("lo")
	must(t, err)
	request.SetUint16(unix.IFF_UP)
	must(t, unix.IoctlIfreq(socket, unix.SIOCSIFFLAGS, request))
	interfaces, err := net.Interfaces()
	must(t, err)
	names := []string{}
	for _, i := range interfaces {
		names = append(names, i.Name)
	}
	if diff := cmp.Diff([]string{"lo"}, names); diff != "" {
		t.Fatalf("interfaces (-want +got):\n%s", diff)
	}
}
