// Package audit compares the requests of module controllers, from audit logs of embedded API servers, with the RBAC rules
// of the manifests.
package audit

import (
	"bufio"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/koupleless/koupsandbox/controller/deploy"
	"github.com/koupleless/koupsandbox/sandbox"
)

// policy logs each request of the controllers once: a watch at its start, and other requests at their end.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
  - {level: Metadata, users: [%[1]s], verbs: [watch], omitStages: [RequestReceived, ResponseComplete]}
  - {level: Metadata, users: [%[1]s], omitStages: [RequestReceived, ResponseStarted]}
  - {level: None}
`

// wrapper runs the binary of the control plane with other flags for the API server. Each start has its own log, with the
// name of the sandbox's directory.
const wrapper = `#!/bin/sh
here=%[1]q
if [ "$1" = kube-apiserver ]; then
	for flag do
		shift
		case $flag in
		%[3]s) ;;
		*) set -- "$@" "$flag" ;;
		esac
	done
	set -- "$@" --audit-policy-file="$here/policy.yaml" --audit-log-path="$here/$(basename "$PWD").$$.log" --audit-log-maxsize=%[4]d --audit-log-maxbackup=1
fi
exec %[2]q "$@"
`

// maxSize is the maximum size of a log in MB. The whole catalogue needs 6.
const maxSize = 64

// Wrap creates a directory with a control plane that replaces the one in bin (box.Box.Instead). Its API server writes an
// audit log, and does not get the flags in without, which have no dashes.
func Wrap(bin, folder string, without ...string) error {
	patterns := []string{"--no-such-flag"}
	for _, flag := range without {
		patterns = append(patterns, "--"+flag+"=*")
	}
	script := fmt.Sprintf(wrapper, folder, filepath.Join(bin, sandbox.ControlPlaneBinary), strings.Join(patterns, "|"),
		maxSize)
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "policy.yaml"), fmt.Appendf(nil, policy, deploy.User), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, sandbox.ControlPlaneBinary), []byte(script),
			0o700) //nolint:gosec // a program
	}
	if err != nil {
		return fmt.Errorf("building a control plane that writes audit logs: %w", err)
	}
	return nil
}

// Log has the requests of controllers.
type Log struct {
	// Requests has the number of requests of each kind, such as "nodes/status update".
	Requests map[string]int
	// Refused has the kinds of the requests that the API server did not authorize.
	Refused []string
	// Events and Bytes are the size of the logs.
	Events, Bytes int
}

type event struct {
	Verb      string `json:"verb"`
	ObjectRef *struct {
		Resource    string `json:"resource"`
		Namespace   string `json:"namespace"`
		APIGroup    string `json:"apiGroup"`
		Subresource string `json:"subresource"`
	} `json:"objectRef"`
	Annotations map[string]string `json:"annotations"`
}

// kind returns the kind of a request: resource and verb, with the namespace if a Role grants it.
func (e event) kind(roles map[string]bool) string {
	o := e.ObjectRef
	name := strings.Trim(o.APIGroup+"/"+o.Resource+"/"+o.Subresource, "/")
	if roles[name] {
		name += " in " + o.Namespace
	}
	return name + " " + e.Verb
}

// Read adds the logs of a sandbox that runs the control plane of Wrap in the directory. A log that was rotated is an error.
func (l *Log) Read(folder, name string, g *Grants) error {
	files, err := filepath.Glob(filepath.Join(folder, name+".*.log"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no log of %s in %s", name, folder)
	}
	for _, file := range files {
		if err == nil && strings.Contains(strings.TrimPrefix(filepath.Base(file), name), "-") {
			err = fmt.Errorf("the log of %s was rotated, because it exceeded %d MB", name, maxSize)
		}
		if err == nil {
			err = l.read(file, g)
		}
	}
	if err != nil {
		return fmt.Errorf("reading an audit log: %w", err)
	}
	return nil
}

// read reads a log. It ignores an incomplete last line: the API server is still writing, or was killed.
func (l *Log) read(file string, g *Grants) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // it was only read
	if l.Requests == nil {
		l.Requests = map[string]int{}
	}
	for lines := bufio.NewReader(f); ; {
		line, err := lines.ReadBytes('\n')
		if errors.Is(err, io.EOF) {
			return nil
		}
		var e event
		if err == nil {
			err = json.Unmarshal(line, &e)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", file, err)
		}
		l.Events++
		l.Bytes += len(line)
		if e.ObjectRef == nil { // such as /version, which every user may read, except in the first second of the API server
			continue
		}
		kind := e.kind(g.namespaced)
		l.Requests[kind]++
		if e.Annotations["authorization.k8s.io/decision"] == "forbid" {
			l.Refused = append(l.Refused, kind)
		}
	}
}
