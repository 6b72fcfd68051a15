package kubelet

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/redact"
)

// LogEntry is an entry in the log of a module. It is either an event of a command, or a state of the module.
type LogEntry struct {
	// At is the time of the entry. For a command, it is on the clock of the controller. For a state, it is on the
	// clock of the base, but not earlier than the command that caused the state; see clockSkew.
	At      time.Time
	Version string
	// Event is the event or the state, for example "installBiz sent".
	Event string
	// Detail contains details, such as an error message. It may be empty, or have several lines.
	Detail string
}

// line returns the entry in the format of kubectl logs, with a line feed at the end.
func (e LogEntry) line(biz string, timestamps bool) string {
	text := fmt.Sprintf("%s %s:%s %s", e.At.UTC().Format(api.LogTime), biz, e.Version, e.Event)
	if timestamps {
		text = e.At.UTC().Format(time.RFC3339Nano) + " " + text
	}
	if e.Detail != "" {
		text += ": " + strings.TrimRight(e.Detail, "\n")
	}
	return text + "\n"
}

func eventText(c arklet.Command, what string) string { return string(c) + " " + what }

// CommandSent returns the log entry for a command that is sent to a base.
func CommandSent(at time.Time, r arklet.Request) LogEntry {
	return LogEntry{At: at, Version: r.Module.Version, Event: eventText(r.Command, api.LogSent),
		Detail: redact.URL(r.Module.URL)}
}

// CommandAnswered returns the log entry for the answer to a command.
func CommandAnswered(at time.Time, r arklet.Request, a arklet.Answer) LogEntry {
	e := LogEntry{At: at, Version: r.Module.Version, Event: eventText(r.Command, api.LogAnswered), Detail: a.Code}
	for _, more := range []string{a.ErrorCode, a.Message, a.DataCode, a.DataMessage} {
		if more != "" && more != e.Detail && more != a.Code {
			e.Detail += " " + more
		}
	}
	return e
}

// CommandUnanswered returns the log entry for a command that got no answer.
func CommandUnanswered(at time.Time, r arklet.Request, err error) LogEntry {
	return LogEntry{At: at, Version: r.Module.Version, Event: eventText(r.Command, api.LogUnanswered),
		Detail: err.Error()}
}

// version is a version of a module in the module list of a base.
type version struct {
	state  arklet.State
	latest arklet.Record // last record, without its message to save memory
}

func withoutMessage(r arklet.Record) arklet.Record {
	r.Message = ""
	return r
}

// AddModuleStates adds entries for the changes in a module list: new state records, and versions that are no longer
// listed. names are the names of the modules that have changed, and at is the time of the list. It does not block.
func (l *EventLog) AddModuleStates(identity string, names []string, list []arklet.Biz, at time.Time) {
	byName := make(map[string][]arklet.Biz, len(names))
	for _, b := range list {
		if slices.Contains(names, b.Name) {
			byName[b.Name] = append(byName[b.Name], b)
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, name := range names {
		l.addModule(l.history(moduleKey{identity, name}), byName[name], at)
	}
}

// addModule adds entries for the versions of a module. The caller holds the lock.
func (l *EventLog) addModule(h *history, list []arklet.Biz, at time.Time) {
	before := h.listedVersions
	h.listedVersions = make(map[string]version, len(list))
	for _, b := range list {
		h.listedVersions[b.Version] = version{b.State, withoutMessage(b.Latest)}
		l.addStates(h, before[b.Version], b, at)
	}
	for _, name := range slices.Sorted(maps.Keys(before)) {
		if _, listed := h.listedVersions[name]; !listed {
			l.add(h, LogEntry{At: at, Version: name, Event: "is no longer installed"})
		}
	}
	l.grow(h, (len(h.listedVersions)-len(before))*versionCost)
}

// addStates adds entries for the new state records of a version. These are the records that follow the last known
// record.
func (l *EventLog) addStates(h *history, oldVersion version, b arklet.Biz, at time.Time) {
	records := b.Records
	if len(records) == 0 && b.Latest != (arklet.Record{}) {
		records = []arklet.Record{b.Latest}
	}
	for i := len(records) - 1; i >= 0; i-- {
		if withoutMessage(records[i]) == oldVersion.latest {
			records = records[i+1:]
			break
		}
	}
	if len(records) == 0 && b.State != oldVersion.state { // old bases report no records
		records = []arklet.Record{{State: b.State}}
	}
	for _, record := range records {
		e := LogEntry{At: record.At, Version: b.Version, Event: "is " + string(record.State),
			Detail: clip(strings.TrimSpace(record.Reason + " " + record.Message))}
		if e.At.IsZero() {
			e.At = at
		}
		if sent := h.lastSent(b.Version); sent.After(e.At) && sent.Sub(e.At) < clockSkew {
			e.At = sent
		}
		l.add(h, e)
	}
}

// clockSkew is the maximum clock difference between base and controller that is corrected. A state that appears to be
// earlier than the last command, by less than clockSkew, gets the time of the command.
const clockSkew = time.Second

// lastSent returns the time when the last command for a version was sent, or the zero time.
func (h *history) lastSent(version string) time.Time {
	for _, n := range slices.Backward(h.entries) {
		if n.Version == version && strings.HasSuffix(n.Event, " "+api.LogSent) {
			return n.At
		}
	}
	return time.Time{}
}
