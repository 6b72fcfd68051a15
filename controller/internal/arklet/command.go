// Package arklet holds the messages that the controller exchanges with the arklet agent of a base:
// what it sends, and what it can read of the answers.
//
// The package does no I/O. Decoders take whatever bytes arrived and answer with a value or an
// error, never a panic; they accept all three generations of heartbeats and both enum spellings
// (protocol 1, 3.5 and 4.3).
package arklet

import (
	"encoding/json"
	"fmt"
)

// Command is the name of an arklet command: the last segment of an MQTT topic, or the path of an
// HTTP request (protocol 3.4 and 4.2).
type Command string

// The commands that the controller sends.
const (
	CommandInstallBiz   Command = "installBiz"
	CommandUninstallBiz Command = "uninstallBiz"
	CommandQueryAllBiz  Command = "queryAllBiz"
	CommandHealth       Command = "health"
	// CommandSwitchBiz exists over HTTP only (protocol 3.3).
	CommandSwitchBiz Command = "switchBiz"
	// CommandBatchInstallBiz is what a base runs when it is sent a baseline.
	CommandBatchInstallBiz Command = "batchInstallBiz"
)

// IsQuestion says that the command only asks, and changes nothing on the base.
func (c Command) IsQuestion() bool { return c == CommandHealth || c == CommandQueryAllBiz }

// Module is a biz at a version and the URL of its jar. A base gets the URL with installBiz only.
type Module struct {
	Name    string `json:"bizName"`
	Version string `json:"bizVersion"`
	URL     string `json:"bizUrl,omitempty"`
}

// Identity is how arklet names a biz in locks and messages: name:version.
func (m Module) Identity() string { return m.Name + ":" + m.Version }

// Request is one command for one base.
type Request struct {
	Command Command
	// Module is what install, uninstall and switch work on; queries leave it zero.
	Module Module
}

// Body is the JSON body of the request. Queries send an empty object, as the original controller
// does.
func (r Request) Body() ([]byte, error) {
	switch r.Command {
	case CommandInstallBiz, CommandUninstallBiz, CommandSwitchBiz:
		m := r.Module
		if r.Command != CommandInstallBiz {
			m.URL = ""
		}
		b, err := json.Marshal(m)
		if err != nil {
			return nil, fmt.Errorf("encoding %s for %s: %w", r.Command, r.Module.Identity(), err)
		}
		return b, nil
	default:
		return []byte("{}"), nil
	}
}

// BaselineBody is the answer to a queryBaseline: a bare JSON array, which is empty, not null, when
// there is nothing to install (protocol 3.6).
func BaselineBody(modules []Module) ([]byte, error) {
	if modules == nil {
		modules = []Module{}
	}
	b, err := json.Marshal(modules)
	if err != nil {
		return nil, fmt.Errorf("encoding a baseline of %d modules: %w", len(modules), err)
	}
	return b, nil
}
