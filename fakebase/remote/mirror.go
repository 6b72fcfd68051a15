package remote

import (
	"net"
	"slices"
	"sync"
	"time"

	"github.com/koupleless/koupsandbox/fakebase"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/observers"
	"github.com/koupleless/koupsandbox/fakebase/rpc"
)

// mirror is a local copy of the state of a remote base. It is updated by the messages of the base.
type mirror struct {
	mu          sync.Mutex       // locked while watchers and tracers are called
	ip          string           // host to use for listeners that listen on all addresses
	clockOffset time.Duration    // offset of the process clock
	reads       *rpc.ReadCounter // counts the messages received from the process
	seqOffset   uint64           // sequence number of the last event of the previous processes
	status      fakebase.Status
	httpAddr    string // address of the last arklet HTTP server
	faults      []fault.Status
	lastSeq     uint64 // sequence number of the last event
	watchers    observers.List[fakebase.Event]
	tracers     observers.List[fakebase.Trace]
}

func newMirror(initial snapshot, reads *rpc.ReadCounter, clockOffset time.Duration) *mirror {
	m := &mirror{ip: initial.Status.IP, faults: initial.Faults, reads: reads, clockOffset: clockOffset}
	m.setStatus(initial.Status)
	return m
}

// reset makes the mirror follow a new process after the previous process has ended.
func (m *mirror) reset(initial snapshot, reads *rpc.ReadCounter, clockOffset time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.reads, m.clockOffset, m.seqOffset, m.faults, m.ip = reads, clockOffset, m.lastSeq, initial.Faults,
		initial.Status.IP
	m.httpAddr = ""
	m.setStatus(initial.Status)
}

// apply applies a message to the mirror, and calls the watchers or the tracers.
func (m *mirror) apply(t message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.reads.Add()
	if t.Faults != nil {
		m.faults = *t.Faults
	}
	if t.Trace != nil {
		t.Trace.Time = m.localTime(t.Trace.Time)
		m.tracers.Notify(*t.Trace)
	}
	if t.Event != nil && t.Status != nil {
		m.setStatus(*t.Status)
		t.Event.Seq += m.seqOffset
		t.Event.Time = m.localTime(t.Event.Time)
		m.notify(*t.Event)
	}
}

// markEnded records that the message stream has ended. If the base was running, the watchers receive EventDown with
// the reason.
func (m *mirror) markEnded(reason string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.reads.End(nil)
	if s := &m.status; s.Running {
		*s = fakebase.Status{Identity: s.Identity, Name: s.Name, Version: s.Version, IP: s.IP, HostName: s.HostName,
			WebAddr: s.WebAddr, Requests: s.Requests}
		m.notify(fakebase.Event{Seq: m.lastSeq + 1, Kind: fakebase.EventDown, Time: time.Now(), Identity: s.Identity,
			Message: reason})
	}
}

func (m *mirror) setStatus(s fakebase.Status) {
	s.Started = m.localTime(s.Started)
	s.WebAddr, s.HTTPAddr = m.reachableAddr(s.WebAddr), m.reachableAddr(s.HTTPAddr)
	m.status = s
	if s.HTTPAddr != "" {
		m.httpAddr = s.HTTPAddr
	}
}

func (m *mirror) notify(e fakebase.Event) {
	m.lastSeq = e.Seq
	m.watchers.Notify(e)
}

// reachableAddr replaces an unspecified host in the address of a listener, so that other processes can connect to the
// address. It returns an empty address unchanged.
func (m *mirror) reachableAddr(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr // empty
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = m.ip
	}
	return net.JoinHostPort(host, port)
}

// localTime converts a timestamp of the process to the local clock.
func (m *mirror) localTime(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-m.clockOffset).Local()
}

// Status returns the status after the last event that was delivered to watchers. Values that change without an event,
// such as the number of requests, may be outdated.
func (m *mirror) Status() fakebase.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

// Identity returns the identity of the current incarnation of the base, or of the last one if the base is not
// running.
func (m *mirror) Identity() string { return m.Status().Identity }

// Faults returns the faults that have not been cleared, in the order in which they were injected.
func (m *mirror) Faults() []fault.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.faults)
}

// Watch implements fakebase.Base.Watch. If the process ends unexpectedly, the last event is EventDown with the
// reason.
func (m *mirror) Watch(fn func(fakebase.Event)) (now fakebase.Status, stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status, m.watchers.Add(fn)
}

// Trace implements fakebase.Base.Trace.
func (m *mirror) Trace(fn func(fakebase.Trace)) (stop func()) { return m.tracers.Add(fn) }
