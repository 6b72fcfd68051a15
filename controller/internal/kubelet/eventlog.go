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

// Bounds of a EventLog.
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

// EventLog has the last events of modules on bases. Beyond 32 MiB, it forgets the modules that have had no event for the longest
// time. It may be used concurrently.
type EventLog struct {
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
	LogEntry
	number uint64 // increases over all modules
	noted  time.Time
}

// NewEventLog returns an empty log.
func NewEventLog() *EventLog {
	return &EventLog{limit: maxSize, histories: map[moduleKey]*history{}, byUse: list.New()}
}

// Add adds an entry for a module on a base. It does not block. It removes credentials from URLs in the detail, and cuts a
// detail of more than 4 KiB.
func (l *EventLog) Add(identity, biz string, e LogEntry) {
	e.Detail = clip(e.Detail)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(l.history(moduleKey{identity, biz}), e)
}

// history is called with the lock held, as are add and grow.
func (l *EventLog) history(key moduleKey) *history {
	h, there := l.histories[key]
	if !there {
		h = &history{key: key}
		h.use = l.byUse.PushFront(h)
		l.histories[key] = h
		l.grow(h, historyCost+len(key.identity)+len(key.biz))
	}
	l.byUse.MoveToFront(h.use)
	return h
}

func (l *EventLog) add(h *history, e LogEntry) {
	l.last++
	grown := cost(e)
	if len(h.entries) == maxEntries {
		grown -= cost(h.entries[0].LogEntry)
		h.entries = slices.Delete(h.entries, 0, 1)
	}
	h.entries = append(h.entries, numbered{e, l.last, time.Now()})
	l.grow(h, grown)
}

// grow records the size of a module, and removes others until the log has its maximum size.
func (l *EventLog) grow(h *history, by int) {
	h.size += by
	l.size += by
	for l.size > l.limit && l.byUse.Len() > 1 {
		oldest := l.byUse.Remove(l.byUse.Back()).(*history)
		delete(l.histories, oldest.key)
		l.size -= oldest.size
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
func (l *EventLog) present(key moduleKey, of share) (entries []LogEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, there := l.histories[key]
	if !there {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(h.known)) {
		if v := h.known[name]; of.has(name) {
			entries = append(entries,
				LogEntry{At: v.latest.At, Version: name, Event: "is " + string(v.state),
					Detail: strings.TrimSpace(v.latest.Reason + " (before this Pod)")})
		}
	}
	return entries
}

// since returns the entries of a module that belong to a Pod and have a higher number, in the order in which they
// were recorded, and the number of the last entry of the module.
func (l *EventLog) since(key moduleKey, number uint64, of share) (entries []LogEntry, last uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, there := l.histories[key]
	if !there {
		return nil, number
	}
	for _, n := range h.entries {
		if n.number <= number {
			continue
		}
		number = n.number
		if !n.noted.Before(of.from) && of.has(n.Version) {
			entries = append(entries, n.LogEntry)
		}
	}
	return entries, number
}

// inOrder sorts entries by time. The states are recorded later than they occur on the base.
func inOrder(entries []LogEntry) {
	slices.SortStableFunc(entries, func(a, b LogEntry) int { return a.At.Compare(b.At) })
}

func cost(e LogEntry) int { return entryCost + len(e.Version) + len(e.Event) + len(e.Detail) }

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
