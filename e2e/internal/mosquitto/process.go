package mosquitto

import (
	"bytes"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"os/user"
	"path/filepath"
	"strings"
	"sync"
	"time"
)

const (
	loopback = "127.0.0.1"
	// attempts is how many free ports to try. Another process may start to listen on a free port before the broker
	// does.
	attempts = 3
	// startTime is how long to wait until the broker listens.
	startTime = 20 * time.Second
)

// Process is a running Mosquitto broker.
type Process struct {
	*Files

	cmd  *exec.Cmd
	log  log
	done chan struct{}
}

// log collects the output of the broker.
type log struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *log) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *log) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.String()
}

// ImageFiles returns the paths of the mosquitto binary and of its shared libraries, which a container image must
// contain.
func ImageFiles(ctx context.Context) ([]string, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	parts := []string{binary}
	libraries, err := exec.CommandContext(ctx, "ldd", binary).Output()
	if err != nil {
		return nil, fmt.Errorf("listing the libraries of %s: %w", binary, err)
	}
	for word := range strings.FieldsSeq(string(libraries)) { // NAME => PATH (ADDRESS), and the loader as PATH (ADDRESS)
		if filepath.IsAbs(word) {
			parts = append(parts, word)
		}
	}
	return parts, nil
}

// Binary returns the path of the mosquitto binary. On Debian, it is in /usr/sbin, which is not in the PATH of most
// users.
func Binary() (string, error) {
	for _, name := range []string{"mosquitto", "/usr/sbin/mosquitto"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, nil
		}
	}
	return "", errors.New("mosquitto is not installed; install it, for example with apt-get install mosquitto")
}

// Start runs Mosquitto on a free port of the loopback address, and blocks until it listens. Start writes the files of
// the broker to a directory. The caller must call Stop.
func Start(ctx context.Context, folder string) (*Process, error) {
	binary, err := Binary()
	if err != nil {
		return nil, err
	}
	// without this user, Mosquitto as root would switch to a user that cannot read the directory
	me, err := user.Current()
	if err != nil {
		return nil, fmt.Errorf("looking up the current user: %w", err)
	}
	for attempt := 1; ; attempt++ {
		l, err := net.Listen("tcp", net.JoinHostPort(loopback, "0"))
		if err != nil {
			return nil, fmt.Errorf("finding a free port for mosquitto: %w", err)
		}
		addr := l.Addr().String()
		_ = l.Close() // the listener has no connections
		files, err := Write(folder, addr, []string{loopback}, folder, me.Username)
		if err != nil {
			return nil, err
		}
		p := &Process{Files: files, done: make(chan struct{})}
		p.cmd = exec.Command(binary, "-c", configFile)
		p.cmd.Dir, p.cmd.Stdout, p.cmd.Stderr = folder, &p.log, &p.log
		if err := p.cmd.Start(); err != nil {
			return nil, fmt.Errorf("starting mosquitto: %w", err)
		}
		go func() {
			_ = p.cmd.Wait() // Check reports the end of the broker, with its log
			close(p.done)
		}()
		err = p.listens(ctx)
		if err == nil {
			return p, nil
		}
		p.Stop()
		if attempt == attempts {
			return nil, err
		}
	}
}

// listens blocks until the broker accepts a TLS connection.
func (p *Process) listens(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, startTime)
	defer cancel()
	config := &tls.Config{InsecureSkipVerify: true} //nolint:gosec // no data is sent
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		conn, err := (&tls.Dialer{Config: config}).DialContext(ctx, "tcp", p.Addr)
		if err == nil {
			return conn.Close()
		}
		select {
		case <-tick.C:
		case <-p.done:
			return fmt.Errorf("mosquitto has exited: %s", p.log.String())
		case <-ctx.Done():
			return fmt.Errorf("mosquitto does not accept connections: %w; log: %s", err, p.log.String())
		}
	}
}

// Check returns an error that contains the broker's log if the broker has exited.
func (p *Process) Check() error {
	select {
	case <-p.done:
		return fmt.Errorf("mosquitto has exited: %s", p.log.String())
	default:
		return nil
	}
}

// Stop stops the broker, and blocks until it has exited.
func (p *Process) Stop() {
	_ = p.cmd.Process.Signal(os.Interrupt) // the process may have exited
	select {
	case <-p.done:
	case <-time.After(startTime):
		_ = p.cmd.Process.Kill() // the process may have exited
		<-p.done
	}
}
