package main

import (
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"
)

// command is what a base was sent.
type command struct {
	at   time.Time
	name string
	// topic, qos and retained are those of the message, over MQTT.
	topic    string
	qos      byte
	retained bool
	// method is that of the request, over HTTP.
	method string
	body   []byte

	BizName    string `json:"bizName"`
	BizVersion string `json:"bizVersion"`
	BizURL     string `json:"bizUrl"`
}

func (c command) String() string {
	if c.BizName == "" {
		return c.name
	}
	return c.name + " " + c.BizName + ":" + c.BizVersion
}

// changes tells whether the command changes what the base has.
func (c command) changes() bool {
	return c.name == installBiz || c.name == uninstallBiz || c.name == switchBiz
}

// parse reads the body of a command.
func (c command) parse() command {
	if err := json.Unmarshal(c.body, &c); err != nil {
		c.BizName = "" // a baseline is an array
	}
	return c
}

// activation is what a base does with a second version of a module (protocol 5.3).
type activation int

const (
	newest activation = iota // activate.new.module=true
	first                    // without settings
	every                    // sofa.ark.activate.multi.biz.version.enable=true
)

// base is a Koupleless base, written after the protocol. What is set before start must not be
// changed afterwards; the rest is behind its methods, which may be called concurrently.
type base struct {
	w          *world
	tunnel     string
	identity   string
	name       string
	version    string
	cluster    string
	ip, host   string
	port       int // of arklet, over HTTP
	activation activation
	// mute leaves out the heartbeats after the first; mumble answers no question.
	mute, mumble bool
	// skew is how far its clock is ahead.
	skew time.Duration
	// decorate changes each message before it is sent. Default: nothing.
	decorate func(kind string, data object)

	mu        sync.Mutex
	since     time.Time // start of the JVM
	metaspace int64
	committed int64
	modules   []*biz
	log       []command
	lacking   []string // modules that had an active version and have none
	on        func(c command) reply
	link      link
}

// link is a base's connection.
type link interface {
	// send publishes a message; over HTTP only heartbeats can be sent.
	send(kind string, data any)
	// stop ends the connection without a farewell.
	stop()
}

// obey is how the base treats commands that change modules from now on; nil: as the protocol says.
func (b *base) obey(on func(c command) reply) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.on = on
}

// receive notes a command and returns the reply. It blocks as long as the command takes.
func (b *base) receive(c command) reply {
	c = c.parse()
	c.at = time.Now()
	b.mu.Lock()
	b.log = append(b.log, c)
	on := b.on
	b.mu.Unlock()
	b.w.bell.ring()
	if on == nil || !c.changes() {
		return b.do(c)
	}
	return on(c)
}

// do is what the protocol says.
func (b *base) do(c command) reply {
	switch c.name {
	case installBiz:
		if r, ok := b.resolve(c); !ok {
			return r
		}
		return b.start(c)
	case uninstallBiz:
		return b.uninstall(c)
	case switchBiz:
		return b.switchTo(c)
	default:
		return reply{code: "CMD_NOT_FOUND", message: "please follow the doc"}
	}
}

// change changes the modules and notes which modules have lost their last active version.
func (b *base) change(f func()) {
	b.mu.Lock()
	before := b.active()
	f()
	after := b.active()
	for name := range before {
		if _, still := after[name]; !still {
			b.lacking = append(b.lacking, fmt.Sprintf("%s at %s", name, time.Now().Format("15:04:05.000")))
		}
	}
	b.mu.Unlock()
	b.w.bell.ring()
}

// active are the names of modules with an active version. The caller holds the lock.
func (b *base) active() map[string]string {
	names := map[string]string{}
	for _, m := range b.modules {
		if m.state() == activated {
			names[m.name] = m.version
		}
	}
	return names
}

func (b *base) find(name, version string) *biz {
	for _, m := range b.modules {
		if m.name == name && m.version == version {
			return m
		}
	}
	return nil
}

// to appends a record to a module.
func (m *biz) to(state, reason, message string) {
	m.records = append(m.records, record{time.Now(), state, reason, message})
}

// resolve registers a module; ok is false if the base has it already.
func (b *base) resolve(c command) (r reply, ok bool) {
	b.change(func() {
		if b.find(c.BizName, c.BizVersion) != nil {
			r = refused(c.name, "REPEAT_BIZ", fmt.Sprintf("Biz: %s:%s has been installed or registered.", c.BizName, c.BizVersion))
			return
		}
		m := &biz{name: c.BizName, version: c.BizVersion, url: c.BizURL}
		m.to(resolved, "CREATED", "")
		b.modules, ok = append(b.modules, m), true
	})
	return r, ok
}

