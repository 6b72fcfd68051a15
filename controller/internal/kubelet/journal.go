package kubelet

import (
	"container/list"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/koupleless/koupsandbox/controller/redact"
)

// Bounds of a Journal.
const (
	// maxEntries is the maximum number of entries of a module.
	maxEntries = 200
	// maxDetail is the maximum size of a detail in bytes: it has room for the beginning of a stack trace.
	maxDetail = 4 << 10
	// maxSize is the maximum size in bytes: enough for 2,000 modules with 200 usual entries each.
	maxSize = 32 << 20
	// The estimated sizes of an entry and of a module, without text, and of a version.
	entryCost   = 96
	historyCost = 512
	versionCost = 256
)

// Journal has the last events of modules on bases. Beyond 32 MiB, it forgets the modules that have had no event for the longest
// time. It may be used concurrently.
type Journal struct {
	limit int // maxSize, except in tests

	mu        sync.Mutex
	histories map[moduleKey]*history
	byUse     *list.List // of *history, the last used first
	size      int
	last      uint64
}

// moduleKey is a module on a base, in any version.
type moduleKey struct{ identity, biz string }

type history struct {
	key     moduleKey
	use     *list.Element
	entries []numbered
	size    int
	known   map[string]version // that the base has listed last, by version
}

type numbered struct {
	Entry
	number uint64 // increases over all modules
	noted  time.Time
}

// NewJournal returns an empty journal.
func NewJournal() *Journal {
	return &Journal{limit: maxSize, histories: map[moduleKey]*history{}, byUse: list.New()}
}

// Note adds an entry for a module on a base. It does not block. It removes credentials from URLs in the detail, and cuts a
// detail of more than 4 KiB.
func (j *Journal) Note(identity, biz string, e Entry) {
	e.Detail = clip(e.Detail)
	j.mu.Lock()
	defer j.mu.Unlock()
	j.note(j.history(moduleKey{identity, biz}), e)
}

// history is called with the lock held, as are note and grow.
func (j *Journal) history(key moduleKey) *history {
	h, there := j.histories[key]
	if !there {
		h = &history{key: key}
		h.use = j.byUse.PushFront(h)
		j.histories[key] = h
		j.grow(h, historyCost+len(key.identity)+len(key.biz))
	}
	j.byUse.MoveToFront(h.use)
	return h
}

func (j *Journal) note(h *history, e Entry) {
	j.last++
	grown := cost(e)
	if len(h.entries) == maxEntries {
		grown -= cost(h.entries[0].Entry)
		h.entries = slices.Delete(h.entries, 0, 1)
	}
	h.entries = append(h.entries, numbered{e, j.last, time.Now()})
	j.grow(h, grown)
}

// grow records the size of a module, and removes others until the journal has its maximum size.
func (j *Journal) grow(h *history, by int) {
	h.size += by
	j.size += by
	for j.size > j.limit && j.byUse.Len() > 1 {
		oldest := j.byUse.Remove(j.byUse.Back()).(*history)
		delete(j.histories, oldest.key)
		j.size -= oldest.size
	}
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
func (j *Journal) present(key moduleKey, of share) (entries []Entry) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h, there := j.histories[key]
	if !there {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(h.known)) {
		if v := h.known[name]; of.has(name) {
			entries = append(entries,
				Entry{At: v.latest.At, Version: name, Event: "is " + string(v.state),
					Detail: strings.TrimSpace(v.latest.Reason + " (before this Pod)")})
		}
	}
	return entries
}

// since returns the entries of a module that belong to a Pod and have a higher number, in the order in which they
// were recorded, and the number of the last entry of the module.
func (j *Journal) since(key moduleKey, number uint64, of share) (entries []Entry, last uint64) {
	j.mu.Lock()
	defer j.mu.Unlock()
	h, there := j.histories[key]
	if !there {
		return nil, number
	}
	for _, n := range h.entries {
		if n.number <= number {
			continue
		}
		number = n.number
		if !n.noted.Before(of.from) && of.has(n.Version) {
			entries = append(entries, n.Entry)
		}
	}
	return entries, number
}

// inOrder sorts entries by time. The states are recorded later than they occur on the base.
func inOrder(entries []Entry) {
	slices.SortStableFunc(entries, func(a, b Entry) int { return a.At.Compare(b.At) })
}

func cost(e Entry) int { return entryCost + len(e.Version) + len(e.Event) + len(e.Detail) }

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
