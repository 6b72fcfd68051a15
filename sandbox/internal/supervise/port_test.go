package supervise

import (
	"net"
	"os"
	"strconv"
	"strings"
	"testing"
)

// What is chosen is given to nobody by the system.
func TestListen(t *testing.T) {
	lowest := 32768
	if text, err := os.ReadFile("/proc/sys/net/ipv4/ip_local_port_range"); err == nil {
		lowest, err = strconv.Atoi(strings.Fields(string(text))[0])
		if err != nil {
			t.Fatal(err)
		}
	}
	if lowest <= lastPort {
		t.Skipf("this machine gives ports from %d on to anybody", lowest)
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
			t.Errorf("port %d, of %d before", port, len(chosen))
		}
		chosen[port] = true
	}
	if len(chosen) != 200 {
		t.Errorf("%d ports", len(chosen))
	}
}
