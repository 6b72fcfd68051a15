package arklet

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"
	"time"
)

// State is the state of a module on a base, as a lower-case string (protocol 5.1).
type State string

// States of a module. ParseState converts any other state to StateUnresolved.
const (
	StateUnresolved  State = "unresolved"
	StateResolved    State = "resolved"
	StateActivated   State = "activated"
	StateDeactivated State = "deactivated"
	StateBroken      State = "broken"
	StateStopped     State = "stopped"
)

// ParseState parses a state. It accepts upper and lower case.
func ParseState(s string) State {
	switch st := State(strings.ToLower(s)); st {
	case StateResolved, StateActivated, StateDeactivated, StateBroken, StateStopped:
		return st
	default:
		return StateUnresolved
	}
}

// Record is an entry in the history of a module (protocol 5.2).
type Record struct {
	At      time.Time
	State   State
	Reason  string // upper snake case over both tunnels, for example INSTALL_FAILED
	Message string
}

// ReasonSwitched is the reason in the last record of the old version after the base has switched to another version
// (protocol 5.2).
const ReasonSwitched = "SWITCHED"

// Biz is a module in the module list of a base.
type Biz struct {
	Name    string
	Version string
	State   State
	// Latest is the most recent record; zero if the base sent no records.
	Latest Record
	// Records is the history of the module, the oldest record first. simpleBiz contains at most one record.
	Records []Record
	// WebContextPath is the web context path; empty in simpleBiz.
	WebContextPath string
}

// Module returns the module name and version.
func (b Biz) Module() Module { return Module{Name: b.Name, Version: b.Version} }

// Installing reports whether the base is installing the module.
func (b Biz) Installing() bool { return b.State == StateUnresolved || b.State == StateResolved }

type wireRecord struct {
	ChangeTime int64  `json:"changeTime"`
	State      string `json:"state"`
	Reason     string `json:"reason"`
	Message    string `json:"message"`
}

// record converts a state record from its wire format. It clears fields that exceed their limits, and returns an
// error for one of these fields.
func (r wireRecord) record() (Record, error) {
	at, err := fromMillis("changeTime", r.ChangeTime)
	reason := strings.ToUpper(strings.ReplaceAll(r.Reason, " ", "_"))
	if bad := checkNames("reason", reason); bad != nil {
		reason, err = "", bad
	}
	return Record{At: at, State: ParseState(r.State), Reason: reason, Message: SanitizeText(r.Message)}, err
}

// wireBiz is the wire format of a module. It supports the fields of simpleBiz (name, version, state,
// latestStateRecord), and the fields of queryAllBiz and bizInfos (bizName, bizVersion, bizState, bizStateRecords).
type wireBiz struct {
	Name       string       `json:"name"`
	Version    string       `json:"version"`
	State      string       `json:"state"`
	Latest     *wireRecord  `json:"latestStateRecord"`
	BizName    string       `json:"bizName"`
	BizVersion string       `json:"bizVersion"`
	BizState   string       `json:"bizState"`
	Records    []wireRecord `json:"bizStateRecords"`
	WebContext string       `json:"webContextPath"`
	MainClass  string       `json:"mainClass"`
	bad        error        // error from UnmarshalJSON
}

// UnmarshalJSON implements json.Unmarshaler. A field of the wrong type makes only this entry invalid, not the whole
// list.
func (w *wireBiz) UnmarshalJSON(entry []byte) error {
	type plain wireBiz
	if entry[0] != '{' {
		return fmt.Errorf("%.40q is not a JSON object", entry)
	}
	if err := json.Unmarshal(entry, (*plain)(w)); err != nil {
		w.bad = fmt.Errorf("decoding a biz: %.200s", err.Error())
	}
	return nil
}

// masterMainClass is the main class of the base itself in a full module list from sofa-ark (protocol 4.7).
const masterMainClass = "embed main"

// biz converts a module from its wire format. ok is false if the name or the version is invalid. Other fields that
// exceed the limits are cleared. The returned error is the first problem.
func (w wireBiz) biz() (b Biz, ok bool, err error) {
	if w.bad != nil {
		return Biz{}, false, w.bad
	}
	b = Biz{
		Name:           cmp.Or(w.Name, w.BizName),
		Version:        cmp.Or(w.Version, w.BizVersion),
		State:          ParseState(cmp.Or(w.State, w.BizState)),
		WebContextPath: w.WebContext,
	}
	if err := checkNames("bizName", b.Name, "bizVersion", b.Version); err != nil {
		return Biz{}, false, err
	}
	addError := func(bad error) {
		if err == nil && bad != nil {
			err = fmt.Errorf("biz %q: %w", b.Name, bad)
		}
	}
	if bad := checkNames("webContextPath", b.WebContextPath); bad != nil {
		b.WebContextPath = ""
		addError(bad)
	}
	for _, wire := range w.Records[max(0, len(w.Records)-maxRecords):] {
		r, bad := wire.record()
		addError(bad)
		b.Records = append(b.Records, r)
	}
	switch {
	case w.Latest != nil:
		var bad error
		b.Latest, bad = w.Latest.record()
		addError(bad)
	case len(b.Records) > 0:
		b.Latest = b.Records[len(b.Records)-1]
	}
	return b, true, err
}

// DecodeSimpleBiz decodes the data of a base/simpleBiz message: the list of installed modules without the base itself
// (protocol 3.6). If the error is ErrDropped, the returned list contains the valid modules.
func DecodeSimpleBiz(data []byte) ([]Biz, error) {
	var w []wireBiz
	if err := decode(data, &w); err != nil {
		return nil, err
	}
	return bizList(w)
}

// bizList converts a module list. It omits the base itself and entries without a name. It also drops invalid entries,
// so that one invalid entry does not hide the other modules. In this case, the error is ErrDropped with the first
// invalid entry.
func bizList(w []wireBiz) (list []Biz, err error) {
	if len(w) > MaxModules {
		return nil, fmt.Errorf("%w: the list has %d modules; the maximum is %d", ErrLimit, len(w), MaxModules)
	}
	list = make([]Biz, 0, len(w))
	for _, wire := range w {
		if wire.MainClass == masterMainClass || wire.bad == nil && cmp.Or(wire.Name, wire.BizName) == "" {
			continue
		}
		b, ok, bad := wire.biz()
		if bad != nil && err == nil {
			err = fmt.Errorf("%w: %w", ErrDropped, bad)
		}
		if ok {
			list = append(list, b)
		}
	}
	return list, err
}
