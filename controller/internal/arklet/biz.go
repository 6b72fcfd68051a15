package arklet

import (
	"cmp"
	"fmt"
	"strings"
	"time"
)

// State is the state of a biz on a base, in lower case whatever the tunnel wrote (protocol 5.1).
type State string

// The states that a base can report; anything else is StateUnresolved.
const (
	StateUnresolved  State = "unresolved"
	StateResolved    State = "resolved"
	StateActivated   State = "activated"
	StateDeactivated State = "deactivated"
	StateBroken      State = "broken"
	StateStopped     State = "stopped"
)

// ParseState reads either spelling of a state (ACTIVATED, activated).
func ParseState(s string) State {
	switch st := State(strings.ToLower(s)); st {
	case StateResolved, StateActivated, StateDeactivated, StateBroken, StateStopped:
		return st
	default:
		return StateUnresolved
	}
}

// Record is one entry of a biz's history (protocol 5.2).
type Record struct {
	At      time.Time
	State   State
	Reason  string // upper snake case whatever the tunnel wrote: INSTALL_FAILED
	Message string
}

// Biz is a module as a base reports it.
type Biz struct {
	Name    string
	Version string
	State   State
	// Latest is the last record; zero when the base sent none.
	Latest Record
	// Records is the history, oldest first; simpleBiz carries the last one at most.
	Records []Record
	// WebContextPath is empty in simpleBiz.
	WebContextPath string
}

// Module is the biz without its state.
func (b Biz) Module() Module { return Module{Name: b.Name, Version: b.Version} }

type wireRecord struct {
	ChangeTime int64  `json:"changeTime"`
	State      string `json:"state"`
	Reason     string `json:"reason"`
	Message    string `json:"message"`
}

func (r wireRecord) record() (Record, error) {
	at, err := fromMillis("changeTime", r.ChangeTime)
	if err == nil {
		err = checkNames("reason", r.Reason)
	}
	return Record{
		At:      at,
		State:   ParseState(r.State),
		Reason:  strings.ToUpper(strings.ReplaceAll(r.Reason, " ", "_")),
		Message: Text(r.Message),
	}, err
}

// wireBiz covers simpleBiz (name, version, state, latestStateRecord) and the full form of
// queryAllBiz and bizInfos (bizName, bizVersion, bizState, bizStateRecords).
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
}

// masterMainClass is how sofa-ark marks the base itself in a full list (protocol 4.7).
const masterMainClass = "embed main"

func (w wireBiz) biz() (Biz, error) {
	b := Biz{
		Name:           cmp.Or(w.Name, w.BizName),
		Version:        cmp.Or(w.Version, w.BizVersion),
		State:          ParseState(cmp.Or(w.State, w.BizState)),
		WebContextPath: w.WebContext,
	}
	if err := checkNames("bizName", b.Name, "bizVersion", b.Version, "webContextPath", b.WebContextPath); err != nil {
		return Biz{}, err
	}
	for _, wire := range w.Records[max(0, len(w.Records)-maxRecords):] {
		r, err := wire.record()
		if err != nil {
			return Biz{}, fmt.Errorf("biz %q: %w", b.Name, err)
		}
		b.Records = append(b.Records, r)
	}
	switch {
	case w.Latest != nil:
		var err error
		if b.Latest, err = w.Latest.record(); err != nil {
			return Biz{}, fmt.Errorf("biz %q: %w", b.Name, err)
		}
	case len(b.Records) > 0:
		b.Latest = b.Records[len(b.Records)-1]
	}
	return b, nil
}

// DecodeSimpleBiz reads the data of a base/simpleBiz message: the list of installed modules without
// the base itself (protocol 3.6).
func DecodeSimpleBiz(data []byte) ([]Biz, error) {
	var w []wireBiz
	if err := decode(data, &w); err != nil {
		return nil, err
	}
	return bizList(w)
}

// bizList drops the base itself and entries without a name.
func bizList(w []wireBiz) ([]Biz, error) {
	if len(w) > MaxModules {
		return nil, fmt.Errorf("%w: a list of %d modules: at most %d", ErrLimit, len(w), MaxModules)
	}
	list := make([]Biz, 0, len(w))
	for _, wire := range w {
		if wire.MainClass == masterMainClass || cmp.Or(wire.Name, wire.BizName) == "" {
			continue
		}
		b, err := wire.biz()
		if err != nil {
			return nil, err
		}
		list = append(list, b)
	}
	return list, nil
}
