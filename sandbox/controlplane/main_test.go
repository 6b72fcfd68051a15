package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestRun checks that run selects the component by name. The tests of the embedded cluster cover the components
// themselves.
func TestRun(t *testing.T) {
	for name, tc := range map[string]struct {
		args           []string
		code           int
		stdout, stderr string
	}{
		"nothing": {nil, 2, "", "Usage: koup-controlplane"},
		"help":    {[]string{"help"}, 0, "Usage: koup-controlplane", ""},
		"an unknown command": {[]string{"kubelet"}, 2, "",
			`koup-controlplane: unknown command "kubelet"; supported: etcd, kube-apiserver`},
		"version": {[]string{"version"}, 0, "\netcd 3.", ""},
	} {
		t.Run(name, func(t *testing.T) {
			var stdout, stderr bytes.Buffer
			if code := run(tc.args, &stdout, &stderr); code != tc.code {
				t.Errorf("exit status %d, want %d", code, tc.code)
			}
			if !strings.Contains(stdout.String(), tc.stdout) || (tc.stdout == "") != (stdout.Len() == 0) {
				t.Errorf("standard output %q, want %q in it", stdout.String(), tc.stdout)
			}
			if !strings.Contains(stderr.String(), tc.stderr) || (tc.stderr == "") != (stderr.Len() == 0) {
				t.Errorf("standard error %q, want %q in it", stderr.String(), tc.stderr)
			}
		})
	}
}
