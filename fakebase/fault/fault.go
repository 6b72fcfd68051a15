package fault

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
)

// Kind names what goes wrong.
type Kind string

// The kinds of faults. Those marked (state) hold for as long as the fault is
// there and take neither count nor probability; the others happen each time
// something matches.
const (
	// KindError makes a command fail with the error code in Code, at the step
	// where that code belongs.
	KindError Kind = "error"
	// KindLatency makes a command start later, by Delay, or when the fault is cleared.
	KindLatency Kind = "latency"
	// KindHang makes a command never end; its lock stays taken until the process ends.
	KindHang Kind = "hang"
	// KindCrash ends the process. With a Match, in the middle of a command that
	// matches; without, Delay after the fault came, and, if Count allows it,
	// Delay after each restart. Restart says whether and how it comes back.
	KindCrash Kind = "crash"
	// KindSilent suppresses heartbeats; commands still work.
	KindSilent Kind = "silent"
	// KindDeaf loses commands before they are read; heartbeats still go out.
	KindDeaf Kind = "deaf"
	// KindDisconnect breaks the MQTT connection and refuses the HTTP port (state).
	KindDisconnect Kind = "disconnect"
	// KindSlowLink carries all MQTT messages, in and out, later by Delay, in order.
	KindSlowLink Kind = "slowLink"
	// KindDuplicate sends a message twice (over HTTP: heartbeats).
	KindDuplicate Kind = "duplicate"
	// KindDelay sends a message later by Delay; others may overtake it (over
	// HTTP: heartbeats).
	KindDelay Kind = "delay"
	// KindReorder holds an MQTT message back until the next one has been sent, or
	// for Delay (zero = 1 s) if none comes.
	KindReorder Kind = "reorder"
	// KindStale sends an MQTT message whose publishTimestamp is older by Delay (zero = 11 s,
	// beyond the 10 s after which a controller drops it).
	KindStale Kind = "stale"
	// KindCorrupt sends a message whose second half is garbage.
	KindCorrupt Kind = "corrupt"
	// KindClockSkew shifts the base's clock by Skew on the wire (state).
	KindClockSkew Kind = "clockSkew"
	// KindFlapping reports matching modules, in turn, as they are and as
	// deactivated, each for Period (zero = 5 s) (state).
	KindFlapping Kind = "flapping"
	// KindMetaspaceFull exhausts the metaspace: health says so and installs fail (state).
	KindMetaspaceFull Kind = "metaspaceFull"
	// KindActuatorDown makes a health check DOWN: that of the modules that
	// match, or of the base if Match names none (state).
	KindActuatorDown Kind = "actuatorDown"
	// KindUninstalled takes the modules that match, or all if Match names none, off the base, Delay
	// after the fault came, as somebody does who asks the base himself: nobody else is told.
	KindUninstalled Kind = "uninstalled"
	// KindWebRefuse closes the listener for module traffic (state).
	KindWebRefuse Kind = "webRefuse"
	// KindStartFailed makes the base itself fail to start: it never gets
	// ready and its health is DOWN (state).
	KindStartFailed Kind = "startFailed"
)

// The commands of arklet (protocol 4.4), and the last parts of the topics that a base publishes on;
// a response is the answer to a command over HTTP.
var (
	commands = []string{"batchInstallBiz", "health", "help", "installBiz", "queryAllBiz", "queryBizOps", "switchBiz",
		"uninstallBiz"}
	messages = []string{"batchInstallBizResponse", "biz", "bizOperation", "health", "heart", "queryBaseline",
		"response", "simpleBiz"}
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
	Kind Kind `json:"kind"`
	// Match narrows the fault down; the zero value matches everything.
	Match Match `json:"match,omitzero"`
	// Skip is how many matches pass before it happens; zero = none.
	Skip int `json:"skip,omitempty"`
	// Count is how often it happens before it ends; zero = without limit, for crash = once.
	Count int `json:"count,omitempty"`
	// Probability is the share of the matches at which it happens; zero = 1, always.
	Probability float64 `json:"probability,omitempty"`
	// For is how long it is there; zero = until it is cleared.
	For Duration `json:"for,omitempty"`

	// Code is the error code that a fault of kind error gives.
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
	// MayNotFire keeps the run of a scenario from failing when the fault has done nothing by its end.
	// A base does not read it. Kinds that hold for as long as they are there have no such question.
	MayNotFire bool `json:"mayNotFire,omitempty"`
}

// Status is a fault that was set and not cleared yet.
type Status struct {
	Fault
	// Triggered is how often it has happened; state faults count nothing.
	Triggered int `json:"fired"`
	// Ended is the reason for which it has ended; empty = it is in effect.
	Ended string `json:"ended,omitempty"`
}

// kindSpec says which fields a kind reads.
type kindSpec struct {
	state           bool // holds while it is there: no count, no probability
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

// IsState tells whether faults of the kind hold for as long as they are there.
func (k Kind) IsState() bool { return kindSpecs[k].state }

// Kinds lists the kinds, sorted.
func Kinds() []Kind { return slices.Sorted(maps.Keys(kindSpecs)) }

// Causes of invalid faults. The errors of Validate wrap them.
var (
	errUnknown   = errors.New("unknown")
	errNoMeaning = errors.New("has no meaning")
	errRequired  = errors.New("is required")
	errNegative  = errors.New("must not be negative")
)

// Validate reports everything that is wrong with the fault, or nil.
func (f Fault) Validate() error {
	spec, known := kindSpecs[f.Kind]
	if !known {
		return fmt.Errorf("kind %q: %w, use one of %s", f.Kind, errUnknown, join(Kinds()))
	}
	var errs []error
	reject := func(used bool, field string) {
		if used {
			errs = append(errs, fmt.Errorf("%s: %w for kind %s", field, errNoMeaning, f.Kind))
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

	unknown := func(field string, names, known []string) {
		for _, name := range names {
			if !slices.Contains(known, name) {
				errs = append(errs, fmt.Errorf("%s %q: %w, use one of %s", field, name, errUnknown, join(known)))
			}
		}
	}
	unknown("match.commands", f.Match.Commands, commands)
	unknown("match.messages", f.Match.Messages, messages)

	if f.Kind == KindError {
		if !slices.Contains(codes, f.Code) {
			errs = append(errs, fmt.Errorf("code %q: %w, use one of %s", f.Code, errUnknown, join(codes)))
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
		errs = append(errs, fmt.Errorf("for, period, restart.after: a time %w", errNegative))
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
