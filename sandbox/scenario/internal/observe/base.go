package observe

import (
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/internal/control"
	"github.com/koupleless/koupsandbox/sandbox/internal/traffic"
	"github.com/koupleless/koupsandbox/sandbox/timeline"
)

// The states of a base in events.
const (
	baseUp           = "up"
	baseReady        = "ready"
	baseDown         = "down"
	baseConnected    = "connected"
	baseDisconnected = "disconnected"
	baseRemoved      = "removed"
)

// nodePrefix begins the name of a base's Node; its identity follows.
const nodePrefix = "vnode."

// Base is a base of the run, as last told.
type Base struct {
	// Name is SET-N.
	Name, Set string
	Index     int
	// Identity of its process, Version that it reports.
	Identity, Version         string
	Running, Connected, Ready bool
	// Modules are the states by name and version.
	Modules map[timeline.ModuleRef]string
}

// Know adds what the daemon says of bases that it has started.
func (w *World) Know(bases ...control.Base) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range bases {
		b := w.base(w.shortName(c.HostName))
		b.Set, b.Index, b.Version = c.Set, c.Index, c.Version
		b.Running, b.Ready, b.Connected = c.Running || b.Running, c.Ready || b.Ready, c.Connected || b.Connected
		w.identify(b, c.Identity)
	}
	w.changed(topicBases, "bases were added")
}

// Forget takes bases, as SET-N, out of what is.
func (w *World) Forget(names ...string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, name := range names {
		delete(w.bases, name)
	}
	w.changed(topicBases, "bases were removed")
}

// Bases returns the bases that there are, by name.
func (v View) Bases() map[string]Base {
	all := make(map[string]Base, len(v.w.bases))
	for name, b := range v.w.bases {
		all[name] = *b
	}
	return all
}

// shortName is SET-N for GROUP-SET-N.
func (w *World) shortName(host string) string { return strings.TrimPrefix(host, w.o.Group+"-") }

// base returns the base of a name, which becomes known. w.mu is held.
func (w *World) base(name string) *Base {
	b := w.bases[name]
	if b == nil {
		b = &Base{Name: name, Modules: map[timeline.ModuleRef]string{}}
		if cut := strings.LastIndex(name, "-"); cut > 0 {
			b.Set = name[:cut]
			if n, err := strconv.Atoi(name[cut+1:]); err == nil {
				b.Index = n
			}
		}
		w.bases[name] = b
	}
	return b
}

func (w *World) identify(b *Base, identity string) {
	if identity == "" {
		return
	}
	b.Identity = identity
	w.hosts[nodePrefix+identity] = b.Name // before its Node is seen
}

// noteBase takes an event of a base or of a module on it. w.mu is held.
func (w *World) noteBase(e timeline.Event) {
	if e.Base == "" {
		return
	}
	known := w.bases[e.Base]
	if known == nil && (e.Kind == timeline.Module || e.State == baseDown || e.State == baseDisconnected) {
		return // the last words of a base that was removed
	}
	if e.Kind == timeline.Base && e.State == baseRemoved {
		delete(w.bases, e.Base)
		return
	}
	b := w.base(e.Base)
	w.identify(b, e.Identity)
	if e.Kind == timeline.Module {
		m := timeline.ModuleRef{Name: e.Module, Version: e.Version}
		if e.State == "" || e.State == stopped {
			delete(b.Modules, m)
		} else {
			b.Modules[m] = e.State
		}
		return
	}
	switch e.State {
	case baseUp:
		b.Running, b.Ready = true, false
	case baseReady:
		b.Running, b.Ready = true, true
	case baseConnected:
		b.Connected = true
	case baseDisconnected:
		b.Connected = false
	case baseDown:
		b.Running, b.Ready, b.Connected = false, false, false
		clear(b.Modules)
	}
}

// noteLost counts a lost request. w.mu is held.
func (w *World) noteLost(e timeline.Event) {
	if w.lost[e.Name] == nil {
		w.lost[e.Name] = map[traffic.Result]int{}
	}
	w.lost[e.Name][traffic.Result(e.State)]++
}

// SetTraffic takes the present figures of the streams of the run.
func (w *World) SetTraffic(all []traffic.Summary) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, s := range all {
		w.traffic[s.Name] = s
	}
	w.changed(topicTraffic, "new figures of the traffic")
}

// modules lists the modules of a base by name and version.
func (b *Base) modules() []timeline.ModuleRef {
	return slices.SortedFunc(maps.Keys(b.Modules), func(x, y timeline.ModuleRef) int {
		return strings.Compare(x.Name+":"+x.Version, y.Name+":"+y.Version)
	})
}
