package scenarios

import (
	"fmt"
	"path/filepath"

	"github.com/koupleless/koupsandbox/e2e/internal/audit"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// wrapControlPlane creates a directory with a control plane whose API servers write audit logs, and returns the path
// of the directory. With the provider kind, it returns an empty string.
func wrapControlPlane(provider v1alpha1.Provider) (folder string, err error) {
	if provider == v1alpha1.ProviderKind {
		return "", nil
	}
	folder = filepath.Join(home, ".audited")
	return folder, audit.Wrap(binDir, folder)
}

// checkPermissions returns an error if a controller has sent a request that no RBAC rule of the manifests allows. It
// prints the rules that no request needed; the tests in e2e/rights check that each rule is needed.
func checkPermissions() error {
	if shared.Instead == "" {
		return nil
	}
	granted, err := audit.Granted()
	var log audit.Log
	for _, p := range append(exclusiveSandboxes, runningSandbox{box: shared}) {
		if err == nil {
			err = log.Read(p.box.Instead, p.box.Name, granted)
		}
	}
	if err != nil {
		return err
	}
	fmt.Printf("the controllers sent %d requests of %d kinds (audit logs: %d kB); rules that no request needed: %q\n",
		log.Events, len(log.Requests), log.Bytes>>10, granted.Unused(&log))
	if beyond := granted.Violations(&log); len(beyond) > 0 {
		return fmt.Errorf("the controllers sent requests that no rule allows: %q", beyond)
	}
	refused := map[string]int{} // an API server has not loaded the rules immediately after its start
	for _, kind := range log.Refused {
		refused[kind]++
		if refused[kind] == log.Requests[kind] {
			return fmt.Errorf("the API server rejected all requests %s, although a rule allows them", kind)
		}
	}
	if log.Events == 0 {
		return fmt.Errorf("the audit logs in %s are empty", shared.Instead)
	}
	return nil
}
