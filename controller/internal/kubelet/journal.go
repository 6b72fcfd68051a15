package kubelet

import (
	"container/list"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/koupleless/koupsandbox/controller/redact"
)

// Bounds of a Journal.
const (
	// maxEntries is how much of one module's life is kept: dozens of installs.
	maxEntries = 200
	// maxDetail is the longest detail in bytes, room for the part of a stack trace that tells.
	maxDetail = 4 << 10
	// DefaultJournalSize is 32 MiB: 2,000 modules with 200 entries of usual length.
	DefaultJournalSize = 32 << 20
	// entryCost and ringCost are what an entry and a module take beside text.
	entryCost   = 96
	ringCost    = 512
	versionCost = 128
)

// Journal remembers what happened to modules on bases: the last 200 entries of each, and of all
// together so many that they fit its size; the modules that nothing happened to for longest are
// forgotten first. It may be used concurrently.
type Journal struct {
	limit int

	mu      sync.Mutex
	rings   map[moduleKey]*ring
	byUse   *list.List // of *ring, the one noted last in front
	size    int
	last    uint64
	waiting map[moduleKey]chan struct{} // closed at the next entry
}

// moduleKey is a module on a base, in whatever version.
type moduleKey struct{ identity, biz string }

type ring struct {
	key     moduleKey
	use     *list.Element
	entries []numbered // a ring once it is full
	oldest  int
	size    int
	known   []version
}

type numbered struct {
	Entry
	number uint64 // rises over all modules
	noted  time.Time
}

// NewJournal returns an empty journal of so many bytes; 0 means DefaultJournalSize.
func NewJournal(size int) *Journal {
	if size == 0 {
		size = DefaultJournalSize
	}
	return &Journal{limit: size, rings: map[moduleKey]*ring{}, byUse: list.New(), waiting: map[moduleKey]chan struct{}{}}
}

// Note adds an entry to the life of a module on a base. It does not block. A detail of more than 4 KiB
// is cut, and URLs in it lose their credentials.
func (j *Journal) Note(identity, biz string, e Entry) {
	e.Detail = clip(e.Detail)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.note(j.ring(moduleKey{identity, biz}), e)
}

// ring is called with the lock held, as are note, grow and forget.
func (j *Journal) ring(p moduleKey) *ring {
	r, there := j.rings[p]
	if !there {
		r = &ring{key: p}
		r.use = j.byUse.PushFront(r)
		j.rings[p] = r
		j.grow(r, ringCost+len(p.identity)+len(p.biz))
	}
	j.byUse.MoveToFront(r.use)
	return r
}

func (j *Journal) note(r *ring, e Entry) {
	j.last++
	n := numbered{e, j.last, time.Now()}
	grown := cost(e)
	if len(r.entries) < maxEntries {
		r.entries = append(r.entries, n)
	} else {
		grown -= cost(r.entries[r.oldest].Entry)
		r.entries[r.oldest] = n
		r.oldest = (r.oldest + 1) % maxEntries
	}
	j.grow(r, grown)
	if c, waits := j.waiting[r.key]; waits {
		delete(j.waiting, r.key)
		close(c)
	}
}

// grow counts what a module takes more, and makes room for it.
func (j *Journal) grow(r *ring, by int) {
	r.size += by
	j.size += by
	for j.size > j.limit && j.byUse.Len() > 1 {
		j.forget(j.byUse.Back().Value.(*ring))
	}
}

func (j *Journal) forget(r *ring) {
	j.byUse.Remove(r.use)
	delete(j.rings, r.key)
	j.size -= r.size
}

// share selects the part of a module's history that belongs to one Pod.
type share struct {
	// from is the time at which the controller first saw the Pod on the base. The zero time includes all entries.
	from time.Time
	// versions are the versions that the Pod has requested; nil includes all versions.
	versions []string
}

func (s share) has(version string) bool {
	return s.versions == nil || slices.Contains(s.versions, version)
}

// present returns the current state of a Pod's module, for a Pod whose module has no entries yet. The result is
// empty if the base does not list the module.
func (j *Journal) present(p moduleKey, of share) (entries []Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if r, there := j.rings[p]; there {
		for _, v := range r.known {
			if of.has(v.version) {
				entries = append(entries, Entry{At: v.latest.At, Version: v.version, Event: "is " + string(v.state), Detail: strings.TrimSpace(v.latest.Reason + " (before this Pod)")})
			}
		}
	}
	return entries
}

// since returns the entries of a module that belong to a Pod and have a higher number, in the order in which they
// were recorded, the number of the last entry of the module, and a channel that is closed at the next entry. The
// caller must call stopWaiting when it no longer waits.
func (j *Journal) since(p moduleKey, number uint64, of share) (entries []Entry, last uint64, next <-chan struct{}) {
	j.mu.Lock()
	defer j.mu.Unlock()
	last = number
	if r, there := j.rings[p]; there {
		for i := range r.entries {
			n := r.entries[(r.oldest+i)%len(r.entries)]
			if n.number <= number {
				continue
			}
			last = n.number
			if !n.noted.Before(of.from) && of.has(n.Version) {
				entries = append(entries, n.Entry)
			}
		}
	}
	if j.waiting[p] == nil {
		j.waiting[p] = make(chan struct{})
	}
	return entries, last, j.waiting[p]
}

// stopWaiting wakes whoever waits for a module, so that a module that never has an entry leaves
// nothing behind. Those that go on ask again.
func (j *Journal) stopWaiting(p moduleKey) {
	j.mu.Lock()
	defer j.mu.Unlock()
	if c, waits := j.waiting[p]; waits {
		delete(j.waiting, p)
		close(c)
	}
}

// inOrder sorts entries by time: a state's time is the base's, and it is noted only when the base
// is next asked.
func inOrder(entries []Entry) {
	slices.SortStableFunc(entries, func(a, b Entry) int { return a.At.Compare(b.At) })
}

// after drops entries from before a moment; the zero moment drops none.
func after(entries []Entry, moment time.Time) []Entry {
	return slices.DeleteFunc(entries, func(e Entry) bool { return e.At.Before(moment) })
}

func cost(e Entry) int { return entryCost + len(e.Version) + len(e.Event) + len(e.Detail) }

func knownCost(known []version) (n int) {
	for _, v := range known {
		n += versionCost + len(v.version) + len(v.latest.Reason)
	}
	return n
}

// clip removes credentials from a text and shortens it. It does not keep the long text in memory.
func clip(s string) string {
	s = redact.Text(s)
	if len(s) <= maxDetail {
		return s
	}
	end := maxDetail
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return strings.Clone(s[:end]) + " …"
}
