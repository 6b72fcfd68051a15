// Package audit has the API servers of embedded sandboxes write down what the module controllers ask
// of them, and compares that with the rights that the manifests give.
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

// policy has each request of the controllers written once: a watch, which may never end, when it
// begins, and anything else when it is answered.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
  - {level: Metadata, users: [%[1]s], verbs: [watch], omitStages: [RequestReceived, ResponseComplete]}
  - {level: Metadata, users: [%[1]s], omitStages: [RequestReceived, ResponseStarted]}
  - {level: None}
`

// wrapper is the program of the control plane, with other flags for the API server. A sandbox runs it
// in its own folder, whose name the log bears; each start has a log of its own.
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

// maxSize is how many MB a log may have: the whole catalogue makes 6. Then it is begun anew, and one such
// part is kept.
const maxSize = 64

// Wrap makes a folder with a control plane that takes the place of the one in bin (box.Box.Instead). Its
// API server writes an audit log, and does without some of its flags, without the dashes.
func Wrap(bin, folder string, without ...string) error {
	patterns := []string{"--no-such-flag"}
	for _, flag := range without {
		patterns = append(patterns, "--"+flag+"=*")
	}
	script := fmt.Sprintf(wrapper, folder, filepath.Join(bin, sandbox.ControlPlaneProgram), strings.Join(patterns, "|"), maxSize)
	err := os.MkdirAll(folder, 0o700)
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, "policy.yaml"), fmt.Appendf(nil, policy, deploy.User), 0o600)
	}
	if err == nil {
		err = os.WriteFile(filepath.Join(folder, sandbox.ControlPlaneProgram), []byte(script), 0o700) //nolint:gosec // a program
	}
	if err != nil {
		return fmt.Errorf("making a control plane that audits: %w", err)
	}
	return nil
}

// Log is what controllers have asked for.
type Log struct {
	// Requests are how many there were of each kind, as "nodes/status update".
	Requests map[string]int
	// Refused are those that the API server did not allow.
	Refused []string
	// Events and Bytes are the size of the log.
	Events, Bytes int
}

// event is as much of an audit event as is read.
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

// kind is that of a request for a resource: of a namespace that a Role is for, with the namespace.
func (e event) kind(roles map[string]bool) string {
	o := e.ObjectRef
	name := strings.Trim(o.APIGroup+"/"+o.Resource+"/"+o.Subresource, "/")
	if roles[name] {
		name += " in " + o.Namespace
	}
	return name + " " + e.Verb
}

// Read reads the logs of a sandbox that runs with the programs of a folder of Wrap, and takes them together
// with what is there. A log that is not whole is an error.
func (l *Log) Read(folder, name string, g *Grants) error {
	files, err := filepath.Glob(filepath.Join(folder, name+".*.log"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("there is none of %s in %s", name, folder)
	}
	for _, file := range files {
		if err == nil && strings.Contains(strings.TrimPrefix(filepath.Base(file), name), "-") {
			err = fmt.Errorf("that of %s is not whole: it has had more than %d MB", name, maxSize)
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

// read reads a log. Half a line at the end is of an API server that was killed, or writes.
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
		if e.ObjectRef == nil { // as /version, which Kubernetes lets every user ask, and in its first second nobody
			continue
		}
		kind := e.kind(g.namespaced)
		l.Requests[kind]++
		if e.Annotations["authorization.k8s.io/decision"] == "forbid" {
			l.Refused = append(l.Refused, kind)
		}
	}
}
