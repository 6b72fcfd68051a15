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

// readyTimeout bounds the readiness question of Status: a paused component holds connections open
// and never answers.
const readyTimeout = time.Second

// Status returns the wanted components (nil = all), sorted by name. It blocks for at most one second.
func (s *Supervisor) Status(ctx context.Context, wanted func(name string) bool) []Component {
	ctx, cancel := context.WithTimeout(ctx, readyTimeout)
	defer cancel()
	names := s.names()
	if wanted != nil {
		names = slices.DeleteFunc(names, func(name string) bool { return !wanted(name) })
	}
	slices.Sort(names) // those that are started at once have no order of their own
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
	if r.ended() { // looked at last, because it may have ended while it was asked
		st.State, st.Exit, st.RSS, st.CPU = Exited, r.exit, 0, 0
		st.Ready, st.Reason = false, "exited: "+r.exit
	}
	return st
}

// readiness returns the readiness check of a run; nil = the component is ready as soon as it runs.
func (s Spec) readiness(r *run) func(context.Context) error {
	if s.ReadyLog == nil {
		return s.Ready
	}
	return func(context.Context) error {
		if !r.logged.Load() && logContains(s.LogFile, r.logOffset, s.ReadyLog) {
			r.logged.Store(true)
		}
		if !r.logged.Load() {
			return fmt.Errorf("it has not logged a line that fits %q", s.ReadyLog)
		}
		return nil
	}
}

// logContains reports whether a line of a log file after offset fits.
func logContains(path string, offset int64, fits *regexp.Regexp) bool {
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }() // only read
	if _, err := f.Seek(offset, io.SeekStart); err != nil {
		return false
	}
	lines := bufio.NewReader(f)
	for {
		line, err := lines.ReadString('\n')
		if fits.MatchString(strings.TrimRight(line, "\r\n")) && line != "" {
			return true
		}
		if err != nil {
			return false
		}
	}
}

// NotReadyError says that a component did not become ready.
type NotReadyError struct {
	// Name of the component.
	Name string
	// Reason is the last error of Ready, or how the process exited.
	Reason string
	// Exited reports whether the process ended; otherwise time ran out.
	Exited bool
	// LogFile of the component; empty if it has none.
	LogFile string
	// LastLines of the log since this start.
	LastLines []string

	offset int64 // of the log at this start
	cause  error
}

const lastLines = 10

// Error names the component, the reason and the last log lines.
func (e *NotReadyError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%s did not become ready: %s", e.Name, e.Reason)
	if strings.Contains(strings.Join(e.LastLines, "\n"), syscall.ENOSPC.Error()) {
		b.WriteString("; the disk is full: make room, or let --home name a folder elsewhere")
	}
	if len(e.LastLines) > 0 {
		fmt.Fprintf(&b, "\nlast lines of %s:\n  %s", e.LogFile, strings.Join(e.LastLines, "\n  "))
	}
	return b.String()
}

// Unwrap returns the end of the context that was waited with, or nil if the process exited.
func (e *NotReadyError) Unwrap() error { return e.cause }

// addressInUse is what a program logs when somebody has its port, in any language.
var addressInUse = regexp.MustCompile("(?i)" + regexp.QuoteMeta(syscall.EADDRINUSE.Error()))

// PortTaken reports whether err is from a component that exited because an address was in use: the component has logged
// that, or another process listens on one of addrs.
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
