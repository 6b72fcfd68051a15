package kubelet

import (
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/internal/arklet"
	"github.com/koupleless/koupsandbox/controller/redact"
)

// Entry is one thing that happened to a module on a base.
type Entry struct {
	// At is the time on the controller's clock. For a state, it is the time on the base's clock. A state is not
	// earlier than the command that led to it: bases report whole milliseconds, and clocks differ slightly.
	At time.Time
	// Version is the module's version; the module's name is where the entry is noted.
	Version string
	// Event says what happened, such as "installBiz sent".
	Event string
	// Detail says more, in one line or several; it may be empty.
	Detail string
}

// line is the entry as kubectl logs prints it. A detail of several lines, such as a stack trace,
// goes on below.
func (e Entry) line(b []byte, biz string, timestamps bool) []byte {
	if timestamps {
		b = e.At.UTC().AppendFormat(b, time.RFC3339Nano)
		b = append(b, ' ')
	}
	b = e.At.UTC().AppendFormat(b, api.LogTime)
	b = append(b, ' ')
	b = append(b, biz...)
	b = append(b, ':')
	b = append(b, e.Version...)
	b = append(b, ' ')
	b = append(b, e.Event...)
	if e.Detail != "" {
		b = append(b, ": "...)
		b = append(b, strings.TrimRight(e.Detail, "\n")...)
	}
	return append(b, '\n')
}

// event joins a command and what became of it. The usual ones are constants, so that noting them
// allocates nothing.
func event(c arklet.Command, what string) string {
	switch {
	case c == arklet.CommandInstallBiz && what == api.LogSent:
		return string(arklet.CommandInstallBiz) + " " + api.LogSent
	case c == arklet.CommandInstallBiz && what == api.LogAnswered:
		return string(arklet.CommandInstallBiz) + " " + api.LogAnswered
	case c == arklet.CommandUninstallBiz && what == api.LogSent:
		return string(arklet.CommandUninstallBiz) + " " + api.LogSent
	case c == arklet.CommandUninstallBiz && what == api.LogAnswered:
		return string(arklet.CommandUninstallBiz) + " " + api.LogAnswered
	}
	return string(c) + " " + what
}

// Asked is the entry for a command that is sent to a base.
func Asked(at time.Time, r arklet.Request) Entry {
	return Entry{At: at, Version: r.Module.Version, Event: event(r.Command, api.LogSent), Detail: redact.URL(r.Module.URL)}
}

// Answered is the entry for the answer to a command.
func Answered(at time.Time, r arklet.Request, a arklet.Answer) Entry {
	e := Entry{At: at, Version: r.Module.Version, Event: event(r.Command, api.LogAnswered), Detail: a.Code}
	for _, more := range []string{a.ErrorCode, a.Message, a.DataCode, a.DataMessage} {
		if more != "" && more != e.Detail && more != a.Code {
			e.Detail += " " + more
		}
	}
	return e
}

// Unanswered is the entry for a command that will have no answer, or that nobody waits for any
// longer.
func Unanswered(at time.Time, r arklet.Request, err error) Entry {
	return Entry{At: at, Version: r.Module.Version, Event: event(r.Command, api.LogUnanswered), Detail: err.Error()}
}

// version is what the journal knows of one version of a module on a base.
type version struct {
	version string
	state   arklet.State
	latest  arklet.Record // without its message, which may be a long stack trace
}

func withoutMessage(r arklet.Record) arklet.Record {
	r.Message = ""
	return r
}

// NoteModules notes what is new in a base's list of modules, of those with the names that changed:
// state records that were not seen yet, with the base's time, and versions that are listed no more.
// at is when the list came. It does not block. A list may be long: each of its modules is looked at
// once.
func (j *Journal) NoteModules(identity string, names []string, list []arklet.Biz, at time.Time) {
	byName := make(map[string][]arklet.Biz, len(names))
	for _, name := range names {
		byName[name] = nil
	}
	for _, b := range list {
		if of, changed := byName[b.Name]; changed {
			byName[b.Name] = append(of, b)
		}
	}
	j.mu.Lock()
	defer j.mu.Unlock()
	for _, name := range names {
		j.noteModule(j.ring(moduleKey{identity, name}), byName[name], at)
	}
}

// noteModule is called with the lock held; list has the versions of one module.
func (j *Journal) noteModule(r *ring, list []arklet.Biz, at time.Time) {
	before := r.known
	old := make(map[string]version, len(before))
	for _, v := range before {
		old[v.version] = v
	}
	r.known = make([]version, 0, len(list))
	for _, b := range list {
		r.known = append(r.known, version{b.Version, b.State, withoutMessage(b.Latest)})
		j.noteStates(r, old[b.Version], b, at)
		delete(old, b.Version)
	}
	for _, v := range before {
		if _, gone := old[v.version]; gone {
			j.note(r, Entry{At: at, Version: v.version, Event: "is no longer installed"})
		}
	}
	j.grow(r, knownCost(r.known)-knownCost(before))
}

// noteStates notes the records of a module after the last one known.
func (j *Journal) noteStates(r *ring, old version, b arklet.Biz, at time.Time) {
	records := b.Records
	if len(records) == 0 && b.Latest != (arklet.Record{}) {
		records = []arklet.Record{b.Latest}
	}
	for i := len(records) - 1; i >= 0; i-- {
		if withoutMessage(records[i]) == old.latest {
			records = records[i+1:]
			break
		}
	}
	if len(records) == 0 && b.State != old.state { // a base of an old generation tells no records
		records = []arklet.Record{{State: b.State}}
	}
	for _, record := range records {
		e := Entry{At: record.At, Version: b.Version, Event: "is " + string(record.State), Detail: clip(strings.TrimSpace(record.Reason + " " + record.Message))}
		if e.At.IsZero() {
			e.At = at
		}
		if sent := r.lastSent(b.Version); sent.After(e.At) && sent.Sub(e.At) < clockSkew {
			e.At = sent
		}
		j.note(r, e)
	}
}

// clockSkew is the maximum clock difference that is corrected. A state dated less than clockSkew before the
// preceding command gets the time of that command.
const clockSkew = time.Second

// lastSent returns when the last command for a version was sent; zero if there is none.
func (r *ring) lastSent(version string) time.Time {
	for i := len(r.entries) - 1; i >= 0; i-- {
		if n := r.entries[(r.oldest+i)%len(r.entries)]; n.Version == version && strings.HasSuffix(n.Event, " "+api.LogSent) {
			return n.At
		}
	}
	return time.Time{}
}
