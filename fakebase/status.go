package fakebase

import "time"

// Status is the status of a base. Control APIs return its JSON form. It is not part of the arklet protocol.
type Status struct {
	Identity string `json:"identity"`
	Name     string `json:"name"`
	Version  string `json:"version"`
	IP       string `json:"ip"`
	HostName string `json:"hostName"`
	// Running reports whether a process runs. If no process runs, the following fields are zero, except WebAddr and
	// Requests.
	Running bool `json:"running"`
	// Connected reports whether the MQTT tunnel is connected.
	Connected bool `json:"connected"`
	// Ready reports whether the base and its static modules have started.
	Ready bool `json:"ready"`
	// Health is the health status that the actuator returns: UP, UNKNOWN or DOWN.
	Health string `json:"health,omitempty"`
	// Readiness is the status that /actuator/health/readiness returns: UP or OUT_OF_SERVICE.
	Readiness string `json:"readiness,omitempty"`
	// Started is the start time of the process.
	Started   time.Time       `json:"started,omitzero"`
	Metaspace MetaspaceStatus `json:"metaspace,omitzero"`
	// Biz contains the installed modules with their state histories, sorted by priority.
	Biz []Biz `json:"biz,omitempty"`
	// WebAddr and HTTPAddr are the addresses (host:port) of the listener for module traffic and of the arklet HTTP
	// server. An address is empty if its listener is not open.
	WebAddr  string `json:"webAddr,omitempty"`
	HTTPAddr string `json:"httpAddr,omitempty"`
	// Requests is the number of requests that modules have served.
	Requests uint64 `json:"requests"`
}

// Status returns the current status of the base.
func (b *Base) Status() Status {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.statusLocked()
}

// Identity returns the identity of the running process. If no process runs, it returns the identity of the last or
// next process.
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
	l := b.current
	if l == nil {
		return s
	}
	h := l.healthLocked()
	s.Running, s.Started = true, l.started
	s.Connected = l.mqtt != nil && l.mqtt.client.Connected()
	s.Health, s.Readiness = string(h.overall), string(l.readinessLocked())
	s.Ready = h.startUp == statusUp
	s.Metaspace = l.metaspaceLocked()
	s.Biz = l.container.List()
	if l.http != nil {
		s.HTTPAddr = l.http.endpoint.address()
	}
	return s
}
