package ark

import (
	"cmp"
	"fmt"
	"slices"
	"time"
)

// Options configures a Container.
type Options struct {
	// Activation is the rule for a version that starts while another version is active. Default: ActivateDefault.
	Activation Activation
	// KeepFailed keeps a biz that failed to start in the container, in the state Broken, like
	// sofa.ark.auto.uninstall.when.failed.enable=false. Default: the biz is removed.
	KeepFailed bool
	// KeepUnstoppable keeps a biz that failed to stop in the container, in the state Broken, like
	// sofa.ark.remove.biz.instance.when.stop.failed.enable=false. Default: the biz is removed.
	KeepUnstoppable bool
	// Observe is called for each state change, in order. Default: no function is called.
	Observe func(StateChange)
}

// Container holds the registered biz of one base process. It is not safe for concurrent use.
type Container struct {
	opts Options
	biz  map[string]*Biz
	seq  uint64
}

// NewContainer returns an empty container.
func NewContainer(opts Options) *Container {
	return &Container{opts: opts, biz: map[string]*Biz{}}
}

// Register adds a biz in the state Resolved. It returns ErrRegistered if a biz with the same identity is registered.
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

// Started completes the successful start of a biz. The activation rule decides which version is active.
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

// StartFailed completes the failed start of a biz. The biz becomes Broken, and is then removed unless KeepFailed is
// set. trace is the Java stack trace.
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

// Stopping begins to uninstall a biz. An active biz is deactivated first. Stopping returns ErrState while the biz is
// starting.
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

// Stopped completes the uninstallation of a biz and removes the biz.
func (c *Container) Stopped(id string, now time.Time) error {
	b, err := c.find(id, "removing", Deactivated, Broken)
	if err != nil {
		return err
	}
	c.remove(b, now)
	return nil
}

// StopFailed completes an uninstallation in which the stop handler failed. The biz becomes Broken, and is then
// removed unless KeepUnstoppable is set.
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

// Switch activates a deactivated version and deactivates the active version of the same module. It has no effect on a
// version that is already active. It returns ErrState if the version is in any other state.
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

func (c *Container) find(id, operation string, states ...State) (*Biz, error) {
	b := c.biz[id]
	switch {
	case b == nil:
		return nil, fmt.Errorf("%s biz %q: %w", operation, id, ErrNotFound)
	case !slices.Contains(states, b.State):
		return nil, fmt.Errorf("%s biz %q in state %s: %w", operation, id, b.State, ErrState)
	}
	return b, nil
}

// Get returns a copy of the biz with an identity, or false if no such biz is registered.
func (c *Container) Get(id string) (Biz, bool) {
	b := c.biz[id]
	if b == nil {
		return Biz{}, false
	}
	return b.clone(), true
}

// List returns copies of all biz, sorted by ascending priority and then by registration order.
func (c *Container) List() []Biz {
	out := make([]Biz, 0, len(c.biz))
	for _, b := range c.biz {
		out = append(out, b.clone())
	}
	slices.SortFunc(out, func(a, b Biz) int { return cmp.Or(a.Priority-b.Priority, cmp.Compare(a.seq, b.seq)) })
	return out
}

// Len returns the number of registered biz.
func (c *Container) Len() int { return len(c.biz) }

// Versions returns all registered biz with the given name, in the order of List; empty if there are none.
func (c *Container) Versions(name string) []Biz {
	return slices.DeleteFunc(c.List(), func(b Biz) bool { return b.Name != name })
}

// Serving returns the biz that serves a web context path. If several active biz have this path, it returns the one
// that was activated last. It returns false if no active biz has this path.
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

// newestActive returns the matching active biz that was activated last. It returns nil if no active biz matches.
func (c *Container) newestActive(match func(*Biz) bool) (newest *Biz) {
	for _, b := range c.biz {
		if b.State == Activated && match(b) && (newest == nil || b.activated > newest.activated) {
			newest = b
		}
	}
	return newest
}

func (c *Container) activate(b *Biz, reason Reason, message string, now time.Time) {
	c.seq++
	b.activated = c.seq
	c.record(b, Activated, reason, message, now)
}

func (c *Container) remove(b *Biz, now time.Time) {
	delete(c.biz, b.ID())
	c.record(b, Stopped, Terminated, "", now)
}

func (c *Container) record(b *Biz, to State, reason Reason, message string, now time.Time) {
	from := b.State
	b.State = to
	b.Records = append(b.Records, Record{ChangeTime: now, State: to, Reason: reason, Message: message})
	c.observe(b, from, to, reason, message, now)
}

func (c *Container) observe(b *Biz, from, to State, reason Reason, message string, now time.Time) {
	if c.opts.Observe != nil {
		c.opts.Observe(StateChange{
			Name: b.Name, Version: b.Version, From: from, To: to,
			Reason: reason, Message: message, Time: now,
		})
	}
}

// clone returns a copy of b that shares its history. Records are only appended, and slices.Clip makes each append
// allocate a new array, so the copy and b do not affect each other.
func (b *Biz) clone() Biz {
	out := *b
	out.Records = slices.Clip(b.Records)
	return out
}
