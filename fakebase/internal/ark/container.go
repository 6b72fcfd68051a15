package ark

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Options are the flags of a Container.
type Options struct {
	// Activation is the rule of protocol 5.3; zero = ActivateDefault.
	Activation Activation
	// KeepFailed leaves a biz whose start failed registered and broken, like
	// sofa.ark.auto.uninstall.when.failed.enable=false; false = it is removed.
	KeepFailed bool
	// KeepUnstoppable leaves a biz whose stop failed registered and broken, like
	// sofa.ark.remove.biz.instance.when.stop.failed.enable=false; false = it is removed.
	KeepUnstoppable bool
	// Observe is called with every change, in order; nil = nobody looks.
	Observe func(Change)
}

// Container holds the registered biz of one process.
type Container struct {
	opts Options
	biz  map[string]*Biz
	seq  uint64
}

// NewContainer returns an empty container.
func NewContainer(opts Options) *Container {
	return &Container{opts: opts, biz: map[string]*Biz{}}
}

// Register adds a biz that was read from a jar, in state resolved. It fails
// with ErrRegistered when the identity is taken.
func (c *Container) Register(spec Spec, origin Origin, now time.Time) error {
	id := spec.ID()
	if c.biz[id] != nil {
		return fmt.Errorf("registering biz %q: %w", id, ErrRegistered)
	}
	c.seq++
	b := &Biz{Spec: spec, State: Unresolved, Origin: origin, seq: c.seq}
	c.biz[id] = b
	c.record(b, Resolved, Created, "", now)
	return nil
}

// Started ends a successful start: the activation rule decides who is active.
func (c *Container) Started(id string, now time.Time) error {
	b, err := c.find(id, "starting", Resolved)
	if err != nil {
		return err
	}
	old := c.active(b.Name)
	switch {
	case old == nil || c.opts.Activation == ActivateMulti:
		c.activate(b, Started, "", now)
	case c.opts.Activation == ActivateNewModule:
		c.record(old, Deactivated, Switched, "switch to new biz "+id, now)
		c.activate(b, Started, "switch from old biz: "+old.ID(), now)
	default:
		c.record(b, Deactivated, Started, "start but is deactivated", now)
	}
	return nil
}

// StartFailed ends a failed start; trace is the stack trace. The biz is
// broken and then, unless the container keeps failed biz, removed.
func (c *Container) StartFailed(id, trace string, now time.Time) error {
	b, err := c.find(id, "failing", Resolved)
	if err != nil {
		return err
	}
	c.record(b, Broken, InstallFailed, trace, now)
	if !c.opts.KeepFailed {
		c.remove(b, now)
	}
	return nil
}

// Stopping begins an uninstall: an active biz takes no more traffic. It
// fails with ErrState while the biz starts.
func (c *Container) Stopping(id string, now time.Time) error {
	b, err := c.find(id, "stopping", Activated, Deactivated, Broken)
	if err != nil {
		return err
	}
	if b.State == Activated {
		c.record(b, Deactivated, Killing, "", now)
	}
	return nil
}

// Stopped ends an uninstall: the biz is gone.
func (c *Container) Stopped(id string, now time.Time) error {
	b, err := c.find(id, "removing", Deactivated, Broken)
	if err != nil {
		return err
	}
	c.remove(b, now)
	return nil
}

// StopFailed ends an uninstall whose stop handler threw: the biz is broken
// and then, unless the container keeps unstoppable biz, removed all the same.
func (c *Container) StopFailed(id string, now time.Time) error {
	b, err := c.find(id, "breaking", Deactivated, Broken)
	if err != nil {
		return err
	}
	c.record(b, Broken, UninstallFailed, "", now)
	if !c.opts.KeepUnstoppable {
		delete(c.biz, id)
		c.observe(b, Broken, Unresolved, UninstallFailed, "", now)
	}
	return nil
}

// Switch makes a deactivated version the active one of its name. Switching
// to the active version changes nothing; any other state is ErrState.
func (c *Container) Switch(id string, now time.Time) error {
	b, err := c.find(id, "switching to", Activated, Deactivated)
	if err != nil || b.State == Activated {
		return err
	}
	message := ""
	if old := c.active(b.Name); old != nil {
		c.record(old, Deactivated, Switched, "switch to new version "+id, now)
		message = "switch from old version: " + old.ID()
	}
	c.activate(b, Switched, message, now)
	return nil
}

func (c *Container) find(id, doing string, states ...State) (*Biz, error) {
	b := c.biz[id]
	switch {
	case b == nil:
		return nil, fmt.Errorf("%s biz %q: %w", doing, id, ErrNotFound)
	case !slices.Contains(states, b.State):
		return nil, fmt.Errorf("%s biz %q in state %s: %w", doing, id, b.State, ErrState)
	}
	return b, nil
}

// Get returns a copy of a biz.
func (c *Container) Get(id string) (Biz, bool) {
	b := c.biz[id]
	if b == nil {
		return Biz{}, false
	}
	return b.clone(), true
}

// List returns copies of all biz, ascending by priority and, within one, in
// order of registration.
func (c *Container) List() []Biz {
	out := make([]Biz, 0, len(c.biz))
	for _, b := range c.biz {
		out = append(out, b.clone())
	}
	slices.SortFunc(out, func(a, b Biz) int { return cmp.Or(a.Priority-b.Priority, cmp.Compare(a.seq, b.seq)) })
	return out
}

// Len is the number of registered biz.
func (c *Container) Len() int { return len(c.biz) }

// Versions returns the registered biz of one name, ordered as by List.
func (c *Container) Versions(name string) []Biz {
	return slices.DeleteFunc(c.List(), func(b Biz) bool { return b.Name != name })
}

// Serving returns the biz that answers requests under a web context path: the
// one of its active biz that was activated last.
func (c *Container) Serving(path string) (Biz, bool) {
	b := c.newestActive(func(b *Biz) bool { return b.WebContextPath == path })
	if b == nil {
		return Biz{}, false
	}
	return b.clone(), true
}

func (c *Container) active(name string) *Biz {
	return c.newestActive(func(b *Biz) bool { return b.Name == name })
}

// newestActive returns the active biz that was activated last of those that match; nil if there is none.
func (c *Container) newestActive(match func(*Biz) bool) (newest *Biz) {
	for _, b := range c.biz {
		if b.State == Activated && match(b) && (newest == nil || b.activated > newest.activated) {
			newest = b
		}
	}
	return newest
}

func (c *Container) activate(b *Biz, why Reason, message string, now time.Time) {
	c.seq++
	b.activated = c.seq
	c.record(b, Activated, why, message, now)
}

func (c *Container) remove(b *Biz, now time.Time) {
	delete(c.biz, b.ID())
	c.record(b, Stopped, Terminated, "", now)
}

func (c *Container) record(b *Biz, to State, why Reason, message string, now time.Time) {
	from := b.State
	b.State = to
	b.Records = append(b.Records, Record{ChangeTime: now, State: to, Reason: why, Message: message})
	c.observe(b, from, to, why, message, now)
}

func (c *Container) observe(b *Biz, from, to State, why Reason, message string, now time.Time) {
	if c.opts.Observe != nil {
		c.opts.Observe(Change{
			Name: b.Name, Version: b.Version, From: from, To: to,
			Reason: why, Message: message, Time: now,
		})
	}
}

// clone shares the history: records are only ever appended, and the copy's
// capacity ends where its records end.
func (b *Biz) clone() Biz {
	out := *b
	out.Records = slices.Clip(b.Records)
	return out
}
