package fakebase

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// FaultKind names what goes wrong.
type FaultKind string

// The kinds of faults. Those marked (state) hold for as long as the fault is
// there and take neither count nor probability; the others happen each time
// something matches.
const (
	// FaultError makes a command fail with the error code in Code, at the step
	// where that code belongs.
	FaultError FaultKind = "error"
	// FaultLatency makes a command start later, by Delay.
	FaultLatency FaultKind = "latency"
	// FaultHang makes a command never end; its lock stays taken until the process ends.
	FaultHang FaultKind = "hang"
	// FaultCrash ends the process. With a Match, in the middle of a command that
	// matches; without, Delay after the fault came, and, if Count allows it,
	// Delay after each restart. Restart says whether and how it comes back.
	FaultCrash FaultKind = "crash"
	// FaultSilent suppresses heartbeats; commands still work.
	FaultSilent FaultKind = "silent"
	// FaultDeaf loses commands before they are read; heartbeats still go out.
	FaultDeaf FaultKind = "deaf"
	// FaultDisconnect breaks the MQTT connection and refuses the HTTP port (state).
	FaultDisconnect FaultKind = "disconnect"
	// FaultSlowLink carries all MQTT messages, in and out, later by Delay, in order.
	FaultSlowLink FaultKind = "slowLink"
	// FaultDuplicate sends a message twice (over HTTP: heartbeats).
	FaultDuplicate FaultKind = "duplicate"
	// FaultDelay sends a message later by Delay; others may overtake it (over
	// HTTP: heartbeats).
	FaultDelay FaultKind = "delay"
	// FaultReorder holds an MQTT message back until the next one has been sent, or
	// for Delay (zero = 1 s) if none comes.
	FaultReorder FaultKind = "reorder"
	// FaultStale sends an MQTT message whose publishTimestamp is older by Delay (zero = 11 s,
	// beyond the 10 s after which a controller drops it).
	FaultStale FaultKind = "stale"
	// FaultCorrupt sends a message whose second half is garbage.
	FaultCorrupt FaultKind = "corrupt"
	// FaultClockSkew shifts the base's clock by Skew on the wire (state).
	FaultClockSkew FaultKind = "clockSkew"
	// FaultFlapping reports matching modules, in turn, as they are and as
	// deactivated, each for Period (zero = 5 s) (state).
	FaultFlapping FaultKind = "flapping"
	// FaultMetaspaceFull exhausts the metaspace: health says so and installs fail (state).
	FaultMetaspaceFull FaultKind = "metaspaceFull"
	// FaultActuatorDown makes a health check DOWN: that of the modules that
	// match, or of the base if Match names none (state).
	FaultActuatorDown FaultKind = "actuatorDown"
	// FaultWebRefuse closes the listener for module traffic (state).
	FaultWebRefuse FaultKind = "webRefuse"
	// FaultStartFailed makes the base itself fail to start: it never gets
	// ready and its health is DOWN (state).
	FaultStartFailed FaultKind = "startFailed"
)

// Match narrows a fault down. An empty field matches everything.
type Match struct {
	// Commands are command names such as installBiz.
	Commands []string `json:"commands,omitempty"`
	// Biz and Version are those of the module that a command is about.
	Biz     string `json:"biz,omitempty"`
	Version string `json:"version,omitempty"`
	// Messages are last parts of topics that the base publishes on, such as
	// heart, health, simpleBiz, bizOperation. Over HTTP a heartbeat is a heart
	// and an answer a response.
	Messages []string `json:"messages,omitempty"`
}

// Restart says how a crashed process comes back.
type Restart struct {
	// After is the time between crash and restart, half a second at least;
	// zero = half a second.
	After Duration `json:"after,omitempty"`
	// NewIdentity draws a random identity; false = the process keeps its own.
	NewIdentity bool `json:"newIdentity,omitempty"`
}

