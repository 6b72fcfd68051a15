package fakebase

import (
	"time"

	"github.com/koupleless/koupsandbox/fakebase/fault"
)

// Status is what a base is like at one moment. Its JSON form is for people
// and control interfaces, not the wire.
type Status struct {
	Identity string `json:"identity"`
	Name     string `json:"name"`
	Version  string `json:"version"`
	IP       string `json:"ip"`
	HostName string `json:"hostName"`
	// Running: a process runs. The rest is zero otherwise.
	Running bool `json:"running"`
	// Connected: the MQTT tunnel has a connection.
	Connected bool `json:"connected"`
	// Ready: the base and its static modules have started.
	Ready bool `json:"ready"`
	// Health is what the actuator says: UP, UNKNOWN or DOWN.
	Health string `json:"health,omitempty"`
	// Started is when the process started; zero while none runs.
	Started   time.Time       `json:"started,omitzero"`
	Metaspace MetaspaceStatus `json:"metaspace,omitzero"`
	// Biz are the installed modules with their histories, in order of priority.
	Biz []Biz `json:"biz,omitempty"`
	// WebAddr and HTTPAddr are the listeners, host:port; empty = not open.
	WebAddr  string `json:"webAddr,omitempty"`
	HTTPAddr string `json:"httpAddr,omitempty"`
	// Requests counts the module requests that were served.
	Requests uint64 `json:"requests"`
}

// Status tells what the base is like now.
func (b *Base) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.statusLocked()
}

// Identity is the identity of the running process, or of the last or next one.
func (b *Base) Identity() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.identity
}

func (b *Base) statusLocked() Status {
	o := &b.opts
	s := Status{
		Identity: b.identity, Name: o.Name, Version: o.Version, IP: o.IP, HostName: o.hostName(b.identity),
		WebAddr: b.web.endpoint.address(), Requests: b.requests.Load(),
	}
	l := b.life
	if l == nil {
		return s
	}
	_, full := b.faults.holds(fault.KindMetaspaceFull, subject{})
	h := l.healthLocked()
	s.Running, s.Started = true, l.started
	s.Connected = l.mqtt != nil && l.mqtt.client.Connected()
	s.Health = string(h.overall)
	s.Ready = h.startUp == statusUp
	s.Metaspace = l.meta.status(full)
	s.Biz = l.container.List()
	if l.http != nil {
		s.HTTPAddr = l.http.endpoint.address()
	}
	return s
}
