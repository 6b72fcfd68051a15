package fault

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kind is the kind of a fault, such as latency or crash.
type Kind string

// The fault kinds. A fault of a kind marked (state) stays in effect until it ends, and has neither a count nor a
// probability. A fault of any other kind is triggered by each match.
const (
	// KindError makes a command fail with the error code Code.
	KindError Kind = "error"
	// KindLatency delays the start of a command by Delay, or until the fault is cleared.
	KindLatency Kind = "latency"
	// KindHang makes a command hang until the base process exits, even if the fault is cleared. The command keeps its
	// lock.
	KindHang Kind = "hang"
	// KindCrash kills the base process during a matching command. If Match is empty, the process is killed Delay
	// after the fault is set. If Count is more than 1, each restarted process is also killed after Delay.
	KindCrash Kind = "crash"
	// KindSilent suppresses heartbeats. The base still executes commands.
	KindSilent Kind = "silent"
	// KindDeaf drops commands. The base still sends heartbeats.
	KindDeaf Kind = "deaf"
	// KindDisconnect closes the MQTT connection and the HTTP port (state).
	KindDisconnect Kind = "disconnect"
	// KindSlowLink delays all MQTT messages by Delay, and keeps their order.
	KindSlowLink Kind = "slowLink"
	// KindDuplicate sends an MQTT message (or an HTTP heartbeat) twice.
	KindDuplicate Kind = "duplicate"
	// KindDelay delays an MQTT message (or an HTTP heartbeat) by Delay, but does not delay later messages.
	KindDelay Kind = "delay"
	// KindReorder sends an MQTT message after the next message, or after Delay (default 1 s).
	KindReorder Kind = "reorder"
	// KindStale sets the `publishTimestamp` of an MQTT message back by Delay (default 11 s). A controller drops messages
	// that are older than 10 s.
	KindStale Kind = "stale"
	// KindCorrupt corrupts the second half of a message.
	KindCorrupt Kind = "corrupt"
	// KindClockSkew shifts the timestamps that the base sends by Skew (state).
	KindClockSkew Kind = "clockSkew"
	// KindFlapping alternates the reported state of matching modules, or of the base if Match.Biz is its name, between
	// activated and deactivated every Period (default 5 s) (state).
	KindFlapping Kind = "flapping"
	// KindMetaspaceFull makes the base report in its health that the metaspace is exhausted, and reject installs
	// (state).
	KindMetaspaceFull Kind = "metaspaceFull"
	// KindActuatorDown sets the health of matching modules to DOWN, or the health of the base if
	// Match has no module (state).
	KindActuatorDown Kind = "actuatorDown"
	// KindUninstalled uninstalls matching modules, or all modules, Delay after the fault is set. The controller is not
	// notified.
	KindUninstalled Kind = "uninstalled"
	// KindWebRefuse closes the listener for module traffic (state).
	KindWebRefuse Kind = "webRefuse"
	// KindStartFailed makes the base fail to start and report the health DOWN (state).
	KindStartFailed Kind = "startFailed"
)

// The arklet commands (protocol 4.4), and the last segments of the topics on which a base publishes. The message
// response is the HTTP response to a command.
var (
	commands = []string{"batchInstallBiz", "health", "help", "installBiz", "queryAllBiz", "queryBizOps", "switchBiz",
		"uninstallBiz"}
	messages = []string{"batchInstallBizResponse", "biz", "bizOperation", "health", "heart", "queryBaseline",
		"response", "simpleBiz"}
)

// Match selects the commands, modules or messages that a fault affects. An empty field matches everything.
type Match struct {
	// Commands lists command names, such as installBiz.
	Commands []string `json:"commands,omitempty"`
	// Biz and Version are the name and the version of the module that a command names.
	Biz     string `json:"biz,omitempty"`
	Version string `json:"version,omitempty"`
	// Messages lists the last segments of the topics on which the base publishes, such as heart, health, simpleBiz
	// and bizOperation. Over HTTP, heart is a heartbeat, and response is the response to a command.
	Messages []string `json:"messages,omitempty"`
}