// Fault is one thing that goes wrong. Its JSON form is what configuration
// files and control interfaces carry; check it with Validate.
type Fault struct {
	// ID names the fault for Clear; empty = one is made.
	ID string `json:"id,omitempty"`
	// Kind is required.
	Kind FaultKind `json:"kind"`
	// Match narrows the fault down; the zero value matches everything.
	Match Match `json:"match,omitzero"`
	// Count is how often it happens; zero = without limit, for crash = once.
	Count int `json:"count,omitempty"`
	// Probability is the share of the matches at which it happens; zero = 1, always.
	Probability float64 `json:"probability,omitempty"`
	// For is how long it is there; zero = until it is cleared.
	For Duration `json:"for,omitempty"`

	// Code is the error code of kind error, one of ErrorCodes.
	Code string `json:"code,omitempty"`
	// Message replaces the exception text of kind error. "java.io.IOException: x"
	// sets class and message; other text becomes a RuntimeException's message.
	Message string `json:"message,omitempty"`
	// Delay is the time of latency, crash, slowLink, delay, reorder and stale.
	Delay Delay `json:"delay,omitzero"`
	// Period is the half wave of flapping; zero = 5 s.
	Period Duration `json:"period,omitempty"`
	// Skew is the clock error of clockSkew; negative = slow.
	Skew Duration `json:"skew,omitempty"`
	// Restart is for crash; nil = the process stays down until Base.Restart.
	Restart *Restart `json:"restart,omitempty"`
	// Seed makes the fault's own chance repeatable; zero = from the base's seed.
	Seed uint64 `json:"seed,omitempty"`
}

// step is a place in the handling of a command where an error code belongs.
type step int

const (
	stepDispatch step = iota + 1 // before the command is looked up
	stepEnter                    // the handler begins
	stepValidate                 // the request is checked
	stepLock                     // the biz is locked
	stepPull                     // the jar is downloaded
	stepManifest                 // the jar is read
	stepStopOld                  // older versions are uninstalled first
	stepStart                    // main runs
	stepFind                     // the biz of an uninstall, switch or health is looked up
	stepGuard                    // may this version be uninstalled
	stepStop                     // the stop handlers run
)

// errorSpec says where an error code arises and what Java throws there.
type errorSpec struct {
	step  step
	class string
	text  string
}

// errorSpecs holds every Arklet code (protocol 6). Without class the code is
// no exception; the step knows what to answer.
var errorSpecs = map[string]errorSpec{
	CodeUnknown:                   {stepEnter, "java.lang.RuntimeException", "unknown error"},
	CodeInvalidParameter:          {stepValidate, validationException, "bizVersion should not be blank"},
	CodeInvalidBizName:            {stepValidate, validationException, "bizName should not be blank"},
	CodeInvalidRequest:            {stepDispatch, "", ""},
	CodeDecodeURLFailed:           {stepPull, "java.net.MalformedURLException", "no protocol: $url"},
	CodeNoMatchedBiz:              {stepFind, "", ""},
	CodeInstallRequirementNotMet:  {stepManifest, "java.lang.IllegalArgumentException", "Biz Name must not be empty!"},
	CodePullBizError:              {stepPull, "java.io.FileNotFoundException", "$url"},
	CodePullBizTimeout:            {stepPull, "java.net.SocketTimeoutException", "Read timed out"},
	CodeDiskFull:                  {stepPull, "java.io.IOException", "No space left on device"},
	CodeMachineMalfunction:        {stepStart, "java.lang.InternalError", "machine malfunction"},
	CodeMetaspaceFull:             {stepStart, "java.lang.OutOfMemoryError", "Metaspace"},
	CodeInstallBizExecuting:       {stepLock, "", ""},
	CodeInstallBizTimedOut:        {stepStopOld, "java.lang.IllegalStateException", "old version cannot be stopped"},
	CodeInstallBizFailed:          {stepStart, "java.lang.ClassNotFoundException", "$main"},
	CodeInstallBizUserError:       {stepStart, "java.lang.reflect.InvocationTargetException", ""},
	CodeUninstallBizFailed:        {stepStop, "java.lang.IllegalStateException", "stop handler failed"},
	CodeUninstallRequirementUnmet: {stepGuard, "java.lang.IllegalStateException", "the active one of several versions must not be uninstalled"},
}

