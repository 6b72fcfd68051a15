package embedded

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"strconv"

	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

// ports maps component names to ports. It is stored in the state directory: after a restart, the control plane uses
// the same ports unless another process has taken them, so that copies of a kubeconfig stay valid.
type ports map[string]int

const portsFile = "ports.json"

func loadPorts(dir string) ports {
	p := ports{}
	data, err := os.ReadFile(filepath.Join(dir, portsFile))
	if err != nil || json.Unmarshal(data, &p) != nil {
		return ports{} // choose new ports
	}
	return p
}

func (p ports) save(dir string) error {
	data, err := json.Marshal(p)
	if err == nil {
		err = os.WriteFile(filepath.Join(dir, portsFile), data, 0o600)
	}
	if err != nil {
		return fmt.Errorf("saving the ports of the control plane: %w", err)
	}
	return nil
}

// pick assigns a free port to each named component that has no port or whose port is in use. It keeps the listeners
// open until all ports are assigned, so that no two components get the same port.
func (p ports) pick(names ...string) error {
	var open []net.Listener
	defer func() {
		for _, l := range open {
			_ = l.Close()
		}
	}()
	for _, name := range names {
		l, err := listen(p[name])
		if err != nil && p[name] != 0 {
			l, err = listen(0)
		}
		if err != nil {
			return fmt.Errorf("finding a free port for %s: %w", name, err)
		}
		open = append(open, l)
		p[name] = l.Addr().(*net.TCPAddr).Port
	}
	return nil
}

func (p ports) url(name string) string {
	return "https://" + net.JoinHostPort("127.0.0.1", strconv.Itoa(p[name]))
}

func listen(number int) (net.Listener, error) {
	return supervise.Listen(net.JoinHostPort("127.0.0.1", strconv.Itoa(number)))
}
