package embedded

import (
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

// tries is the number of attempts per test. An attempt can fail if another process takes a port between two steps of
// the test.
const tries = 5

func TestPickKeepsFreePorts(t *testing.T) {
	var p, again ports
	for range tries {
		dir := t.TempDir()
		p = loadPorts(dir)
		check.Must(t, p.pick(componentNames...))
		check.Must(t, p.save(dir))
		again = loadPorts(dir)
		check.Must(t, again.pick(componentNames...))
		if cmp.Equal(p, again) {
			break
		}
	}
	if diff := cmp.Diff(p, again); diff != "" {
		t.Errorf("free ports were not kept (-first +second):\n%s", diff)
	}

	distinct := map[int]bool{}
	for _, port := range p {
		distinct[port] = true
	}
	if len(distinct) != len(componentNames) || distinct[0] {
		t.Fatalf("ports %v", p)
	}

	listener, err := listen(p[apiserver])
	check.Must(t, err)
	defer func() { _ = listener.Close() }() // it was not used
	check.Must(t, again.pick(componentNames...))
	if again[apiserver] == listener.Addr().(*net.TCPAddr).Port {
		t.Error("a port in use was picked")
	}
	again[apiserver] = p[apiserver]
	if diff := cmp.Diff(p, again); diff != "" {
		t.Errorf("other ports changed (-want +got):\n%s", diff)
	}
}
