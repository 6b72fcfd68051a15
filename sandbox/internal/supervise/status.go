package supervise

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"regexp"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// readyTimeout is the timeout of the readiness checks in Status. It is needed because a paused component accepts
// connections but does not respond.
const readyTimeout = time.Second

// Status returns the status of the components for which wanted returns true, sorted by name. If wanted is nil, it
// returns all components. It blocks for at most one second.
func (s *Supervisor) Status(ctx context.Context, wanted func(name string) bool) []Component {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	names := s.names()
	if wanted != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return !wanted(name) })
	}
	slices.Sort(names) // concurrent starts have no fixed order
	all := make([]Component, len(names))
	var wg sync.WaitGroup
	for i, name := range names {
		wg.Go(func() { all[i] = s.status(ctx, name) })
	}
	wg.Wait()
	return all
}

func (s *Supervisor) status(ctx context.Context, name string) Component {
	spec, r, err := s.find(name)
	if err != nil {
		return Component{Name: name, State: Exited, Reason: err.Error()}
	}
	st := Component{Name: name, State: Running, PID: r.process.Pid, StartedAt: r.startedAt, Log: spec.LogFile,
		Metrics: spec.Metrics}
	u, err := inspect(r.process.Pid)
	if err == nil && u.start == r.start {
		st.RSS, st.CPU = u.rss, u.cpu
		if u.stopped {
			st.State, st.Reason = Paused, "paused"
			return st
		}
	}
	if !r.ended() {
		st.Ready = true
		if ready := spec.readiness(r); ready != nil {
			if err := ready(ctx); err != nil {
				st.Ready, st.Reason = false, err.Error()
			}
		}
	}
	if r.ended() { // checked last, because the process may have ended during the readiness check
		st.State, st.Exit, st.RSS, st.CPU = Exited, r.exit, 0, 0
		st.Ready, st.Reason = false, r.exit
	}
	return st
}

// readiness returns the readiness check for one run of the component. It returns nil if the component is ready as
// soon as it is running.
func (s Spec) readiness(r *run) func(context.Context) error {
	if s.ReadyLog == nil {
		return s.Ready
	}
	return func(context.Context) error {
		if !r.logged.Load() && logContains(s.LogFile, r.logOffset, s.ReadyLog) {
			r.logged.Store(true)
		}
		if !r.logged.Load() {
			return fmt.Errorf("no log line matches %q yet", s.ReadyLog)
		}
		return nil
	}
}

// logContains reports whether a line at or after the offset in a log file matches pattern.
func logContains(path string, offset int64, pattern *regexp.Regexp) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // opened for reading
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return false
	}
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadString('\n')
		if pattern.MatchString(strings.TrimRight(line, "\r\n")) && line != "" {
			return true
		}
		if err != nil {
			return false
		}
	}
}

// NotReadyError means that a component has not become ready.
type NotReadyError struct {
	// Name is the name of the component.
	Name string
	// Reason is the last error of the readiness check. If the process has exited, it describes how the process
	// exited.
	Reason string
	// Exited reports whether the process has exited. If it is false, the context ended before the component was
	// ready.
	Exited bool
	// LogFile is the path of the component's log file; empty if the component has no log file.
	LogFile string
	// LastLines contains the last lines that the component has logged since it was started.
	LastLines []string

	offset int64 // offset of the first log line of this run in the log file
	cause  error
}

const lastLines = 10

// Error returns a message with the name of the component, the reason and the last log lines.
func (e *NotReadyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s did not become ready: %s", e.Name, e.Reason)
	if strings.Contains(strings.Join(e.LastLines, "\n"), syscall.ENOSPC.Error()) {
		b.WriteString("; the disk is full: free some space, or set --home to a directory on another disk")
	}
	if len(e.LastLines) > 0 {
		fmt.Fprintf(&b, "\nlast lines of %s:\n  %s", e.LogFile, strings.Join(e.LastLines, "\n  "))
	}
	return b.String()
}

// Unwrap returns the cause of the end of the context, or nil if the process has exited.
func (e *NotReadyError) Unwrap() error { return e.cause }

// addressInUse matches a log message of a process whose port was in use: the error text of EADDRINUSE.
var addressInUse = regexp.MustCompile("(?i)" + regexp.QuoteMeta(syscall.EADDRINUSE.Error()))

// PortTaken reports whether err is a *NotReadyError of a component that exited because its port was in use. The
// component must have logged this error, or another process must be listening on one of addrs.
func PortTaken(err error, addrs ...string) bool {
	var e *NotReadyError
	if !errors.As(err, &e) || !e.Exited {
		return false
	}
	return logContains(e.LogFile, e.offset, addressInUse) || slices.ContainsFunc(addrs, func(addr string) bool {
		l, err := net.Listen("tcp", addr)
		if err == nil {
			_ = l.Close()
		}
		return err != nil
	})
}
