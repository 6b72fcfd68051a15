package scenarios

import (
	"fmt"
	"path/filepath"

	"github.com/koupleless/koupsandbox/e2e/internal/audit"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// audited makes a control plane whose API servers note what the controllers ask for. Those of kind are
// not ours.
func audited(provider v1alpha1.Provider) (folder string, err error) {
	if provider == v1alpha1.ProviderKind {
		return "", nil
	}
	folder = filepath.Join(home, ".audited")
	return folder, audit.Wrap(programs, folder)
}

// asAllowed is an error if a controller of the catalogue's sandboxes has asked for what no rule of the
// manifests allows, in all that the tests have done. It tells the rules that nothing here needs;
// e2e/rights fails where it finds no need for one either.
func asAllowed() error {
	if shared.Instead == "" {
		return nil
	}
	granted, err := audit.Granted()
	var log audit.Log
	for _, p := range append(places, place{box: shared}) {
		if err == nil {
			err = log.Read(p.box.Instead, p.box.Name, granted)
		}
	}
	if err != nil {
		return err
	}
	fmt.Printf("the controllers have made %d requests of %d kinds (an audit log of %d kB); rules that none of "+
		"them needed: %q\n",
		log.Events, len(log.Requests), log.Bytes>>10, granted.Unused(&log))
	if beyond := granted.Beyond(&log); len(beyond) > 0 {
		return fmt.Errorf("the controllers have asked for what no rule allows: %q", beyond)
	}
	refused := map[string]int{} // an API server knows no rules in the moment after its start
	for _, kind := range log.Refused {
		refused[kind]++
		if refused[kind] == log.Requests[kind] {
			return fmt.Errorf("the controllers were always refused, though a rule allows it: %s", kind)
		}
	}
	if log.Events == 0 {
		return fmt.Errorf("the audit logs in %s are empty", shared.Instead)
	}
	return nil
}
