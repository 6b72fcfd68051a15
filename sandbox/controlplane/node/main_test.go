package main

import (
	"bytes"
	"strings"
	"testing"
)

// TestRunIsTheProgramOfItsName checks that run selects the program by the name of the executable. The programs
// themselves are tested upstream.
func TestRunIsTheProgramOfItsName(t *testing.T) {
	called := ""
	known := map[string]func() int{
		"kubelet": func() int { called = "kubelet"; return 7 },
		"kubectl": func() int { called = "kubectl"; return 0 },
	}
	for name, want := range map[string]struct {
		called, message string
		status          int
	}{
		"/usr/bin/kubelet": {called: "kubelet", status: 7},
		"kubectl":          {called: "kubectl"},
		"/bin/koup-node": {message: "koup-node is not a command; call this binary through a link with one of " +
			"these names: kubectl, kubelet\n", status: 2},
	} {
		called = ""
		var stderr bytes.Buffer
		if status := run(name, &stderr, known); status != want.status || called != want.called ||
			stderr.String() != want.message {
			t.Errorf("run(%q) = %d, ran %q, said %q; want %+v", name, status, called, stderr.String(), want)
		}
	}
}

func TestEveryProgramOfANodeIsThere(t *testing.T) {
	var have []string
	for name := range programs {
		have = append(have, name)
	}
	for _, name := range strings.Fields(
		"etcd kube-apiserver kube-controller-manager kube-proxy kube-scheduler kubeadm kubectl kubelet") {
		if programs[name] == nil {
			t.Errorf("no %s; there are %v", name, have)
		}
	}
}
