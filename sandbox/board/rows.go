package board

import (
	"cmp"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

// millis returns t in milliseconds since 1970, or 0 for the zero time.
func millis(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMilli()
}

// row returns the row of a kind with the given key, or nil if it does not exist. The caller must hold w.mu.
func (w *boardState) row(kind, key string) any {
	switch kind {
	case kindBoard:
		return w.board
	case kindBase:
		return orNil(w.baseRow(key))
	case kindPod:
		return orNil(w.podRow(key))
	case kindWorkload:
		return found(w.workloads, key)
	case kindRevision:
		return found(w.revisions, key)
	case kindService:
		return orNil(w.serviceRow(key))
	case kindComponent:
		return orNil(w.componentRow(key))
	case kindFault:
		return orNil(w.faultRow(key))
	case kindStream:
		if s, there := w.streams[key]; there {
			return s.row
		}
	case kindStep:
		return stepRow(w.state.Steps.Get(key))
	case kindFinding:
		if f := w.findings[key]; f != nil && f.shown {
			return f.row
		}
	case kindNotice:
		return found(w.notices, key)
	}
	return nil
}

// orNil converts a pointer to an interface. It returns a nil interface for a nil pointer.
func orNil[T any](row *T) any {
	if row == nil {
		return nil
	}
	return row
}

func found[T any](rows map[string]T, key string) any {
	row, there := rows[key]
	if !there {
		return nil
	}
	return row
}

func (w *boardState) baseRow(name string) *BaseRow {
	b := w.state.Bases.Get(name)
	n, hasNode := w.nodes[name]
	if (b == nil || b.Removed) && !hasNode {
		delete(w.uses, name)
		return nil
	}
	row := &BaseRow{Name: name, Modules: []ModuleOnBase{}, State: events.BaseStateUnknown}
	if b != nil {
		row.Identity, row.State, row.Started = b.Identity, b.State(), millis(b.Started)
		for _, m := range b.Modules {
			row.Modules = append(row.Modules,
				ModuleOnBase{Name: m.Name, Version: m.Version, State: m.State, Since: millis(m.Since),
					Own: m.Preinstalled})
		}
	}
	if hasNode {
		w.addNode(row, n)
	} else if w.namespace != "" {
		w.addRun(row, b)
	}
	row.Reason = w.reason(row, n)
	row.Health, row.Problem = healthOf(row)
	return row
}

// healthOf returns the health of a base and its main problem; the problem is empty if there is none.
func healthOf(row *BaseRow) (Health, BaseProblem) {
	broken := slices.ContainsFunc(row.Modules, func(m ModuleOnBase) bool { return m.State == events.ModuleBroken })
	switch {
	case row.State == events.BaseStateStarting:
		return HealthBusy, ""
	case row.State == events.BaseStateDown:
		return HealthBad, ""
	case row.State != events.BaseStateReady:
		return HealthWarn, ""
	case row.Pressure:
		return HealthWarn, ProblemPressure
	case broken:
		return HealthWarn, ProblemModule
	case row.Reason != "":
		return HealthWarn, ProblemOther
	}
	return HealthGood, ""
}

// addNode adds the data of the base's Node to the row of the base.
func (w *boardState) addNode(row *BaseRow, n node) {
	row.Node, row.NodeState, row.Cordoned, row.Controller = n.name, n.state, n.cordoned, n.holder
	row.Zone, row.BaseName, row.Version, row.IP, row.Tunnel = n.zone, n.baseName, n.version, n.ip, n.tunnel
	row.Identity = cmp.Or(row.Identity, n.identity)
	row.Pressure = n.pressure
	if n.metaspace == 0 {
		return
	}
	var requested int64
	settled := true
	for p := range w.state.PodsOn(row.Name) {
		settled = settled && p.Ready && !p.Deleting
		requested += w.pods[p.PodKey()].memory
	}
	row.MetaspaceMax, row.MetaspaceUsed = n.metaspace, n.metaspace-n.free+requested
	u := w.uses[row.Name]
	if u == nil || u.started != row.Started {
		u = &processUsage{started: row.Started}
		w.uses[row.Name] = u
	}
	row.Leak = u.leak(row, settled, w.flushed)
}

// addRun adds the Node and the zone to the row of a base in a recorded run. The name of the set of bases is used as
// the zone.
func (w *boardState) addRun(row *BaseRow, b *events.BaseStatus) {
	if at := strings.LastIndex(row.Name, "-"); at > 0 {
		row.Zone = row.Name[:at]
	}
	if n := w.state.NodeOf(b); n != nil {
		row.Node, row.NodeState = n.Name, n.State
	}
}

// reason describes the problems of a base, most important first. It returns an empty string if the base has no
// problems.
func (w *boardState) reason(row *BaseRow, n node) string {
	var parts []string
	switch row.State {
	case events.BaseStateReady:
	case events.BaseStateUnknown:
		parts = append(parts, "the state of its process is unknown")
	default:
		parts = append(parts, string(row.State))
	}
	if row.Node != "" && row.NodeState != events.NodeReady {
		parts = append(parts, events.Join(": ", "Node "+string(row.NodeState), n.message))
	}
	if row.Pressure {
		parts = append(parts, "more than 90% of the metaspace is in use")
	}
	for _, m := range row.Modules {
		if m.State == events.ModuleBroken {
			parts = append(parts, m.Name+":"+m.Version+" is broken")
		}
	}
	var pods []string
	for p := range w.state.PodsOn(row.Name) {
		if !p.Ready && p.Reason != "" && p.Reason != api.ReasonContainerCreating && !p.Deleting {
			pods = append(pods, p.Name+": "+p.Reason)
		}
	}
	slices.Sort(pods)
	return strings.Join(append(parts, pods...), "; ")
}

func (w *boardState) podRow(uid string) *PodRow {
	p := w.state.Pods.Get(uid)
	if p == nil {
		return nil
	}
	namespace := cmp.Or(w.pods[uid].namespace, w.namespace)
	return &PodRow{
		Namespace: namespace, Name: p.Name, UID: p.UID, Workload: workloadOf(&p.PodState, namespace),
		Revision: revisionOfPod(p.Labels),
		Node:     p.Node, Base: p.Base, Modules: p.Modules,
		Phase: p.Phase, State: p.Stage(), Ready: p.Ready, Reason: p.Reason, Deleting: p.Deleting,
		Created: millis(p.Created), ReadySince: millis(p.ReadySince),
	}
}

func (w *boardState) serviceRow(key string) *ServiceRow {
	s := w.state.Services.Get(key)
	if s == nil || len(s.Endpoints) == 0 {
		return nil
	}
	namespace, name, qualified := strings.Cut(key, "/")
	if !qualified {
		namespace, name = w.namespace, key
	}
	row := &ServiceRow{Namespace: namespace, Name: name, Total: len(s.Endpoints)}
	for _, e := range s.Endpoints {
		if p := w.state.Pods.Get(e.Pod); p != nil && len(p.Modules) > 0 && row.Module == "" {
			row.Module = p.Modules[0].Name
		}
		if e.Ready {
			row.Ready++
			row.Bases = append(row.Bases, e.Base)
		}
	}
	slices.Sort(row.Bases)
	row.Bases = slices.DeleteFunc(slices.Compact(row.Bases), func(b string) bool { return b == "" })
	return row
}

func (w *boardState) componentRow(name string) *ComponentRow {
	row, known := w.processes[name]
	if c := w.state.Components.Get(name); c != nil {
		known = true
		row.Name, row.State, row.Since, row.Message = c.Name, c.State, millis(c.Since), cmp.Or(c.Message, row.Message)
	}
	if _, renewed := w.leases[name]; !known || w.noDaemon && !renewed {
		return nil
	}
	for _, n := range w.nodes {
		if w.noDaemon && n.holder == name {
			row.Bases++
		}
	}
	return &row
}

func (w *boardState) faultRow(key string) *FaultRow {
	f := w.state.Faults.Get(key)
	if f == nil {
		return nil
	}
	return &FaultRow{ID: f.ID, Target: f.Target, Base: f.Base, Text: events.Join(": ", string(f.Kind), f.Message),
		Since: millis(f.Since), Fired: f.Triggered}
}

func stepRow(s *events.StepStatus) StepRow {
	return StepRow{Number: s.Number, Name: s.Name, State: s.State, From: millis(s.From), To: millis(s.To),
		Message: s.Message}
}

// processUsage holds the metaspace history of one run of a base process.
type processUsage struct {
	started        int64     // start time of the base process
	modules, names string    // the modules when all modules were last active, with and without their versions
	since          time.Time // time since when these modules are active; zero while a module is being replaced
	peak           int       // maximum number of modules that were installed at the same time
	last           sample    // last metaspace usage with these modules
	before         map[string]sample
}

// sample is a metaspace usage in bytes, with the peak of use at that time.
type sample struct {
	used int64
	peak int
}

// usageDelay is the maximum time between a change of the modules of a base and the new allocatable memory of its Node.
// The controller reads the metaspace usage every api.HealthInterval, and writes it at most every 30 s.
const usageDelay = 45 * time.Second

// leak returns the metaspace growth in bytes since the first recorded usage with the same modules, regardless of their
// versions. It returns 0 if the usage has not grown, or if settled is false: the Pods or modules of the base are
// changing. It records only usages that the base has reported with these modules.
//
// The usage is committed metaspace, which a JVM does not free. It therefore also grows when a base has more modules at
// the same time than before, for example two versions during a rollout. leak compares only usages with the same peak.
func (u *processUsage) leak(row *BaseRow, settled bool, now time.Time) int64 {
	var with, without []string
	for _, m := range row.Modules {
		settled = settled && m.State == events.ModuleActivated
		with, without = append(with, m.Name+":"+m.Version), append(without, m.Name)
	}
	modules, names := strings.Join(with, ","), strings.Join(without, ",")
	if !settled || u.since.IsZero() || modules != u.modules {
		first, known := u.before[u.names]
		if !u.since.IsZero() && now.Sub(u.since) >= usageDelay && (!known || first.peak < u.last.peak) {
			if u.before == nil {
				u.before = map[string]sample{}
			}
			u.before[u.names] = u.last
		}
		u.modules, u.names, u.since = modules, names, now
	}
	u.peak = max(u.peak, len(row.Modules))
	if !settled {
		u.since = time.Time{}
		return 0
	}
	u.last = sample{row.MetaspaceUsed, u.peak}
	if first, known := u.before[names]; known && first.peak == u.peak && row.MetaspaceUsed > first.used {
		return row.MetaspaceUsed - first.used
	}
	return 0
}