// Restart describes the restart of a crashed base process.
type Restart struct {
	// After is the time between the crash and the restart. Default and minimum: 500 ms.
	After Duration `json:"after,omitempty"`
	// NewIdentity gives the restarted base a new random identity. Default: the identity does not change.
	NewIdentity bool `json:"newIdentity,omitempty"`
}

// Fault describes a fault to inject into a base. Call Validate before you use it.
type Fault struct {
	// ID identifies the fault. Default: a generated ID.
	ID string `json:"id,omitempty"`
	// Kind is the kind of the fault. Required.
	Kind Kind `json:"kind"`
	// Match selects the commands, modules or messages that trigger the fault. Default: all of them.
	Match Match `json:"match,omitzero"`
	// Skip is the number of initial matches that do not trigger the fault. Default: 0.
	Skip int `json:"skip,omitempty"`
	// Count is the number of times that the fault is triggered before it ends. Default: unlimited; 1 for crash.
	Count int `json:"count,omitempty"`
	// Probability is the probability that a match triggers the fault, from 0 to 1. Default: 1.
	Probability float64 `json:"probability,omitempty"`
	// For is the duration of the fault. Default: the fault stays in effect until it is cleared.
	For Duration `json:"for,omitempty"`

	// Code is the error code that a command returns (kind error).
	Code string `json:"code,omitempty"`
	// Message is the exception text (kind error): "java.io.IOException: x" sets the exception class and its message,
	// and any other text is the message of a RuntimeException. Default: depends on Code.
	Message string `json:"message,omitempty"`
	// Delay is the delay for the kinds latency, crash, slowLink, delay, reorder, stale and uninstalled.
	Delay Delay `json:"delay,omitzero"`
	// Period is the time between two changes of the reported state (kind flapping). Default: 5 s.
	Period Duration `json:"period,omitempty"`
	// Skew is the clock offset (kind clockSkew), negative for a slow clock.
	Skew Duration `json:"skew,omitempty"`
	// Restart configures the restart after a crash (kind crash). Default: the process stays down until Base.Restart
	// is called.
	Restart *Restart `json:"restart,omitempty"`
	// Seed is the random seed of the fault. Default: the random seed of the base.
	Seed uint64 `json:"seed,omitempty"`
	// MayNotFire lets a scenario pass even if the fault was never triggered. Without it, such a scenario fails. Bases
	// ignore the field. It must be false for state kinds.
	MayNotFire bool `json:"mayNotFire,omitempty"`
}

// Status is the status of a fault that was set and has not been cleared.
type Status struct {
	Fault
	// Triggered is the number of times that the fault was triggered. It is 0 for state kinds.
	Triggered int `json:"fired"`
	// Ended is the reason why the fault has ended. It is empty while the fault is in effect.
	Ended string `json:"ended,omitempty"`
}

// kindSpec lists the fields that a fault kind supports.
type kindSpec struct {
	state           bool // the fault stays in effect until it ends
	delay, commands bool
	messages        bool
	biz             bool
}

var kindSpecs = map[Kind]kindSpec{
	KindError:         {commands: true, biz: true},
	KindLatency:       {delay: true, commands: true, biz: true},
	KindHang:          {commands: true, biz: true},
	KindCrash:         {delay: true, commands: true, biz: true},
	KindSilent:        {},
	KindDeaf:          {commands: true},
	KindDisconnect:    {state: true},
	KindSlowLink:      {delay: true},
	KindDuplicate:     {messages: true},
	KindDelay:         {delay: true, messages: true},
	KindReorder:       {delay: true, messages: true},
	KindStale:         {delay: true, messages: true},
	KindCorrupt:       {messages: true},
	KindClockSkew:     {state: true},
	KindFlapping:      {state: true, biz: true},
	KindMetaspaceFull: {state: true},
	KindActuatorDown:  {state: true, biz: true},
	KindUninstalled:   {delay: true, biz: true},
	KindWebRefuse:     {state: true},
	KindStartFailed:   {state: true},
}

