package board

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	apiwait "k8s.io/apimachinery/pkg/util/wait"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/events"
	"github.com/koupleless/koupsandbox/sandbox/fault"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
)

// daemon is the subset of sandbox.Client that the board uses.
type daemon interface {
	Watch(ctx context.Context, r sandbox.WatchRequest, sink func(events.Event)) error
	Status(ctx context.Context, bases bool) (*sandbox.Status, error)
	Traffic(ctx context.Context, group string) ([]traffic.Summary, error)
	StartTraffic(ctx context.Context, group string, s traffic.Spec) error
	StopTraffic(ctx context.Context, group, name string) (*traffic.StreamResult, error)
	SetFault(ctx context.Context, i fault.Injection) (string, error)
	ClearFaults(ctx context.Context, r sandbox.FaultSelector) error
	Act(ctx context.Context, r sandbox.ActRequest) error
	AddBases(ctx context.Context, r sandbox.AddRequest) ([]sandbox.Base, error)
	RemoveBases(ctx context.Context, r sandbox.RemoveRequest) ([]sandbox.Base, error)
	RestartBase(ctx context.Context, base string, r sandbox.RestartRequest) (*sandbox.Base, error)
}

const (
	// reconnectInterval is the interval between attempts to connect to the daemon.
	reconnectInterval = time.Second
	// trafficInterval and statusInterval are the polling intervals for traffic statistics and for the sandbox status.
	// The event stream does not contain these data.
	trafficInterval = time.Second
	statusInterval  = 5 * time.Second
)

const aboutSandbox = "sandbox"

// daemonSource adds the events and statistics of a sandbox to a boardState.
type daemonSource struct {
	state  *boardState
	daemon daemon
	now    func() time.Time

	once  sync.Once
	known chan struct{} // closed when the initial events have reported all existing bases
}

// run reads the events of the daemon until ctx is done. If the event stream ends, run shows a notice and reconnects.
func (s *daemonSource) run(ctx context.Context) {
	var polls sync.WaitGroup
	defer polls.Wait()
	polls.Go(func() { apiwait.UntilWithContext(ctx, s.traffic, trafficInterval) })
	polls.Go(func() { apiwait.UntilWithContext(ctx, s.status, statusInterval) })
	for ctx.Err() == nil {
		mentioned := map[string]bool{}
		synced := false
		err := s.daemon.Watch(ctx, sandbox.WatchRequest{}, func(e events.Event) {
			if !synced {
				mentioned[e.BaseName()] = true
			}
			if e.Synced {
				synced = true
				s.recordReconnect(mentioned)
			}
			s.state.addEvent(e)
			if synced {
				s.once.Do(func() { close(s.known) })
			}
		})
		if ctx.Err() != nil {
			return
		}
		if err == nil {
			err = errors.New("the event stream has ended")
		}
		s.state.notice(aboutSandbox, "the sandbox is unreachable; the data may be out of date: "+err.Error(),
			s.now())
		s.state.setEnded(s.now())
		wait(ctx, reconnectInterval)
	}
}

// recordReconnect records that the daemon responds again. It removes the bases that are not in mentioned, the set of
// bases in the initial events, because they no longer exist.
func (s *daemonSource) recordReconnect(mentioned map[string]bool) {
	s.state.notice(aboutSandbox, "", s.now())
	s.state.setEnded(time.Time{})
	for _, name := range s.state.bases() {
		if !mentioned[name] {
			s.state.addEvent(events.Event{Time: s.now(),
				Base: &events.BaseEvent{Base: name, Change: events.BaseRemoved}})
		}
	}
}

