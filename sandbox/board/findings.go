package board

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/koupleless/koupsandbox/controller/api"
	"github.com/koupleless/koupsandbox/controller/errcode"
	"github.com/koupleless/koupsandbox/sandbox/events"
)

const (
	// settleTime is how long bases may differ before a finding is shown. A release reaches the bases one after
	// another.
	settleTime = 5 * time.Second
	// heartbeatInterval is the default time between the heartbeats of a base. A base that restarts is unreachable for a
	// shorter time.
	heartbeatInterval = 10 * time.Second
	// lossTime is how long the finding about lost requests is shown after the last loss.
	lossTime = 10 * time.Second
	// requestsLost is the code of the finding about lost requests. The Koupleless documentation has no code for it.
	requestsLost errcode.Code = "RequestsLost"
	// componentNotRunning is the code of the finding about components of the sandbox that have exited or are paused.
	componentNotRunning errcode.Code = "ComponentNotRunning"
	// timedOut is the suffix of Pod status reasons for operations that timed out.
	timedOut = "TimedOut"
	// shown is the maximum number of bases that a finding lists.
	shown = 50
)

// problem is a problem that a check found.
type problem struct {
	code          errcode.Code
	about         string
	text, chinese string
	after         time.Duration // how long the problem must last before it is shown as a finding
	bases         []string
	workloads     []string
}

// finding is a detected problem together with its start time. It is shown once the problem has lasted for
// problem.after.
type finding struct {
	row   FindingRow
	shown bool
}

// find runs all checks and updates the findings. The caller must hold w.mu.
func (w *boardState) find(now time.Time) {
	for name := range w.leases {
		w.updateLiveness(name, now)
	}
	if !w.synced {
		return
	}
	seen := map[string]bool{}
	for _, p := range slices.Concat(w.stoppedComponents(), w.unreachableBases(), w.lostRequests(now),
		w.failedModules(), w.slowOperations(now), w.inconsistentBases()) {
		key := string(p.code) + " " + p.about
		seen[key] = true
		f := w.findings[key]
		if f == nil {
			f = &finding{row: FindingRow{Since: millis(now)}}
			w.findings[key] = f
		}
		row := p.row(f.row.Since)
		if !f.shown && millis(now)-row.Since < p.after.Milliseconds() ||
			f.shown && f.row.Text == row.Text && slices.Equal(f.row.Bases, row.Bases) {
			continue
		}
		if !f.shown {
			w.appendLog(LogEntry{Time: millis(now), Kind: LogFinding, Bad: true, Code: row.Code, Text: row.Text,
				State: "found"})
		}
		f.row, f.shown = row, true
		w.mark(kindFinding, key)
	}
	for key, f := range w.findings {
		if seen[key] {
			continue
		}
		delete(w.findings, key)
		if f.shown {
			w.mark(kindFinding, key)
			w.appendLog(LogEntry{Time: millis(now), Kind: LogFinding, Code: f.row.Code, Text: f.row.Text,
				State: "gone"})
		}
	}
}

func (p problem) row(since int64) FindingRow {
	slices.Sort(p.bases)
	slices.Sort(p.workloads)
	row := FindingRow{Code: string(p.code), Text: p.text, Chinese: p.chinese, Since: since, Bases: firstShown(p.bases),
		Workloads: firstShown(p.workloads)}
	info, known := errcode.LookupIn(errcode.KouplelessBoard, string(p.code))
	if !known {
		info, _ = errcode.Lookup(string(p.code))
	}
	row.Advice, row.AdviceChinese = info.Suggestion, info.SuggestionZH
	return row
}

func firstShown(list []string) []string { return list[:min(len(list), shown)] }

// stoppedComponents reports components of the sandbox that are not running. It ignores the controllers of a cluster,
// because the Lease of a replaced controller expires while another controller manages the bases.
func (w *boardState) stoppedComponents() (list []problem) {
	if w.noDaemon {
		return nil
	}
	for c := range w.state.Components.All() {
		if c.State != events.ComponentRunning {
			list = append(list, problem{code: componentNotRunning, about: c.Name, after: settleTime,
				text:    fmt.Sprintf("the component %s is not running", c.Name),
				chinese: fmt.Sprintf("组件 %s 未运行", c.Name)})
		}
	}
	return list
}

// unreachableBases reports bases that are down or unreachable. It reports a mass outage immediately: many bases are
// unreachable at the same time.
func (w *boardState) unreachableBases() []problem {
	var unreachable []string
	all := 0
	for b := range w.state.Bases.All() {
		if b.Removed {
			continue
		}
		all++
		n, hasNode := w.nodes[b.Name]
		if !b.Running || b.Ready && !b.Connected || hasNode && n.state != events.NodeReady {
			unreachable = append(unreachable, b.Name)
		}
	}
	if len(unreachable) == 0 {
		return nil
	}
	if !api.MassOutage(len(unreachable), all, api.MassPercent, api.MassMinBases) {
		text := "1 base is down or unreachable"
		if len(unreachable) > 1 {
			text = fmt.Sprintf("%d bases are down or unreachable", len(unreachable))
		}
		return []problem{{code: errcode.ModuleControllerBaseInstanceNotReady, after: heartbeatInterval,
			bases:   unreachable,
			text:    text,
			chinese: fmt.Sprintf("%d 个基座已停止或失联", len(unreachable))}}
	}
	return []problem{{
		code:    errcode.ModuleControllerOverFiftyPercentBaseInstancesUnavaliable,
		text:    fmt.Sprintf("%d of %d bases are unreachable", len(unreachable), all),
		chinese: fmt.Sprintf("%d 个基座中有 %d 个失联", all, len(unreachable)),
		bases:   unreachable,
	}}
}

