package fleet

import (
	"fmt"
	"maps"
	"slices"
)

// Count returns the number of own bases and of bases in groups, and how many of each are connected.
func (f *Fleet) Count() (c Counts) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.members {
		total, connected := &c.Own, &c.OwnConnected
		if m.Group != "" {
			total, connected = &c.Groups, &c.GroupsConnected
		}
		*total++
		if m.online {
			*connected++
		}
	}
	return c
}

// Counts is the result of Count.
type Counts struct {
	Own, OwnConnected       int
	Groups, GroupsConnected int
}

// SetCounts returns the number of own bases in each own set, by set name.
func (f *Fleet) SetCounts() map[string]int {
	counts := map[string]int{}
	for _, m := range f.Group("") {
		counts[m.Set]++
	}
	return counts
}

// List returns all bases, oldest first.
func (f *Fleet) List() []*Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.members)
}

// Group returns the bases of a group, oldest first. The empty name selects the fleet's own bases.
func (f *Fleet) Group(name string) []*Member {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.group(name)
}

// group implements Group. The caller holds f.mu.
func (f *Fleet) group(name string) []*Member {
	return slices.DeleteFunc(slices.Clone(f.members), func(m *Member) bool { return m.Group != name })
}

// Generation returns a number that increases when bases are added or removed, and when base processes start.
func (f *Fleet) Generation() uint64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.changes
}

// Changed returns a channel that is closed when the bases, their processes or their connections change.
func (f *Fleet) Changed() <-chan struct{} {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.change
}

// ByIP returns the base with the given address, including a base that is being removed.
func (f *Fleet) ByIP(ip string) (*Member, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	m, ok := f.byIP[ip]
	return m, ok
}

// ByIdentity returns the base whose current process has the given identity.
func (f *Fleet) ByIdentity(identity string) (*Member, bool) {
	all := f.List()
	i := slices.IndexFunc(all, func(m *Member) bool { return m.Base.Identity() == identity })
	if i < 0 {
		return nil, false
	}
	return all[i], true
}

// Connected reports whether a base is connected. A base with the MQTT tunnel is connected if it is connected to the
// broker, and a base with the HTTP tunnel if its last heartbeat succeeded.
func (f *Fleet) Connected(m *Member) bool {
	connected, _ := f.connected(m)
	return connected
}

func (f *Fleet) connected(m *Member) (connected, started bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return m.online, m.processes > 0
}

// Failure returns the error with which a base failed, or nil if the base has not failed.
func (f *Fleet) Failure(m *Member) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return m.failure
}

// StartedIdentities returns the identities of all base processes that were ever started.
func (f *Fleet) StartedIdentities() map[string]bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return maps.Clone(f.known)
}

// Started reports whether the fleet has ever started a base process with the given identity.
func (f *Fleet) Started(identity string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.known[identity]
}

// RemovedIdentities returns the identities of the fleet's own bases that have been removed.
func (f *Fleet) RemovedIdentities() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Clone(f.removed)
}

// IdentitiesOf returns the identities of all current and earlier processes of the given bases.
func (f *Fleet) IdentitiesOf(members []*Member) []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []string
	for _, m := range members {
		all = append(all, m.identities...)
	}
	return all
}

// Find returns the base with the given identity, host name or address.
func (f *Fleet) Find(name string) (*Member, error) {
	found, err := f.resolve([]string{name})
	if err != nil {
		return nil, err
	}
	return found[0], nil
}

func (f *Fleet) resolve(names []string) ([]*Member, error) {
	known := map[string]*Member{}
	for _, m := range f.List() {
		known[m.HostName], known[m.IP()], known[m.Base.Identity()] = m, m, m
	}
	found := make([]*Member, 0, len(names))
	for _, name := range names {
		m, ok := known[name]
		if !ok {
			return nil, fmt.Errorf("base %q: %w; list the bases with: koupsandbox base list", name, ErrUnknown)
		}
		found = append(found, m)
	}
	return found, nil
}
