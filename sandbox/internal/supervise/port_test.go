package supervise

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

// TestListenAvoidsEphemeralPorts checks that Listen chooses ports outside the ephemeral port range, because the
// operating system could assign an ephemeral port to another process.
func TestListenAvoidsEphemeralPorts(t *testing.T) {
	lowest := 32768
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		lowest, err = strconv.Atoi(strings.Fields(string(text))[0])
		if err != nil {
			t.Fatal(err)
		}
	}
	if lowest <= lastPort {
		t.Skipf("ephemeral ports of this machine begin at %d", lowest)
	}
	chosen := map[int]bool{}
	for range 200 {
		l, err := Listen("127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = l.Close() }()
		port := l.Addr().(*net.TCPAddr).Port
		if port < firstPort || port > lastPort || chosen[port] {
			t.Errorf("port %d after %d ports", port, len(chosen))
		}
		chosen[port] = true
	}
	if len(chosen) != 200 {
		t.Errorf("%d different ports, want 200", len(chosen))
	}
}