// ErrorCodes lists the codes that a fault of kind error may have, sorted.
func ErrorCodes() []string { return slices.Sorted(maps.Keys(errorSpecs)) }

// kindSpec says which fields a kind reads.
type kindSpec struct {
	state           bool // holds while it is there: no count, no probability
	delay, commands bool
	messages        bool
	biz             bool
}

var kindSpecs = map[FaultKind]kindSpec{
	FaultError:         {commands: true, biz: true},
	FaultLatency:       {delay: true, commands: true, biz: true},
	FaultHang:          {commands: true, biz: true},
	FaultCrash:         {delay: true, commands: true, biz: true},
	FaultSilent:        {},
	FaultDeaf:          {commands: true},
	FaultDisconnect:    {state: true},
	FaultSlowLink:      {delay: true},
	FaultDuplicate:     {messages: true},
	FaultDelay:         {delay: true, messages: true},
	FaultReorder:       {delay: true, messages: true},
	FaultStale:         {delay: true, messages: true},
	FaultCorrupt:       {messages: true},
	FaultClockSkew:     {state: true},
	FaultFlapping:      {state: true, biz: true},
	FaultMetaspaceFull: {state: true},
	FaultActuatorDown:  {state: true, biz: true},
	FaultWebRefuse:     {state: true},
	FaultStartFailed:   {state: true},
}

// FaultKinds lists the kinds, sorted.
func FaultKinds() []FaultKind { return slices.Sorted(maps.Keys(kindSpecs)) }

// Validate reports everything that is wrong with the fault, or nil.
func (f Fault) Validate() error {
	spec, known := kindSpecs[f.Kind]
	if !known {
		return fmt.Errorf("kind %q: unknown, use one of %s", f.Kind, join(FaultKinds()))
	}
	var errs []error
	reject := func(used bool, field string) {
		if used {
			errs = append(errs, fmt.Errorf("%s: has no meaning for kind %s", field, f.Kind))
		}
	}
	reject(spec.state && f.Count != 0, "count")
	reject(spec.state && f.Probability != 0, "probability")
	reject(!spec.delay && f.Delay != Delay{}, "delay")
	reject(!spec.commands && len(f.Match.Commands) > 0, "match.commands")
	reject(!spec.messages && len(f.Match.Messages) > 0, "match.messages")
	reject(!spec.biz && f.Match.Biz != "", "match.biz")
	reject(!spec.biz && f.Match.Version != "", "match.version")
	reject(f.Kind != FaultError && f.Code != "", "code")
	reject(f.Kind != FaultError && f.Message != "", "message")
	reject(f.Kind != FaultFlapping && f.Period != 0, "period")
	reject(f.Kind != FaultClockSkew && f.Skew != 0, "skew")
	reject(f.Kind != FaultCrash && f.Restart != nil, "restart")

	if f.Kind == FaultError {
		if _, ok := errorSpecs[f.Code]; !ok {
			errs = append(errs, fmt.Errorf("code %q: unknown, use one of %s", f.Code, join(ErrorCodes())))
		}
	}
	if (f.Kind == FaultLatency || f.Kind == FaultSlowLink || f.Kind == FaultDelay) && f.Delay == (Delay{}) {
		errs = append(errs, fmt.Errorf("delay: is required for kind %s", f.Kind))
	}
	if f.Kind == FaultClockSkew && f.Skew == 0 {
		errs = append(errs, errors.New("skew: is required for kind clockSkew"))
	}
	if f.Count < 0 {
		errs = append(errs, fmt.Errorf("count %d: must not be negative", f.Count))
	}
	if !(f.Probability >= 0 && f.Probability <= 1) {
		errs = append(errs, fmt.Errorf("probability %v: must be between 0 and 1", f.Probability))
	}
	if f.For < 0 || f.Period < 0 || (f.Restart != nil && f.Restart.After < 0) {
		errs = append(errs, errors.New("for, period, restart.after: a time must not be negative"))
	}
	if err := f.Delay.validate("delay"); err != nil {
		errs = append(errs, err)
	}
	return errors.Join(errs...)
}

func join[T ~string](list []T) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return strings.Join(out, ", ")
}
