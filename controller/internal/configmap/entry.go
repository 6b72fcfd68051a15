package configmap

import (
	"strings"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/koupleless/koupsandbox/controller/internal/arklet"
)

// entry is what is known of one ConfigMap. The resolver's lock guards it.
type entry struct {
	values map[string]*string // of the keys that were asked for; nil = it has none, or was not read
	err    error              // of the last read
	read   time.Time          // when that began; zero = never
	asked  time.Time          // when somebody asked last
	due    time.Time          // when to read next; zero = not at all
	failed int                // reads in vain, in a row
}

// note takes what a read brought. A key that is missing, or whose value cannot be a part of a version, is read
// again after growing pauses.
func (e *entry) note(data map[string]string, err error, began time.Time) {
	e.read, e.err, e.due = began, err, time.Time{}
	complete := err == nil
	for key := range e.values {
		e.values[key] = nil
		if value, there := data[key]; there {
			value = strings.Clone(value[:min(len(value), arklet.MaxName+1)]) // Check refuses it
			e.values[key] = &value
			complete = complete && usable(value)
		} else {
			complete = false
		}
	}
	if complete {
		e.failed = 0
		return
	}
	e.due = time.Now().Add(min(time.Second<<min(e.failed, 6), time.Minute))
	e.failed++
}

// usable reports whether a value can be a part of a version.
func usable(value string) bool {
	return value != "" && len(value) <= arklet.MaxName && arklet.Printable(value) && !strings.Contains(value, " ")
}

// idle is how long the resolver waits if nothing is to be read.
const idle = time.Hour

// next returns a ConfigMap that is to be read now, or how long to wait for one. One that failed and
// that nobody has asked for since is forgotten instead.
func (r *Resolver) next(now time.Time) (types.NamespacedName, time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	wait := idle
	for name, e := range r.entries {
		left := e.due.Sub(now)
		switch {
		case e.due.IsZero():
		case left > 0:
			wait = min(wait, left)
		case e.failed > 0 && e.asked.Before(e.read):
			delete(r.entries, name)
		default:
			return name, 0
		}
	}
	return types.NamespacedName{}, wait
}

// makeRoom forgets what nobody has asked for the longest. It is called with the lock held.
func (r *Resolver) makeRoom() {
	for len(r.entries) >= r.o.Keep {
		var oldest types.NamespacedName
		var since time.Time
		for name, e := range r.entries {
			if since.IsZero() || e.asked.Before(since) {
				oldest, since = name, e.asked
			}
		}
		delete(r.entries, oldest)
	}
}
