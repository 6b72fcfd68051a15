package sandbox

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/daemon"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

const (
	daemonLog = "daemon"
	lastLines = 10
	// reachPeriod is the interval between attempts to connect to a daemon that is being started.
	reachPeriod = 5 * time.Millisecond
)

// RunDaemon runs the daemon of the sandbox with the given state directory. It is called in the process that Up
// starts. It blocks until the sandbox is taken down or ctx is done.
func RunDaemon(ctx context.Context, dir string, programs Binaries, logger *slog.Logger) error {
	return daemon.New(daemon.Options{Dir: state.Dir(dir), Binaries: programs, Logger: logger}).Start(ctx)
}

type process struct {
	cmd  *exec.Cmd
	done chan struct{}
	err  error // error with which the daemon process exited; valid after done is closed
}

// end blocks until the daemon has exited. If ctx is done first, end kills the daemon and returns. A daemon exits
// without being asked if its up has failed, or if the command that keeps the sandbox running has disconnected.
func (p *process) end(ctx context.Context) {
	select {
	case <-p.done:
	case <-ctx.Done():
		_ = p.cmd.Process.Kill() // the process may have ended
	}
}

// launch starts the daemon and blocks until its control API responds. The daemon runs in its own session, so that it
// is not stopped by Ctrl-C or by closing the terminal.
func launch(ctx context.Context, dir state.Dir, o Options) (*process, error) {
	log, err := os.OpenFile(dir.Log(daemonLog), os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the daemon's log: %w", err)
	}
	defer func() { _ = log.Close() }() // the daemon has its own descriptor
	cmd := exec.Command(o.Binaries.Daemon, "daemon", "--dir", string(dir),
		"--controlplane", o.Binaries.ControlPlane, "--controller", o.Binaries.Controller, "--base", o.Binaries.Base)
	cmd.Env = supervise.DaemonEnviron(os.Environ(), daemon.EffectiveProvider(o.Config) == v1alpha1.ProviderExisting)
	cmd.Stdout, cmd.Stderr = log, log
	cmd.SysProcAttr = &syscall.SysProcAttr{Setsid: true}
	if err := cmd.Start(); err != nil {
		return nil, fmt.Errorf("starting the daemon: %w", err)
	}
	p := &process{cmd: cmd, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = cmd.Wait()
	}()
	err = wait.PollUntilContextCancel(ctx, reachPeriod, true, func(ctx context.Context) (bool, error) {
		select {
		case <-p.done:
			return false, fmt.Errorf("the daemon exited immediately (%w)\nlast lines of %s:\n  %s", p.err,
				dir.Log(daemonLog),
				strings.Join(supervise.Tail(dir.Log(daemonLog), 0, lastLines), "\n  "))
		default:
		}
		client, _, err := reach(ctx, dir)
		if client != nil {
			client.Close()
		}
		return client != nil, err
	})
	if ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	return p, err
}