// start ends the install of a resolved module (protocol 5.2).
func (b *base) start(c command) (r reply) {
	b.change(func() {
		m := b.find(c.BizName, c.BizVersion)
		if m == nil {
			r = thrown("java.lang.IllegalStateException: the module went while it started")
			return
		}
		i := slices.IndexFunc(b.modules, func(o *biz) bool { return o != m && o.name == m.name && o.state() == activated })
		switch {
		case i < 0 || b.activation == every:
			m.to(activated, "STARTED", "")
		case b.activation == first:
			m.to(deactivated, "STARTED", "start but is deactivated")
		default:
			old := b.modules[i]
			old.to(deactivated, "SWITCHED", "switch to new biz "+m.name+":"+m.version)
			m.to(activated, "STARTED", "switch from old biz: "+old.name+":"+old.version)
		}
		r = success(fmt.Sprintf("Install Biz: %s:%s success, cost: 12 ms, started at: 10:15:30,123", m.name, m.version), m.info(m.state()))
	})
	return r
}

func (b *base) uninstall(c command) (r reply) {
	id := c.BizName + ":" + c.BizVersion
	b.change(func() {
		if b.find(c.BizName, c.BizVersion) == nil {
			r = refused(c.name, "NOT_FOUND_BIZ", "Uninstall biz: "+id+" not found.")
			return
		}
		b.modules = slices.DeleteFunc(b.modules, func(m *biz) bool { return m.name == c.BizName && m.version == c.BizVersion })
		r = success("Uninstall biz: " + id + " success.")
	})
	return r
}

func (b *base) switchTo(c command) (r reply) {
	id := c.BizName + ":" + c.BizVersion
	b.change(func() {
		m := b.find(c.BizName, c.BizVersion)
		if m == nil {
			r = refused(c.name, "NOT_FOUND_BIZ", "Switch biz: "+id+" not found.")
			return
		}
		for _, o := range b.modules {
			if o != m && o.name == m.name && o.state() == activated {
				o.to(deactivated, "SWITCHED", "switch to new version "+id)
			}
		}
		if m.state() != activated {
			m.to(activated, "SWITCHED", "switch from old version: ")
		}
		r = success("Switch biz: " + id + " is activated.")
	})
	return r
}

// put makes the base have a module that nobody asked it for, or brings one into a state.
func (b *base) put(name, version, state, reason, message string) {
	b.change(func() {
		m := b.find(name, version)
		if m == nil {
			m = &biz{name: name, version: version}
			b.modules = append(b.modules, m)
		}
		m.to(state, reason, message)
	})
}

// drop takes a module away, as somebody else's uninstall does.
func (b *base) drop(name, version string) {
	b.uninstall(command{name: uninstallBiz, BizName: name, BizVersion: version})
}

// has are the modules as name:version STATE, sorted.
func (b *base) has() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []string{}
	for _, m := range b.modules {
		list = append(list, m.String())
	}
	slices.Sort(list)
	return list
}

// url is where a module that the base has came from.
func (b *base) url(name, version string) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	if m := b.find(name, version); m != nil {
		return m.url
	}
	return ""
}

// lost are the moments at which a module lost its last active version.
func (b *base) lost() []string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.Clone(b.lacking)
}

// got are the commands so far for which keep is true; a nil keep takes those that change modules.
func (b *base) got(keep func(command) bool) []command {
	if keep == nil {
		keep = command.changes
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(b.log), func(c command) bool { return !keep(c) })
}

// gotName are the commands of a name.
func (b *base) gotName(name string) []command {
	return b.got(func(c command) bool { return c.name == name })
}

// list is the answer to queryAllBiz.
func (b *base) list() []object {
	b.mu.Lock()
	defer b.mu.Unlock()
	list := []object{}
	for _, m := range b.modules {
		if b.tunnel == overHTTP {
			list = append(list, m.full())
		} else {
			list = append(list, m.simple())
		}
	}
	return list
}

func (b *base) health() object {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.healthData()
}

// setMetaspace sets the committed metaspace, in bytes.
func (b *base) setMetaspace(committed int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.committed = committed
}

// now is the time by the base's clock.
func (b *base) now() time.Time { return time.Now().Add(b.skew) }

// connect starts a new process of the base: no modules, a new connection.
func (b *base) connect() {
	b.change(func() { b.since, b.modules = time.Now(), nil })
	b.mu.Lock()
	b.lacking = nil
	b.mu.Unlock()
	b.reconnect()
}

// reconnect connects a base that kept its modules.
func (b *base) reconnect() {
	var l link
	if b.tunnel == overHTTP {
		l = connectHTTP(b)
	} else {
		l = connectMQTT(b)
	}
	b.mu.Lock()
	b.link = l
	b.mu.Unlock()
}

// disconnect cuts the base off; it keeps its modules.
func (b *base) disconnect() {
	b.mu.Lock()
	l := b.link
	b.link = nil
	b.mu.Unlock()
	if l != nil {
		l.stop()
	}
}

// send sends a message, if the base is connected.
func (b *base) send(kind string, data any) {
	b.mu.Lock()
	l := b.link
	b.mu.Unlock()
	if l != nil {
		l.send(kind, data)
	}
}
