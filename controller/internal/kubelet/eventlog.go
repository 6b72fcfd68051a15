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

// Limits of the size of an EventLog.
const (
	// maxEntries is the maximum number of entries for a module.
	maxEntries = 200
	// maxDetail is the maximum size of the detail of an entry in bytes. It is enough for the beginning of a stack
	// trace.
	maxDetail = 4 << 10
	// maxSize is the maximum size of the log in bytes. It is enough for 2,000 modules with 200 typical entries each.
	maxSize = 32 << 20
	// entryCost, historyCost and versionCost are the estimated sizes in bytes of an entry without its texts, of a
	// module without its texts, and of a version.
	entryCost   = 96
	historyCost = 512
	versionCost = 256
)

// EventLog contains the latest events of modules on bases. When the log exceeds 32 MiB, it removes the modules whose
// last event is the oldest. The methods are safe for concurrent use.
type EventLog struct {
	limit int // maxSize, unless a test sets a smaller limit

	mu        sync.Mutex
	histories map[moduleKey]*history
	byUse     *list.List // *history elements, the most recently used first
	size      int
	last      uint64
}

// moduleKey identifies a module on a base, regardless of its version.
type moduleKey struct{ identity, biz string }

type history struct {
	key            moduleKey
	lruElement     *list.Element
	entries        []numbered
	size           int
	listedVersions map[string]version // versions in the last module list of the base
}

type numbered struct {
	LogEntry
	number uint64 // number of the entry; increases across all modules
	added  time.Time
}

// NewEventLog returns an empty EventLog.
func NewEventLog() *EventLog {
	return &EventLog{limit: maxSize, histories: map[moduleKey]*history{}, byUse: list.New()}
}

// Add adds an entry to the log of a module on a base. It removes credentials from URLs in the detail, and truncates
// the detail to 4 KiB. It does not block.
func (l *EventLog) Add(identity, biz string, e LogEntry) {
	e.Detail = clip(e.Detail)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.add(l.history(moduleKey{identity, biz}), e)
}

// history returns the history of a module, and creates the history if necessary. The caller holds the lock.
func (l *EventLog) history(key moduleKey) *history {
	h, there := l.histories[key]
	if !there {
		h = &history{key: key}
		h.lruElement = l.byUse.PushFront(h)
		l.histories[key] = h
		l.grow(h, historyCost+len(key.identity)+len(key.biz))
	}
	l.byUse.MoveToFront(h.lruElement)
	return h
}

func (l *EventLog) add(h *history, e LogEntry) {
	l.last++
	grown := sizeOf(e)
	if len(h.entries) == maxEntries {
		grown -= sizeOf(h.entries[0].LogEntry)
		h.entries = slices.Delete(h.entries, 0, 1)
	}
	h.entries = append(h.entries, numbered{e, l.last, time.Now()})
	l.grow(h, grown)
}

// grow adds growth to the recorded size of the log of a module. It then removes other modules until the EventLog does
// not exceed its maximum size. The caller holds the lock.
func (l *EventLog) grow(h *history, growth int) {
	h.size += growth
	l.size += growth
	for l.size > l.limit && l.byUse.Len() > 1 {
		oldest := l.byUse.Remove(l.byUse.Back()).(*history)
		delete(l.histories, oldest.key)
		l.size -= oldest.size
	}
}

// podEntries selects the log entries of a module that belong to one Pod.
type podEntries struct {
	// from is the time when the controller first saw the Pod on the base. The zero time selects all entries.
	from time.Time
	// versions are the versions that the Pod has requested; nil selects all versions.
	versions []string
}

func (s podEntries) includesVersion(version string) bool {
	return s.versions == nil || slices.Contains(s.versions, version)
}

// currentEntries returns entries that describe the current state of a module, for a Pod that has no log entries yet.
// The result is empty if the module list of the base does not contain the module.
func (l *EventLog) currentEntries(key moduleKey, of podEntries) (entries []LogEntry) {
	l.mu.Lock()
	defer l.mu.Unlock()
	h, there := l.histories[key]
	if !there {
		return nil
	}
	for _, name := range slices.Sorted(maps.Keys(h.listedVersions)) {
		if v := h.listedVersions[name]; of.includesVersion(name) {
			entries = append(entries,
				LogEntry{At: v.latest.At, Version: name, Event: "is " + string(v.state),
					Detail: strings.TrimSpace(v.latest.Reason + " (before this Pod)")})
		}
	}
	return entries
}

// entriesAfter returns the entries of a module that belong to a Pod and whose numbers are higher than number, in the
// order in which they were added. last is the number of the last entry of the module, even if this entry does not
// belong to the Pod; it is number if no entry has a higher number.
func (l *EventLog) entriesAfter(key moduleKey, number uint64, of podEntries) (entries []LogEntry, last uint64) {
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
		if !n.added.Before(of.from) && of.includesVersion(n.Version) {
			entries = append(entries, n.LogEntry)
		}
	}
	return entries, number
}

// sortByTime sorts entries by time. Entries for states can be out of order, because states are added later than they
// occur on the base.
func sortByTime(entries []LogEntry) {
	slices.SortStableFunc(entries, func(a, b LogEntry) int { return a.At.Compare(b.At) })
}

func sizeOf(e LogEntry) int { return entryCost + len(e.Version) + len(e.Event) + len(e.Detail) }

// clip removes credentials from a text and truncates the text. The result is a copy, so that the long text is not
// kept in memory.
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
