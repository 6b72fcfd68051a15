package embedded

import (
	"net"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"
)

// tries are how often a test picks free ports: between two of its steps another process of this
// machine may take one.
const tries = 5

func TestPortsAreKeptUnlessTaken(t *testing.T) {
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

	stranger, err := listen(p[apiserver])
	check.Must(t, err)
	defer func() { _ = stranger.Close() }() // nobody reads from it
	check.Must(t, again.pick(componentNames...))
	if again[apiserver] == stranger.Addr().(*net.TCPAddr).Port {
		t.Error("a taken port was picked")
	}
	again[apiserver] = p[apiserver]
	if diff := cmp.Diff(p, again); diff != "" {
		t.Errorf("the others changed too (-want +got):\n%s", diff)
	}
}
