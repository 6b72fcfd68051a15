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

// mirror is a copy of a base. It follows the events of the base.
type mirror struct {
	mu       sync.Mutex    // held while watchers and tracers are told
	ip       string        // host of listeners that name none
	ahead    time.Duration // of the process's clock
	read     *rpc.Mark     // of the messages of the process
	earlier  uint64        // number of the last event of the processes before
	status   fakebase.Status
	httpAddr string // of the last listener of arklet
	faults   []fault.Status
	events   uint64 // number of the last event
	watchers observers.List[fakebase.Event]
	tracers  observers.List[fakebase.Trace]
}

func newMirror(now snapshot, read *rpc.Mark, ahead time.Duration) *mirror {
	m := &mirror{ip: now.Status.IP, faults: now.Faults, read: read, ahead: ahead}
	m.setStatus(now.Status)
	return m
}

// renew continues with another process, after the end of the previous one.
func (m *mirror) renew(now snapshot, read *rpc.Mark, ahead time.Duration) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.read, m.ahead, m.earlier, m.faults, m.ip = read, ahead, m.events, now.Faults, now.Status.IP
	m.httpAddr = ""
	m.setStatus(now.Status)
}

// apply applies a message, and calls the watchers or tracers.
func (m *mirror) apply(t message) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.read.Add()
	if t.Faults != nil {
		m.faults = *t.Faults
	}
	if t.Trace != nil {
		t.Trace.Time = m.here(t.Trace.Time)
		m.tracers.Tell(*t.Trace)
	}
	if t.Event != nil && t.Status != nil {
		m.setStatus(*t.Status)
		t.Event.Seq += m.earlier
		t.Event.Time = m.here(t.Event.Time)
		m.tell(*t.Event)
	}
}

// end records that there are no more messages. If the base was running, it is down.
func (m *mirror) end(why string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	defer m.read.End(nil)
	if s := &m.status; s.Running {
		*s = fakebase.Status{Identity: s.Identity, Name: s.Name, Version: s.Version, IP: s.IP, HostName: s.HostName,
			WebAddr: s.WebAddr, Requests: s.Requests}
		m.tell(fakebase.Event{Seq: m.events + 1, Kind: fakebase.EventDown, Time: time.Now(), Identity: s.Identity,
			Message: why})
	}
}

func (m *mirror) setStatus(s fakebase.Status) {
	s.Started = m.here(s.Started)
	s.WebAddr, s.HTTPAddr = m.reachable(s.WebAddr), m.reachable(s.HTTPAddr)
	m.status = s
	if s.HTTPAddr != "" {
		m.httpAddr = s.HTTPAddr
	}
}

func (m *mirror) tell(e fakebase.Event) {
	m.events = e.Seq
	m.watchers.Tell(e)
}

// reachable returns the address at which other processes reach a listener.
func (m *mirror) reachable(addr string) string {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return addr // there is none
	}
	if ip := net.ParseIP(host); host == "" || ip.IsUnspecified() {
		host = m.ip
	}
	return net.JoinHostPort(host, port)
}

// here converts a time of the process to the clock of this machine.
func (m *mirror) here(t time.Time) time.Time {
	if t.IsZero() {
		return t
	}
	return t.Add(-m.ahead).Local()
}

// Status tells what the base was like after the last thing that Watch told: of what
// changes without an event, such as the number of requests, it may be a little late.
func (m *mirror) Status() fakebase.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status
}

// Identity is the identity of the running process, or of the last one.
func (m *mirror) Identity() string { return m.Status().Identity }

// Faults lists the faults that are there, in order of injection.
func (m *mirror) Faults() []fault.Status {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Clone(m.faults)
}

// Watch is that of fakebase.Base. If the base's process ends by itself, the last
// event is EventDown, with the reason.
func (m *mirror) Watch(fn func(fakebase.Event)) (now fakebase.Status, stop func()) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.status, m.watchers.Add(fn)
}

// Trace is that of fakebase.Base.
func (m *mirror) Trace(fn func(fakebase.Trace)) (stop func()) { return m.tracers.Add(fn) }
