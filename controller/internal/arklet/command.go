// Package arklet encodes and decodes the messages between the controller and the arklet agent of a base.
//
// It does no I/O. The decoders return an error for invalid input, and do not panic. They accept the heartbeats of all
// three generations, and both spellings of enums (protocol 1, 3.5 and 4.3).
package arklet

import (
	"encoding/json"
	"fmt"
)

// Command is an arklet command: the last segment of an MQTT topic, or the path of an HTTP request (protocol 3.4 and
// 4.2).
type Command string

// The commands.
const (
	CommandInstallBiz   Command = "installBiz"
	CommandUninstallBiz Command = "uninstallBiz"
	CommandQueryAllBiz  Command = "queryAllBiz"
	CommandHealth       Command = "health"
	// CommandSwitchBiz exists over HTTP only (protocol 3.3).
	CommandSwitchBiz Command = "switchBiz"
	// CommandBatchInstallBiz is the command with which a base installs its baseline. The controller does not send it.
	CommandBatchInstallBiz Command = "batchInstallBiz"
)

// IsQuery reports whether the command is a query, which does not change the base.
func (c Command) IsQuery() bool { return c == CommandHealth || c == CommandQueryAllBiz }

// Module is the name, version and jar URL of a module. Only installBiz uses the URL.
type Module struct {
	Name    string `json:"bizName"`
	Version string `json:"bizVersion"`
	URL     string `json:"bizUrl,omitempty"`
}

// Identity returns name:version, as in the messages of arklet.
func (m Module) Identity() string { return m.Name + ":" + m.Version }

// Request is a command for a base.
type Request struct {
	Command Command
	// Module is the module of install, uninstall and switch; zero for queries.
	Module Module
}

// Body returns the JSON body of the request. It is an empty object for queries.
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

// BaselineBody returns the answer to a baseline query: a JSON array, which is not null (protocol 3.6).
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
