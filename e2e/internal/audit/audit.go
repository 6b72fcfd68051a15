// Package audit compares the requests of module controllers, from audit logs of embedded API servers, with the RBAC
// rules of the manifests.
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

// policy is the audit policy. It logs each request of the controllers once: a watch when it starts, and any other
// request when it ends.
const policy = `apiVersion: audit.k8s.io/v1
kind: Policy
omitManagedFields: true
rules:
  - {level: Metadata, users: [%[1]s], verbs: [watch], omitStages: [RequestReceived, ResponseComplete]}
  - {level: Metadata, users: [%[1]s], omitStages: [RequestReceived, ResponseStarted]}
  - {level: None}
`

// wrapper is a script that runs the control plane binary, and changes the flags of the API server. Each start of the
// API server writes its own log, whose name begins with the name of the sandbox's directory.
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
	set -- "$@" --audit-policy-file="$here/policy.yaml" \
		--audit-log-path="$here/$(basename "$PWD").$$.log" --audit-log-maxsize=%[4]d --audit-log-maxbackup=1
fi
exec %[2]q "$@"
`

// maxSize is the maximum size of a log in MB. The logs of the whole catalogue need 6 MB.
const maxSize = 64

// Wrap creates a directory with a wrapper of the control plane binary in bin, for use as box.Box.Instead. The API
// server then writes an audit log, and runs without the flags in without, which are given without dashes.
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
			0o700) //nolint:gosec // the file is executed
	}
	if err != nil {
		return fmt.Errorf("writing the audit policy and the control plane script: %w", err)
	}
	return nil
}

// Log contains the requests that controllers have sent. The zero value is an empty log.
type Log struct {
	// Requests is the number of requests by kind, such as "nodes/status update".
	Requests map[string]int
	// Refused lists the kind of each request that the API server rejected as not authorized. A kind may occur
	// repeatedly.
	Refused []string
	// Events is the number of logged requests, and Bytes is the total size of the logs.
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

// kind returns the kind of a request, which is its resource and verb. If a Role grants the resource, the kind also
// contains the namespace.
func (e event) kind(roles map[string]bool) string {
	o := e.ObjectRef
	name := strings.Trim(o.APIGroup+"/"+o.Resource+"/"+o.Subresource, "/")
	if roles[name] {
		name += " in " + o.Namespace
	}
	return name + " " + e.Verb
}

// Read adds the audit logs of the named sandbox to l. The sandbox must run the control plane that Wrap created in the
// given directory. Read returns an error if a log was rotated.
func (l *Log) Read(folder, name string, g *Grants) error {
	files, err := filepath.Glob(filepath.Join(folder, name+".*.log"))
	if err == nil && len(files) == 0 {
		err = fmt.Errorf("no audit log of sandbox %s in %s", name, folder)
	}
	for _, file := range files {
		if err == nil && strings.Contains(strings.TrimPrefix(filepath.Base(file), name), "-") {
			err = fmt.Errorf("the audit log of sandbox %s is incomplete: it exceeded %d MB", name, maxSize)
		}
		if err == nil {
			err = l.read(file, g)
		}
	}
	if err != nil {
		return fmt.Errorf("reading audit logs: %w", err)
	}
	return nil
}

// read parses an audit log. It ignores an incomplete last line: the API server is still writing, or was killed.
func (l *Log) read(file string, g *Grants) error {
	f, err := os.Open(file)
	if err != nil {
		return err
	}
	defer func() { _ = f.Close() }() // the file was only read
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
		// Every user can read URLs such as /version, except in the first second of the API server.
		if e.ObjectRef == nil {
			continue
		}
		kind := e.kind(g.namespaced)
		l.Requests[kind]++
		if e.Annotations["authorization.k8s.io/decision"] == "forbid" {
			l.Refused = append(l.Refused, kind)
		}
	}
}