// IsState reports whether faults of the kind stay in effect until they end, rather than being triggered by matches.
func (k Kind) IsState() bool { return kindSpecs[k].state }

// Kinds returns all fault kinds, sorted.
func Kinds() []Kind { return slices.Sorted(maps.Keys(kindSpecs)) }

// The causes of an invalid fault. The errors of Validate wrap them.
var (
	errUnknown     = errors.New("unknown")
	errUnsupported = errors.New("is not supported")
	errRequired    = errors.New("is required")
	errNegative    = errors.New("must not be negative")
)

// Validate returns all validation errors of the fault, joined. It returns nil if the fault is valid.
func (f Fault) Validate() error {
	spec, known := kindSpecs[f.Kind]
	if !known {
		return fmt.Errorf("kind %q: %w; use one of %s", f.Kind, errUnknown, join(Kinds()))
	}
	var errs []error
	reject := func(isSet bool, field string) {
		if isSet {
			errs = append(errs, fmt.Errorf("%s: %w by kind %s", field, errUnsupported, f.Kind))
		}
	}
	reject(spec.state && f.Skip != 0, "skip")
	reject(spec.state && f.Count != 0, "count")
	reject(spec.state && f.Probability != 0, "probability")
	reject(!spec.delay && f.Delay != Delay{}, "delay")
	reject(!spec.commands && len(f.Match.Commands) > 0, "match.commands")
	reject(!spec.messages && len(f.Match.Messages) > 0, "match.messages")
	reject(!spec.biz && f.Match.Biz != "", "match.biz")
	reject(!spec.biz && f.Match.Version != "", "match.version")
	reject(spec.state && f.MayNotFire, "mayNotFire")
	reject(f.Kind != KindError && f.Code != "", "code")
	reject(f.Kind != KindError && f.Message != "", "message")
	reject(f.Kind != KindFlapping && f.Period != 0, "period")
	reject(f.Kind != KindClockSkew && f.Skew != 0, "skew")
	reject(f.Kind != KindCrash && f.Restart != nil, "restart")

	unknown := func(field string, names, allowed []string) {
		for _, name := range names {
			if !slices.Contains(allowed, name) {
				errs = append(errs, fmt.Errorf("%s %q: %w; use one of %s", field, name, errUnknown, join(allowed)))
			}
		}
	}
	unknown("match.commands", f.Match.Commands, commands)
	unknown("match.messages", f.Match.Messages, messages)

	if f.Kind == KindError {
		if !slices.Contains(codes, f.Code) {
			errs = append(errs, fmt.Errorf("code %q: %w; use one of %s", f.Code, errUnknown, join(codes)))
		}
	}
	if (f.Kind == KindLatency || f.Kind == KindSlowLink || f.Kind == KindDelay) && f.Delay == (Delay{}) {
		errs = append(errs, fmt.Errorf("delay: %w for kind %s", errRequired, f.Kind))
	}
	if f.Kind == KindClockSkew && f.Skew == 0 {
		errs = append(errs, fmt.Errorf("skew: %w for kind clockSkew", errRequired))
	}
	if f.Skip < 0 {
		errs = append(errs, fmt.Errorf("skip %d: %w", f.Skip, errNegative))
	}
	if f.Count < 0 {
		errs = append(errs, fmt.Errorf("count %d: %w", f.Count, errNegative))
	}
	if !(f.Probability >= 0 && f.Probability <= 1) {
		errs = append(errs, fmt.Errorf("probability %v: must be between 0 and 1", f.Probability))
	}
	if f.For < 0 || f.Period < 0 || (f.Restart != nil && f.Restart.After < 0) {
		errs = append(errs, fmt.Errorf("for, period, restart.after: %w", errNegative))
	}
	return errors.Join(append(errs, f.Delay.Validate("delay"))...)
}

func join[T ~string](list []T) string {
	out := make([]string, len(list))
	for i, s := range list {
		out[i] = string(s)
	}
	return strings.Join(out, ", ")
}
