package fakebase

import (
	"net/http"
	"slices"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

// The endpoints that a base can expose.
const (
	endpointHealth = "health"
	endpointInfo   = "info"
)

type healthStatus string

// Values of the health status of a base.
const (
	statusUp      healthStatus = "UP"
	statusUnknown healthStatus = "UNKNOWN"
	statusDown    healthStatus = "DOWN"
	// statusOutOfService is the readiness status of a base that is not ready yet.
	statusOutOfService healthStatus = "OUT_OF_SERVICE"
)

// startPhase is the phase of the start of a module.
type startPhase int

const (
	phaseStarting startPhase = iota
	phaseStarted
	phaseFailed
)

// moduleInput is the state of a module from which the health of the base is computed.
type moduleInput struct {
	id        string
	origin    ark.Origin
	phase     startPhase
	unhealthy bool
}

// healthInput is the state of a base from which its health is computed (protocol 8).
type healthInput struct {
	base      string // identity (name:version) of the base itself
	starting  bool   // the application or its static modules are still starting
	failed    bool   // the base has failed to start
	unhealthy bool   // a fault sets the health of the base to DOWN
	withAll   bool   // value of the option WithAllBizReadiness
	faithful  bool   // apply the rules of the runtime's code (protocol 8)
	orphaned  bool   // the stop handler of a module has thrown an exception since the process started
	modules   []moduleInput
}

// namedStatus is the health status of a module with its name.
type namedStatus struct {
	name   string
	status healthStatus
	// starting reports whether a module has no application context yet, and therefore no health checks.
	starting bool
}

type baseHealth struct {
	overall, aggregate, startUp healthStatus
	aggregateDetails            []namedStatus // details of started modules
	startUpDetails              []namedStatus // details of the base and all modules
	aggregateError              string        // error that replaces aggregateDetails; may be empty
}

// orphanError is the error that the aggregate health component reports after the stop handler of a module has thrown
// an exception (protocol 8).
const orphanError = `java.lang.NullPointerException: Cannot invoke "com.alipay.sofa.ark.spi.model.Biz.getIdentity()" because "biz" is null`

// computeHealth returns the health of a base. The health includes static and replayed modules while they start, and
// always includes modules that have started. It includes the start of a module that a command has installed only if
// withAllBizReadiness is set.
func computeHealth(in healthInput) baseHealth {
	own := statusUp
	switch {
	case in.failed:
		own = statusDown
	case in.starting:
		own = statusUnknown
	}
	h := baseHealth{startUp: own, aggregate: statusUp}
	h.startUpDetails = append(h.startUpDetails, namedStatus{name: in.base, status: own})
	for _, m := range in.modules {
		started := statusUp
		switch m.phase {
		case phaseStarting:
			started = statusUnknown
		case phaseFailed:
			started = statusDown
		}
		h.startUpDetails = append(h.startUpDetails, namedStatus{name: m.id, status: started})
		included := in.withAll || (m.origin != ark.Hot && !in.faithful)
		if included {
			h.startUp = worseStatus(h.startUp, started)
		}
		if m.phase == phaseStarting && in.faithful {
			h.aggregateDetails = append(h.aggregateDetails, namedStatus{name: m.id, status: statusDown, starting: true})
			h.aggregate = statusDown
		}
		if m.phase != phaseStarted {
			continue
		}
		running := statusUp
		if m.unhealthy {
			running = statusDown
		}
		h.aggregateDetails = append(h.aggregateDetails, namedStatus{name: m.id, status: running})
		h.aggregate = worseStatus(h.aggregate, running)
	}
	if in.faithful && in.orphaned {
		h.aggregate, h.aggregateError = statusDown, orphanError
	}
	h.overall = worseStatus(h.startUp, h.aggregate)
	if in.faithful && h.overall == statusUnknown {
		h.overall = statusUp // ping and diskSpace are UP, which takes precedence over UNKNOWN
	}
	if in.unhealthy {
		h.overall = statusDown
	}
	return h
}

// worseStatus returns the worse of two statuses. DOWN is worse than UNKNOWN, which is worse than UP.
func worseStatus(a, b healthStatus) healthStatus {
	for _, s := range []healthStatus{statusDown, statusUnknown} {
		if a == s || b == s {
			return s
		}
	}
	return statusUp
}

// healthLocked returns the current health of the base. The caller holds b.mu.
func (l *incarnation) healthLocked() baseHealth {
	fs := &l.b.faults
	_, broken := fs.inEffectFor(fault.KindStartFailed, subject{})
	in := healthInput{
		base: ark.ID(l.b.opts.Name, masterVersion), starting: !l.booted || l.staticsPending, failed: broken,
		withAll: l.b.opts.WithAllBizReadiness, faithful: l.b.opts.Faithful,
		unhealthy: l.unhealthy("", ""), orphaned: l.orphaned,
	}
	for _, b := range l.container.List() {
		m := moduleInput{id: b.ID(), origin: b.Origin, phase: phaseStarted, unhealthy: l.unhealthy(b.Name, b.Version)}
		switch b.State {
		case ark.Resolved:
			m.phase = phaseStarting
		case ark.Broken:
			m.phase = phaseFailed
		}
		in.modules = append(in.modules, m)
	}
	for id, f := range l.failures {
		if _, listed := l.container.Get(id); !listed && (!l.b.opts.Faithful || f.origin != ark.Hot) {
			in.modules = append(in.modules, moduleInput{id: id, origin: f.origin, phase: phaseFailed})
		}
	}
	slices.SortStableFunc(in.modules, func(a, b moduleInput) int {
		switch {
		case a.id < b.id:
			return -1
		case a.id > b.id:
			return 1
		}
		return 0
	})
	return computeHealth(in)
}

// unhealthy reports whether a fault sets the health of a module to DOWN. An empty name stands for the base.
func (l *incarnation) unhealthy(name, version string) bool {
	_, unhealthy := l.b.faults.inEffectIf(func(f *fault.Fault) bool {
		if f.Kind != fault.KindActuatorDown {
			return false
		}
		if !isSelective(f.Match) {
			return name == ""
		}
		return name != "" && matches(f.Match, subject{biz: name, version: version})
	})
	return unhealthy
}

// JSON documents that the actuator endpoints return.
type (
	statusDoc struct {
		Status healthStatus `json:"status"`
	}
	componentDoc struct {
		Status  healthStatus `json:"status"`
		Details any          `json:"details,omitempty"`
	}
	nestedDoc struct {
		Details any       `json:"details"`
		Status  statusDoc `json:"status"`
	}
	healthDoc struct {
		Status     healthStatus            `json:"status"`
		Components map[string]componentDoc `json:"components"`
		Groups     []string                `json:"groups,omitempty"`
	}
	diskSpace struct {
		Total     int64  `json:"total"`
		Free      int64  `json:"free"`
		Threshold int64  `json:"threshold"`
		Path      string `json:"path,omitempty"` // sent only by faithful bases
		Exists    bool   `json:"exists"`
	}
	infoDoc struct {
		ArkBizInfo    []wireBizInfo `json:"arkBizInfo"`
		ArkPluginInfo []plugin      `json:"arkPluginInfo"`
	}
)

var simulatedDisk = diskSpace{Total: 494384795648, Free: 272435396608, Threshold: 10485760, Exists: true}

func (l *incarnation) disk() diskSpace {
	d := simulatedDisk
	if l.b.opts.Faithful {
		d.Path = "/app/."
	}
	return d
}

// serveHealth handles GET /actuator/health. The components have the names that the Koupleless documentation uses. On
// a faithful base, they have the names that the runtime's code uses (protocol 8).
func (l *incarnation) serveHealth(rw http.ResponseWriter) {
	l.b.mu.Lock()
	h := l.healthLocked()
	l.b.mu.Unlock()
	aggregateName, startUpName := "arkBizAggregate", "masterBizStartUp"
	if l.b.opts.Faithful {
		aggregateName, startUpName = "compositeAllBiz", "baseStartUp"
	}
	var aggregate any // nil if a faithful base has no modules
	modules := map[string]componentDoc{}
	for _, d := range h.aggregateDetails {
		var checks any = map[string]componentDoc{
			"diskSpace": {Status: statusUp, Details: l.disk()},
			"pingHe":    {Status: d.status, Details: struct{}{}},
		}
		if l.b.opts.Faithful { // the runtime encodes Spring's status objects
			checks = map[string]nestedDoc{
				"diskSpace": {Status: statusDoc{statusUp}, Details: l.disk()},
				"pingHe":    {Status: statusDoc{d.status}, Details: struct{}{}},
			}
		}
		if d.starting {
			checks = map[string]string{"applicationContext": "haven't refreshed"}
		}
		modules[d.name] = componentDoc{Status: d.status, Details: checks}
	}
	switch {
	case h.aggregateError != "":
		aggregate = map[string]string{"error": h.aggregateError}
	case len(modules) > 0 || !l.b.opts.Faithful:
		aggregate = modules
	}
	startUp := map[string]statusDoc{}
	for _, d := range h.startUpDetails {
		startUp[d.name] = statusDoc{d.status}
	}
	doc := healthDoc{Status: h.overall, Components: map[string]componentDoc{
		aggregateName: {Status: h.aggregate, Details: aggregate},
		startUpName:   {Status: h.startUp, Details: startUp},
	}}
	if l.unhealthy("", "") {
		doc.Components["diskSpace"] = componentDoc{Status: statusDown, Details: l.disk()}
	} else if l.b.opts.Faithful {
		doc.Components["diskSpace"] = componentDoc{Status: statusUp, Details: l.disk()}
	}
	if l.b.opts.Faithful {
		doc.Components["ping"] = componentDoc{Status: statusUp}
		doc.Components["livenessState"] = componentDoc{Status: statusUp}
		doc.Components["readinessState"] = componentDoc{Status: l.readiness()}
		doc.Groups = []string{"liveness", "readiness"}
	}
	switch l.b.opts.Actuator.Show {
	case ShowStatus:
		writeHealth(rw, h.overall, statusDoc{h.overall})
		return
	case ShowComponents:
		for name, component := range doc.Components {
			doc.Components[name] = componentDoc{Status: component.Status}
		}
	}
	writeHealth(rw, h.overall, doc)
}

// serveProbe handles GET /actuator/health/liveness and /actuator/health/readiness (protocol 8).
func serveProbe(rw http.ResponseWriter, status healthStatus) {
	writeHealth(rw, status, statusDoc{status})
}

// readiness returns the readiness status of the base. It includes modules only with the option WithAllBizReadiness:
// the base then refuses traffic while a module starts or stops, and after a module has failed to start.
func (l *incarnation) readiness() healthStatus {
	if !l.isUp() {
		return statusOutOfService
	}
	l.b.mu.Lock()
	defer l.b.mu.Unlock()
	if l.refusesTraffic {
		return statusOutOfService
	}
	return statusUp
}

func writeHealth(rw http.ResponseWriter, status healthStatus, doc any) {
	rw.Header().Set("Content-Type", "application/vnd.spring-boot.actuator.v3+json")
	writeJSON(rw, healthCode(status), doc)
}

// serveModuleHealth handles GET /{webContextPath}/actuator/health, the health of a single module.
func (l *incarnation) serveModuleHealth(rw http.ResponseWriter, path string) {
	l.b.mu.Lock()
	biz, ok := l.container.Serving(path)
	l.b.mu.Unlock()
	if !ok {
		noModule(rw, path)
		return
	}
	status := statusUp
	if l.unhealthy(biz.Name, biz.Version) {
		status = statusDown
	}
	writeHealth(rw, status, healthDoc{Status: status, Components: map[string]componentDoc{
		"diskSpace": {Status: statusUp, Details: l.disk()},
		"ping":      {Status: status},
	}})
}

func (l *incarnation) serveInfo(rw http.ResponseWriter) {
	d := mqttDialect(false)
	doc := infoDoc{ArkPluginInfo: basePlugins}
	for _, b := range append(l.reportedModules(), l.master()) {
		doc.ArkBizInfo = append(doc.ArkBizInfo, *d.info(&b))
	}
	writeHealth(rw, statusUp, doc)
}

// healthCode returns the HTTP status code that Spring uses for a health status.
func healthCode(s healthStatus) int {
	if s == statusDown || s == statusOutOfService {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}