// wait blocks for a duration, or until ctx is done.
func wait(ctx context.Context, d time.Duration) {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

func (s *daemonSource) status(ctx context.Context) {
	status, err := s.daemon.Status(ctx, false)
	if err != nil {
		return // the event stream reports that the daemon is unreachable
	}
	s.state.mu.Lock()
	defer s.state.mu.Unlock()
	w := s.state
	if w.board.Version != status.Version {
		w.board.Version = status.Version
		w.mark(kindBoard, kindBoard)
	}
	left := map[string]bool{}
	for name := range w.processes {
		left[name] = true
	}
	for _, c := range status.Components {
		delete(left, c.Name)
		// Resident memory is rounded to MiB, so that not every query is a change.
		row := ComponentRow{Name: c.Name, State: c.State, Since: millis(c.StartedAt), Message: c.Reason, PID: c.PID,
			RSS: int64(c.RSS) >> 20 << 20} //nolint:gosec // memory that fits a machine fits
		if w.processes[c.Name] != row {
			w.processes[c.Name] = row
			w.mark(kindComponent, c.Name)
		}
	}
	for name := range left {
		delete(w.processes, name)
		w.mark(kindComponent, name)
	}
}

func (s *daemonSource) traffic(ctx context.Context) {
	there := map[string]bool{}
	for _, group := range s.state.groups() {
		all, err := s.daemon.Traffic(ctx, group)
		if err != nil {
			return
		}
		for _, summary := range all {
			there[streamKey(group, summary.Name)] = true
			s.state.streamChanged(group, summary, s.now())
		}
	}
	s.state.streamsLeft(there, s.now())
}

func streamKey(group, name string) string { return group + "/" + name }

// streamsLeft marks streams as ended if the daemon no longer lists them.
func (w *boardState) streamsLeft(there map[string]bool, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for key, s := range w.streams {
		if s.row.Ended == 0 && !there[key] {
			s.row.Ended, s.row.Rate, s.row.LostRate, s.row.Versions, s.row.Open = millis(now), 0, 0, nil, 0
			w.streams[key] = s
			w.mark(kindStream, key)
		}
	}
}

// groups returns the groups of all bases. The group "" contains the bases of the sandbox itself.
func (w *boardState) groups() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	all := []string{""}
	for _, n := range w.nodes {
		if !slices.Contains(all, n.group) {
			all = append(all, n.group)
		}
	}
	return all
}

// streamChanged updates the row of a stream from its new statistics. It calculates rates from the difference from the
// previous statistics.
func (w *boardState) streamChanged(group string, s traffic.Summary, now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	key := streamKey(group, s.Name)
	row := streamRow(group, s)
	before, known := w.streams[key]
	if known && before.row.Ended > 0 && before.row.Ended == row.Ended {
		return
	}
	if seconds := now.Sub(before.at).Seconds(); known && seconds > 0 && row.Ended == 0 && before.row.Sent <= row.Sent {
		row.Rate, row.LostRate = perSecond(row.Sent-before.row.Sent, seconds), perSecond(row.Lost-before.row.Lost,
			seconds)
		for version, n := range s.Versions {
			if rate := perSecond(n-before.versions[version], seconds); rate > 0 {
				if row.Versions == nil {
					row.Versions = map[string]float64{}
				}
				row.Versions[version] = rate
			}
		}
	}
	lostAt := before.lostAt
	if known && row.Lost > before.row.Lost {
		lostAt = now
	}
	w.streams[key] = streamStats{row, now, lostAt, s.Versions}
	w.mark(kindStream, key)
}

// streamStats holds the statistics of a stream at one time, with the number of responses from each version.
type streamStats struct {
	row      StreamRow
	at       time.Time
	lostAt   time.Time // time of the last statistics with new lost requests; zero if there are none
	versions map[string]int
}

// perSecond returns a rate per second with one decimal place.
func perSecond(n int, seconds float64) float64 { return float64(int(float64(n)/seconds*10+0.5)) / 10 }

func streamRow(group string, s traffic.Summary) StreamRow {
	row := StreamRow{
		Group: group, Name: s.Name, Route: s.Route, Sent: s.Sent, Lost: s.Lost, Open: s.Open, P50: inMillis(s.P50),
		P99:   inMillis(s.P99),
		Ended: millis(s.Ended),
	}
	for result, n := range s.Results {
		if row.Results == nil {
			row.Results = map[events.RequestResult]int{}
		}
		row.Results[result] = n
	}
	return row
}

func (w *boardState) bases() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(w.state.Bases.Names(), func(name string) bool { return w.state.Bases.Get(name).Removed })
}

// setEnded records the time when the sandbox ended. A zero time means that the sandbox is running again.
func (w *boardState) setEnded(now time.Time) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.board.Ended == 0 || now.IsZero() && w.board.Ended != 0 {
		w.board.Ended = millis(now)
		w.mark(kindBoard, kindBoard)
	}
}