// lostRequests reports the streams that have lost requests within lossTime.
func (w *boardState) lostRequests(now time.Time) (list []problem) {
	for key, s := range w.streams {
		if now.Sub(s.lostAt) < lossTime {
			list = append(list, problem{code: requestsLost, about: key,
				text:    fmt.Sprintf("the stream %s is losing requests", s.row.Name),
				chinese: fmt.Sprintf("请求流 %s 正在丢失请求", s.row.Name)})
		}
	}
	return list
}

func (w *boardState) failedModules() []problem {
	return w.byModule(func(_ string, m *events.ModuleStatus) bool { return m.State == events.ModuleBroken }, problem{
		code: errcode.ModuleControllerBaseInstanceOperationFailed, text: "%s is broken on %d bases",
		chinese: "%s 在 %d 个基座上安装失败或已损坏",
	})
}

// slowOperations reports operations that take too long or have timed out.
func (w *boardState) slowOperations(now time.Time) []problem {
	gaveUp := map[string]bool{}
	for p := range w.state.Pods.All() {
		if strings.HasSuffix(p.Reason, timedOut) {
			for _, m := range p.Modules {
				gaveUp[p.Base+" "+m.String()] = true
			}
		}
	}
	return w.byModule(func(base string, m *events.ModuleStatus) bool {
		return gaveUp[base+" "+m.String()] || m.State == events.ModuleResolved && now.Sub(m.Since) > api.InstallTimeout
	}, problem{
		code: errcode.ModuleControllerBaseInstanceOperationTimeOut,
		text: "the operation on %s timed out on %d bases", chinese: "%s 的运维操作超时，涉及 %d 个基座",
	})
}

// byModule returns one problem, based on the template p, for each module version for which has returns true on at
// least one base.
func (w *boardState) byModule(has func(base string, m *events.ModuleStatus) bool, p problem) (list []problem) {
	on := map[events.ModuleRef][]string{}
	for b := range w.state.Bases.All() {
		for i := range b.Modules {
			if m := &b.Modules[i]; has(b.Name, m) {
				on[m.ModuleRef] = append(on[m.ModuleRef], b.Name)
			}
		}
	}
	for m, bases := range on {
		q := p
		q.about, q.bases = m.String(), bases
		q.text, q.chinese = fmt.Sprintf(p.text, m, len(bases)), fmt.Sprintf(p.chinese, m, len(bases))
		q.text = strings.Replace(q.text, " 1 bases", " 1 base", 1)
		list = append(list, q)
	}
	return list
}

// inconsistentBases reports bases whose modules differ from the modules of other bases with the same application,
// version and group. It compares pre-installed modules, and modules of workloads that have a Pod on each base.
func (w *boardState) inconsistentBases() (list []problem) {
	groups := map[string][]*events.BaseStatus{}
	for b := range w.state.Bases.All() {
		n, hasNode := w.nodes[b.Name]
		if !b.Removed && b.Running && b.Ready && hasNode && !n.cordoned && n.state == events.NodeReady {
			what := strings.Join([]string{n.group, n.baseName, n.version}, " ")
			groups[what] = append(groups[what], b)
		}
	}
	for what, bases := range groups {
		baseline := w.baseline(len(bases))
		kinds := map[string][]string{} // bases by their modules
		for _, b := range bases {
			var has []string
			for _, m := range b.Modules {
				everywhere, known := baseline[m.Name]
				own := !known && m.Preinstalled && !w.isRequested(b.Name, m.ModuleRef)
				if m.State == events.ModuleActivated && (everywhere || own) {
					has = append(has, m.String())
				}
			}
			key := strings.Join(has, ", ")
			kinds[key] = append(kinds[key], b.Name)
		}
		if len(kinds) > 1 {
			list = append(list, newDifferenceProblem(what, kinds))
		}
	}
	return list
}

// baseline returns the modules that workloads install, by name. The value is true for modules that every base must
// have. It is false for other modules and for modules in a rollout.
func (w *boardState) baseline(bases int) map[string]bool {
	all := map[string]bool{}
	for _, row := range w.workloads {
		for _, m := range row.Modules {
			everywhere, known := all[m.Name]
			all[m.Name] = (everywhere || !known) && row.State != WorkloadRolling && row.State != WorkloadStuck &&
				(row.Peer || row.Kind == "daemonset") && row.Desired >= bases
		}
	}
	return all
}

// newDifferenceProblem returns a problem that describes how the modules of some bases differ from the modules of most
// bases.
func newDifferenceProblem(what string, kinds map[string][]string) problem {
	usual := slices.MaxFunc(slices.Sorted(maps.Keys(kinds)),
		func(a, b string) int { return cmp.Compare(len(kinds[a]), len(kinds[b])) })
	p := problem{code: errcode.KouplelessBoardBaselineInconsistency, about: what, after: settleTime}
	var others []string
	for _, has := range slices.Sorted(maps.Keys(kinds)) {
		if has != usual {
			p.bases = append(p.bases, kinds[has]...)
			others = append(others, fmt.Sprintf("%d: %s", len(kinds[has]), cmp.Or(has, "-")))
		}
	}
	name := strings.TrimSpace(what)
	p.text = fmt.Sprintf("bases of %s should have the same modules: %d have %s; %s", name, len(kinds[usual]),
		cmp.Or(usual, "-"), strings.Join(others, "; "))
	p.chinese = fmt.Sprintf("%s 的基座应安装相同的模块：%d 个为 %s；%s", name, len(kinds[usual]), cmp.Or(usual, "-"),
		strings.Join(others, "；"))
	return p
}
