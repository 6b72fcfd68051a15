// Package arklet encodes and decodes the messages between the controller and the arklet agent of a base.
//
// It does no I/O. The decoders return an error for invalid input, and do not panic. They accept the heartbeats of all
// three generations, and both spellings of enums (protocol 1, 3.5 and 4.3).
package arklet

import (
	"encoding/json"
	"fmt"

	"github.com/koupleless/koupsandbox/controller/labels"
)

// Command is an arklet command: the last segment of an MQTT topic, or the path of an HTTP request (protocol 3.3 and
// 4.2).
type Command string

// Commands for a base.
const (
	CommandInstallBiz   Command = "installBiz"
	CommandUninstallBiz Command = "uninstallBiz"
	CommandQueryAllBiz  Command = "queryAllBiz"
	CommandHealth       Command = "health"
	// CommandSwitchBiz is available only over HTTP (protocol 3.3).
	CommandSwitchBiz Command = "switchBiz"
	// CommandBatchInstallBiz is the command that a base uses to install its baseline. The controller does not send
	// it.
	CommandBatchInstallBiz Command = "batchInstallBiz"
)

// IsQuery reports whether the command is a query. Queries do not change the base.
func (c Command) IsQuery() bool { return c == CommandHealth || c == CommandQueryAllBiz }

// Module contains the name, version and jar URL of a module. Only installBiz uses the URL.
type Module struct {
	Name    string `json:"bizName"`
	Version string `json:"bizVersion"`
	URL     string `json:"bizUrl,omitempty"`
}

// Identity returns name:version, the format in the messages of arklet.
func (m Module) Identity() string { return m.Name + ":" + m.Version }

// Request is a command for a base.
type Request struct {
	Command Command
	// Module is the module to install, uninstall or switch to; zero for queries.
	Module Module
	// UninstallFirst makes installBiz uninstall all other versions of the module first (protocol 4.5).
	UninstallFirst bool
}

// Body returns the JSON body of the request. For queries, the body is an empty object.
func (r Request) Body() ([]byte, error) {
	switch r.Command {
	case CommandInstallBiz, CommandUninstallBiz, CommandSwitchBiz:
		body := struct {
			Module
			InstallStrategy string `json:"installStrategy,omitempty"`
		}{Module: r.Module}
		switch {
		case r.Command != CommandInstallBiz:
			body.URL = ""
		case r.UninstallFirst:
			body.InstallStrategy = labels.UninstallThenInstall
		}
		b, err := json.Marshal(body)
		if err != nil {
			return nil, fmt.Errorf("encoding %s for %s: %w", r.Command, r.Module.Identity(), err)
		}
		return b, nil
	default:
		return []byte("{}"), nil
	}
}

// BaselineBody returns the body of the answer to a baseline query. It is a JSON array, and never null (protocol 3.6).
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
