package fuzz

import (
	"fmt"
	"slices"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

type renderer struct {
	s     Schedule
	steps []v1alpha1.Step
	now   []current // desired state of each workload, by index
	last  int       // index of the workload that the last operation changed
	open  []open
	n     int // number of faults that were rendered so far
	// starting reports whether a background step is starting a controller. While it is true, no disruption of
	// controllers is rendered.
	starting bool
}

// current is the desired state of a workload.
type current struct{ version, image, replicas, newest int }

// open is a disruption that has not ended.
type open struct {
	action Action
	kind   *actionSpec
	until  int    // the disruption ends before the action with this index
	fault  string // ID of the fault
}

// Scenario returns the schedule as a scenario with the given name.
func (s Schedule) Scenario(name string) *v1alpha1.Scenario {
	r := &renderer{s: s}
	r.begin()
	if s.has(func(m *actionSpec) bool { return m.name == upgrade }) {
		r.add("", v1alpha1.Action{
			Sleep: &v1alpha1.Sleep{For: metav1.Duration{Duration: s.scaleDuration(minBaseAge)},
				Reason: "until the controller can distinguish new bases from the bases that they replace"}})
	}
	for i, m := range s.Actions {
		r.endDue(func(o open) bool { return o.until <= i })
		r.act(i, m)
	}
	r.endDue(func(open) bool { return true })
	r.checkFinalState()
	spec := v1alpha1.ScenarioSpec{
		Description: s.String(), Speed: s.speed(), Steps: r.steps,
		Timeout: &metav1.Duration{Duration: s.scaleDuration(4 * time.Minute)},
		Bases:   s.sets(), Checks: s.checks(),
	}
	if len(s.Actions) == 0 {
		spec.Description = "no actions"
	}
	if s.Replicas > 1 {
		spec.Controller = &v1alpha1.ControllerNeeds{Replicas: ptr.To(s.Replicas)}
	}
	return &v1alpha1.Scenario{
		TypeMeta: metav1.TypeMeta{APIVersion: v1alpha1.APIVersion, Kind: v1alpha1.ScenarioKind},
		Metadata: v1alpha1.ScenarioMetadata{Name: name, Labels: map[string]string{"group": "fuzz"}}, Spec: spec,
	}
}

// needs returns the controller settings that the schedule needs if it runs with the bundled controller.
func (s Schedule) needs() map[string]string {
	if s.settle() == s.scaleDuration(slowSettleTime) {
		return forSettling(s.speed())
	}
	return nil
}

// YAML returns the scenario as a YAML file with leading comments. If bundled is true, the file contains the settings
// that the bundled controller needs.
func (s Schedule) YAML(name string, bundled bool, comments ...string) ([]byte, error) {
	c := s.Scenario(name)
	if env := s.needs(); bundled && len(env) > 0 {
		if c.Spec.Controller == nil {
			c.Spec.Controller = &v1alpha1.ControllerNeeds{}
		}
		c.Spec.Controller.Env = env
	}
	text, err := yaml.Marshal(c)
	if err != nil {
		return nil, fmt.Errorf("encoding schedule %d as a scenario: %w", s.Seed, err)
	}
	var b strings.Builder
	for _, c := range comments {
		for line := range strings.Lines(c) {
			fmt.Fprintf(&b, "# %s\n", strings.TrimRight(line, "\n"))
		}
	}
	return append([]byte(b.String()), text...), nil
}

func (s Schedule) sets() (sets []v1alpha1.BaseSet) {
	for _, b := range s.Bases {
		set := v1alpha1.BaseSet{Name: b.name(), Count: ptr.To(b.Count), Tunnel: b.Tunnel, Activation: b.Activation}
		if b.InstallTime > 0 {
			set.InstallTime = &metav1.Duration{Duration: b.InstallTime}
		}
		if b.RequestTime > 0 {
			set.RequestTime = &metav1.Duration{Duration: b.RequestTime}
		}
		sets = append(sets, set)
	}
	return sets
}

// checks returns the settings of the built-in checks that fit the actions of the schedule. A table in the
// documentation describes these settings.
func (s Schedule) checks() (c v1alpha1.Checks) {
	c.MaxPodWrites, c.MaxCommands = ptr.To(maxPodWrites), ptr.To(maxCommands)
	if s.mayCause(leavesGap) ||
		slices.ContainsFunc(s.Workloads, func(w Workload) bool { return w.Kind == statefulSet }) {
		c.ActiveVersion = v1alpha1.Ignored
	}
	if s.mayCause(losesRequests) {
		c.Order, c.InstalledOnce = v1alpha1.Ignored, v1alpha1.Ignored
	}
	if s.mayCause(repeatsCommands) {
		c.InstalledOnce = v1alpha1.Ignored
	}
	if s.mayCause(removesSilently) &&
		s.has(func(m *actionSpec) bool {
			return m.mayCause(delaysLists) || m.name == forceDelete || m.name == recreate
		}) {
		// The check cannot know which lists were lost, and how late the endpoints of deleted Pods are removed.
		c.Truth = v1alpha1.Ignored
	}
	if s.has(func(m *actionSpec) bool { return m.name == upgrade }) &&
		s.has(func(m *actionSpec) bool { return m.resource != "" }) {
		// after a disruption, bases have two minutes to reconnect, but the old bases do not exist any more
		c.Truth = v1alpha1.Ignored
	}
	if s.mayCause(staleEndpoints) {
		c.Truth = v1alpha1.Ignored // the check depends on endpoints, which do not follow their Pods
	}
	return c
}

// lossless reports whether all requests to the workload must succeed. Requests may fail if the workload is a
// StatefulSet, or if an action may lose requests or make bases unreachable. They may also fail if rollouts overlap
// while bases list their modules late or keep all versions active: they may then reach a version that is being
// uninstalled.
func (s Schedule) lossless(w Workload) bool {
	if s.releases() > 1 && slices.ContainsFunc(s.Bases,
		func(b Bases) bool { return b.Activation == v1alpha1.ActivationMulti && b.RequestTime > 0 }) {
		return false
	}
	if s.releases() > 1 && s.mayCause(delaysLists) {
		return false
	}
	return w.Kind != statefulSet && !s.mayCause(losesRequests|unreachable)
}

// keepsNodesReachable reports whether Kubernetes never marks Nodes as unreachable during the schedule. If no controller
// renews the Node Leases for 50 s (10 s at the default Speed), Kubernetes marks the Nodes as unreachable and their Pods
// as Not Ready. The start of the API server uses up part of this time at any speed.
func (s Schedule) keepsNodesReachable() bool {
	outages := 0
	for _, m := range s.Actions {
		resource := actionSpecs[m.Do].resource
		if m.Lasts > 0 && (resource == controllers || resource == apiProxy || resource == apiServer) {
			return false
		}
		if resource == apiServer {
			outages++
		}
	}
	return outages < 2
}

func (r *renderer) add(name string, a v1alpha1.Action) { r.addWithTimeout(name, 0, a) }

func (r *renderer) addWithTimeout(name string, timeout time.Duration, a v1alpha1.Action) {
	step := v1alpha1.Step{Action: a}
	if name != "" {
		step.Name = fmt.Sprintf("%d %s", len(r.steps)+1, name)
	}
	if timeout > 0 {
		step.Timeout = &metav1.Duration{Duration: timeout}
	}
	r.steps = append(r.steps, step)
}

// begin renders the steps that deploy the workloads and start the request streams.
func (r *renderer) begin() {
	for _, w := range r.s.Workloads {
		c := current{version: 1, replicas: w.Replicas, newest: 1}
		r.now = append(r.now, c)
		r.add("", v1alpha1.Action{Apply: &v1alpha1.Apply{Resource: w.workload(1, 0, c.replicas)}})
		r.add("", v1alpha1.Action{Apply: &v1alpha1.Apply{Resource: w.service()}})
	}
	for i, w := range r.s.Workloads {
		if w.Kind == peer {
			r.waitForPeerReplicas(w)
		}
		r.rolledOut(i)
		r.waitForEndpoints(w)
		r.stream(v1alpha1.Traffic{Name: "service" + fmt.Sprint(i+1), Service: w.Module}, w,
			r.s.lossless(w) && r.s.keepsNodesReachable() && !r.s.mayCause(staleEndpoints))
		if w.Replicas == len(r.s.bases()) && !r.s.mayCause(movesModules) {
			r.stream(v1alpha1.Traffic{Name: "bases" + fmt.Sprint(i+1), Via: v1alpha1.ViaBases, Reuse: true}, w,
				r.s.lossless(w))
		}
	}
}

func (r *renderer) stream(t v1alpha1.Traffic, w Workload, lossless bool) {
	t.Module, t.Rate = w.Module, ptr.To(50)
	if !lossless {
		t.Judge = "sent > 0"
	}
	r.add("", v1alpha1.Action{Traffic: &v1alpha1.TrafficAction{Start: &t}})
}

func (r *renderer) ref(workload int) *v1alpha1.Ref {
	w := r.s.Workloads[workload]
	kind, version := w.kind()
	return &v1alpha1.Ref{APIVersion: version, Kind: kind, Name: w.Module}
}

// act renders the steps of an action.
func (r *renderer) act(i int, m Action) {
	kind := actionSpecs[m.Do]
	switch m.When {
	case Immediately:
	case Commanded:
		f := r.withID(v1alpha1.Fault{
			Kind: v1alpha1.MQTTNote, Match: v1alpha1.FaultMatch{Messages: commands}, Skip: max(m.Nth-1, 0),
			For: fault.Duration(r.s.scaleDuration(triggerTimeout)), MayNotFire: true,
		})
		r.add("until "+string(m.When), set(v1alpha1.FaultSet{Target: v1alpha1.TargetMQTT, Fault: f}))
		r.add("", v1alpha1.Action{Fault: &v1alpha1.FaultAction{Await: &v1alpha1.FaultSelector{IDs: []string{f.ID}}}})
	default:
		r.add("", v1alpha1.Action{
			Sleep: &v1alpha1.Sleep{For: metav1.Duration{Duration: r.s.scaleDuration(triggerTimeout)},
				OrUntil: r.condition(m.When),
				Reason:  "until " + string(m.When)}})
	}
	switch {
	// These actions wait for something that disruptions can delay.
	case kind.needsBases(), m.Do == recreate && r.s.Workloads[m.Workload].Kind == pod:
		r.endDue(func(open) bool { return true })
	case kind.needsAPI():
		r.endDue(func(o open) bool { return o.kind.resource == apiServer })
	}
	if kind.isDisruption() {
		r.disrupt(i, m, kind)
		return
	}
	if kind.fault != nil {
		r.inject(m, kind)
		return
	}
	r.operate(m)
}

func (r *renderer) operate(m Action) {
	w, c := r.s.Workloads[m.Workload], &r.now[m.Workload]
	if !slices.Contains([]string{addBase, restartBase, upgrade}, m.Do) {
		r.last = m.Workload
	}
	switch m.Do {
	case release:
		c.newest++
		c.version, c.image = c.newest, 0
		r.apply(m)
	case rollback:
		c.version, c.image = max(c.version-1, 1), 0
		r.apply(m)
	case newImage:
		c.image++
		r.apply(m)
	case scaleDown, scaleUp:
		c.replicas = max(1, c.replicas-1)
		if m.Do == scaleUp {
			c.replicas = min(c.replicas+2, len(r.s.bases()))
		}
		r.add(m.Do, v1alpha1.Action{Scale: &v1alpha1.Scale{Ref: *r.ref(m.Workload), Replicas: c.replicas}})
	case recreate:
		r.add(m.Do, v1alpha1.Action{Delete: &v1alpha1.Delete{Ref: *r.ref(m.Workload)}})
		if w.Kind == daemonSet {
			// The DaemonSet controller tracks expected Pods by the name of the DaemonSet. If it creates a Pod for the
			// old object after the new one exists, the new one gets no Pods for five minutes.
			r.add("", v1alpha1.Action{
				Sleep: &v1alpha1.Sleep{For: metav1.Duration{Duration: r.s.scaleDuration(deletionDelay)},
					Reason: "until the DaemonSet controller observes the deletion"}})
			noPods := fmt.Sprintf(
				"!pods.exists(p, p.metadata.labels['app'] == '%s' && !has(p.metadata.deletionTimestamp))", w.Module)
			r.add("", v1alpha1.Action{
				Sleep: &v1alpha1.Sleep{For: metav1.Duration{Duration: r.s.scaleDuration(triggerTimeout)},
					OrUntil: noPods,
					Reason:  "until all Pods of the deleted object are gone or terminating"}})
		}
		c.newest++
		c.version, c.image = c.newest, 0
		r.apply(m)
	case forceDelete:
		r.add(m.Do, v1alpha1.Action{Delete: &v1alpha1.Delete{
			Ref: v1alpha1.Ref{APIVersion: "v1", Kind: "Pod", Labels: map[string]string{"app": w.Module}},
			// The Pod may have been deleted, and not recreated yet.
			GracePeriod: &metav1.Duration{}, NoWait: true, IgnoreNotFound: true,
		}})
		if w.Kind == pod { // a bare Pod is not recreated, so apply it again
			r.apply(m)
		}
	case upgrade:
		r.n++
		r.addWithTimeout(m.Do, r.s.settle(),
			v1alpha1.Action{Base: &v1alpha1.BaseAction{
				Upgrade: &v1alpha1.BaseUpgrade{Set: r.s.Bases[0].name(), Version: version(1 + r.n)}}})
	case addBase:
		r.addWithTimeout(m.Do, r.s.settle(),
			v1alpha1.Action{Base: &v1alpha1.BaseAction{
				Add: &v1alpha1.BaseSet{Name: r.s.Bases[0].name(), Count: ptr.To(1)}}})
	case restartBase:
		r.addWithTimeout(m.Do, r.s.settle(),
			v1alpha1.Action{Base: &v1alpha1.BaseAction{
				Restart: &v1alpha1.BaseRestart{Bases: v1alpha1.BaseNames{m.Base}}}})
	}
}

func (r *renderer) apply(m Action) {
	w, c := r.s.Workloads[m.Workload], r.now[m.Workload]
	r.add(fmt.Sprintf("%s: %s %s", m.Do, w.Module, version(c.version)), v1alpha1.Action{Apply: &v1alpha1.Apply{
		// The action is random, so it may change nothing.
		Resource:     w.workload(c.version, c.image, c.replicas),
		ReleaseCheck: v1alpha1.ReleaseCheck{MayChangeNothing: true},
	}})
}

// condition returns the CEL condition of a trigger. The condition refers to the newest version of the workload that
// the last operation changed.
func (r *renderer) condition(t Trigger) string {
	m, v := r.s.Workloads[r.last].Module, version(r.now[r.last].version)
	pod := fmt.Sprintf("p.metadata.labels['app'] == '%s' && p.metadata.labels['version'] == '%s'", m, v)
	const ready = "has(p.status.conditions) && p.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')"
	switch t {
	case InstallBegun:
		return fmt.Sprintf("bases.exists(b, bases[b].modules.exists(x, x.name == '%s' && x.version == '%s'))", m, v)
	case Installed:
		return fmt.Sprintf("bases.exists(b, bases[b].modules.exists(x, x.name == '%s' && x.version == '%s' && "+
			"x.state == 'ACTIVATED'))", m, v)
	case Scheduled:
		return "pods.exists(p, " + pod + " && has(p.spec.nodeName))"
	case NewReady:
		return "pods.exists(p, " + pod + " && " + ready + ")"
	case Ending:
		return "pods.exists(p, has(p.metadata.deletionTimestamp))"
	default:
		return "pods.size() > 0 && !pods.exists(p, !(" + ready + "))"
	}
}

// waitForPeerReplicas renders a step that waits until a peer Deployment has one replica per base.
func (r *renderer) waitForPeerReplicas(w Workload) {
	follows := fmt.Sprintf("deployments.exists(d, d.metadata.name == '%s' && d.spec.replicas == size(bases))", w.Module)
	r.addWithTimeout("one replica of "+w.Module+" per base", r.s.settle(),
		v1alpha1.Action{Assert: &v1alpha1.Assert{CEL: follows}})
}

// waitForEndpoints renders a step that waits until all endpoints of the workload's Service are ready. This can take
// seconds if an earlier schedule has restarted the controllers of Kubernetes.
func (r *renderer) waitForEndpoints(w Workload) {
	reached := fmt.Sprintf("endpointslices.exists(e, e.metadata.labels['kubernetes.io/service-name'] == '%s' && "+
		"has(e.endpoints) && e.endpoints.size() > 0 && e.endpoints.all(p, p.conditions.ready))", w.Module)
	r.addWithTimeout("Service "+w.Module+" has ready endpoints", r.s.settle(),
		v1alpha1.Action{Assert: &v1alpha1.Assert{CEL: reached}})
}

// rolledOut renders a step that waits for the rollout of a workload.
func (r *renderer) rolledOut(workload int) {
	wait := &v1alpha1.Wait{Rollout: r.ref(workload)}
	if r.s.Workloads[workload].Kind == pod {
		wait = &v1alpha1.Wait{Ready: r.ref(workload)}
	}
	r.addWithTimeout("", r.s.settle(), v1alpha1.Action{Wait: wait})
}

// checkFinalState renders the steps that check the final state.
func (r *renderer) checkFinalState() {
	for i := range r.s.Workloads {
		r.rolledOut(i)
	}
	const ready = "pods.size() > 0 && pods.all(p, !has(p.metadata.deletionTimestamp) && has(p.status.conditions) && " +
		"p.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True'))"
	const reached = "pods.all(p, endpointslices.exists(e, has(e.endpoints) && e.endpoints.exists(x, x.targetRef.name " +
		"== p.metadata.name && x.conditions.ready))) && " +
		"endpointslices.all(e, !has(e.endpoints) || e.endpoints.all(x, pods.exists(p, p.metadata.name == " +
		"x.targetRef.name)))"
	const nodes = "bases.all(b, nodes.exists(n, n.metadata.labels['" + labels.BaseHost +
		"'].endsWith('-' + b) && !(has(n.spec.unschedulable) && n.spec.unschedulable) && " +
		"has(n.status.conditions) && n.status.conditions.exists(c, c.type == 'Ready' && c.status == 'True')))"
	var wrong []string
	for i, w := range r.s.Workloads {
		wanted := fmt.Sprintf(
			"pods.exists(p, p.metadata.labels['app'] == '%s' && has(p.spec.nodeName) && nodes.exists(n, "+
				"n.metadata.name == p.spec.nodeName && n.metadata.labels['%s'].endsWith('-' + b)))", w.Module,
			labels.BaseHost)
		wrong = append(wrong, fmt.Sprintf("m.name == '%s' && (m.version != '%s' || m.state != 'ACTIVATED' || !%s)",
			w.Module, version(r.now[i].version), wanted))
	}
	for _, w := range r.s.Workloads {
		if w.Kind == peer {
			r.waitForPeerReplicas(w)
		}
	}
	left := fmt.Sprintf("bases.size() > 0 && !bases.exists(b, bases[b].modules.exists(m, %s))",
		strings.Join(wrong, " || "))
	both := renderer{s: r.s} // concurrently, because each condition must hold for a second
	both.addWithTimeout("every Pod is Ready", r.s.settle(),
		v1alpha1.Action{Assert: &v1alpha1.Assert{CEL: ready, For: &metav1.Duration{Duration: time.Second}}})
	both.addWithTimeout("Services have endpoints for all Pods, and no others", r.s.settle(),
		v1alpha1.Action{Assert: &v1alpha1.Assert{CEL: reached, For: &metav1.Duration{Duration: time.Second}}})
	both.addWithTimeout("each base has a Ready Node", r.s.settle(),
		v1alpha1.Action{Assert: &v1alpha1.Assert{CEL: nodes, For: &metav1.Duration{Duration: time.Second}}})
	both.addWithTimeout("bases have the modules of their Pods, and no others", r.s.settle(),
		v1alpha1.Action{Assert: &v1alpha1.Assert{CEL: left, For: &metav1.Duration{Duration: time.Second}}})
	r.addWithTimeout("final state", r.s.settle()+r.s.scaleDuration(triggerTimeout),
		v1alpha1.Action{Parallel: both.steps})
	r.addWithTimeout("no controller writes to the API", r.s.settle(),
		v1alpha1.Action{Wait: &v1alpha1.Wait{Quiet: &metav1.Duration{Duration: r.s.scaleDuration(quietTime)}}})
}
