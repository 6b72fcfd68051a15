package fakebase

import (
	"net/http"
	"slices"

	"github.com/koupleless/koupsandbox/fakebase/fault"
	"github.com/koupleless/koupsandbox/fakebase/internal/ark"
)

type healthStatus string

// The statuses that a base can have.
const (
	statusUp      healthStatus = "UP"
	statusUnknown healthStatus = "UNKNOWN"
	statusDown    healthStatus = "DOWN"
	// statusOutOfService is readiness before the base is ready.
	statusOutOfService healthStatus = "OUT_OF_SERVICE"
)

// phase is where a module stands for its health.
type phase int

const (
	phaseStarting phase = iota
	phaseStarted
	phaseFailed
)

// moduleInput is what health must know of one module.
type moduleInput struct {
	id        string
	origin    ark.Origin
	phase     phase
	unhealthy bool
}

// healthInput is what the health of a base depends on (protocol 8.4).
type healthInput struct {
	base      string // name:version
	starting  bool   // the application or its static modules are not ready yet
	failed    bool   // it never will be
	unhealthy bool   // a health check of the base itself is DOWN
	withAll   bool   // withAllBizReadiness
	faithful  bool   // with the arithmetic of the runtime's code (protocol 8.3)
	orphaned  bool   // a faithful base remembers a module that is gone
	modules   []moduleInput
}

// namedStatus keeps the order in which details are shown.
type namedStatus struct {
	name   string
	status healthStatus
	// starting: it has no application context yet, and so no checks.
	starting bool
}

type baseHealth struct {
	overall, aggregate, startUp healthStatus
	aggregateDetails            []namedStatus // by module, the started ones
	startUpDetails              []namedStatus // the base and all modules
	aggregateError              string        // instead of aggregateDetails; empty = none
}

// orphanError is what the aggregate component says for ever after a stop handler has thrown
// (protocol 8).
const orphanError = `java.lang.NullPointerException: Cannot invoke "com.alipay.sofa.ark.spi.model.Biz.getIdentity()" because "biz" is null`

// judge works out the health of a base. A static or replayed module counts
// while it starts and when that fails; a hot one only with withAllBizReadiness;
// a running one always.
func judge(in healthInput) baseHealth {
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
		counts := in.withAll || (m.origin != ark.Hot && !in.faithful)
		if counts {
			h.startUp = worst(h.startUp, started)
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
		h.aggregate = worst(h.aggregate, running)
	}
	if in.faithful && in.orphaned {
		h.aggregate, h.aggregateError = statusDown, orphanError
	}
	h.overall = worst(h.startUp, h.aggregate)
	if in.faithful && h.overall == statusUnknown {
		h.overall = statusUp // ping and diskSpace are UP, and UP comes before UNKNOWN
	}
	if in.unhealthy {
		h.overall = statusDown
	}
	return h
}

// worst is the first of DOWN, UNKNOWN, UP that is there.
func worst(a, b healthStatus) healthStatus {
	for _, s := range []healthStatus{statusDown, statusUnknown} {
		if a == s || b == s {
			return s
		}
	}
	return statusUp
}

// healthLocked works out the health of now; the base is locked.
func (l *life) healthLocked() baseHealth {
	fs := &l.b.faults
	_, broken := fs.holds(fault.KindStartFailed, subject{})
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
	return judge(in)
}

// unhealthy asks whether a fault makes the health check of a module, or with
// empty names that of the base, DOWN.
func (l *life) unhealthy(name, version string) bool {
	_, there := l.b.faults.holdsIf(func(f *fault.Fault) bool {
		if f.Kind != fault.KindActuatorDown {
			return false
		}
		if !narrow(f.Match) {
			return name == ""
		}
		return name != "" && covers(f.Match, subject{biz: name, version: version})
	})
	return there
}

// The documents of the actuator.
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
		Path      string `json:"path,omitempty"` // of faithful bases; the documents have none
		Exists    bool   `json:"exists"`
	}
	infoDoc struct {
		ArkBizInfo    []wireBizInfo `json:"arkBizInfo"`
		ArkPluginInfo []plugin      `json:"arkPluginInfo"`
	}
)

var simulatedDisk = diskSpace{Total: 494384795648, Free: 272435396608, Threshold: 10485760, Exists: true}

func (l *life) disk() diskSpace {
	d := simulatedDisk
	if l.b.opts.Faithful {
		d.Path = "/app/."
	}
	return d
}

// serveHealth is GET /actuator/health. The components have the names of the
// documents, or of the code if the base is faithful (protocol 8.1).
func (l *life) serveHealth(rw http.ResponseWriter) {
	l.b.mu.Lock()
	h := l.healthLocked()
	l.b.mu.Unlock()
	aggregateName, startUpName := "arkBizAggregate", "masterBizStartUp"
	if l.b.opts.Faithful {
		aggregateName, startUpName = "compositeAllBiz", "baseStartUp"
	}
	var aggregate any // without modules there are no details
	modules := map[string]componentDoc{}
	for _, d := range h.aggregateDetails {
		var checks any = map[string]componentDoc{
			"diskSpace": {Status: statusUp, Details: l.disk()},
			"pingHe":    {Status: d.status, Details: struct{}{}},
		}
		if l.b.opts.Faithful { // the runtime puts Spring's status objects into a map
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
	writeHealth(rw, h.overall, doc)
}

// serveProbe is GET /actuator/health/liveness and /actuator/health/readiness. Modules
// count for neither (protocol 8).
func serveProbe(rw http.ResponseWriter, status healthStatus) {
	writeHealth(rw, status, statusDoc{status})
}

// readiness is that of the base alone.
func (l *life) readiness() healthStatus {
	if l.up() {
		return statusUp
	}
	return statusOutOfService
}

func writeHealth(rw http.ResponseWriter, status healthStatus, doc any) {
	rw.Header().Set("Content-Type", "application/vnd.spring-boot.actuator.v3+json")
	writeJSON(rw, healthCode(status), doc)
}

// serveModuleHealth is GET /{webContextPath}/actuator/health.
func (l *life) serveModuleHealth(rw http.ResponseWriter, path string) {
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

func (l *life) serveInfo(rw http.ResponseWriter) {
	d := mqttDialect(false)
	doc := infoDoc{ArkPluginInfo: basePlugins}
	for _, b := range append(l.reported(), l.master()) {
		doc.ArkBizInfo = append(doc.ArkBizInfo, *d.info(&b))
	}
	writeHealth(rw, statusUp, doc)
}

// healthCode is Spring's mapping of a status to HTTP.
func healthCode(s healthStatus) int {
	if s == statusDown || s == statusOutOfService {
		return http.StatusServiceUnavailable
	}
	return http.StatusOK
}
