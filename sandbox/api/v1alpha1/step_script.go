package v1alpha1

import "k8s.io/apimachinery/pkg/util/validation/field"

// Script runs a shell script on the machine that runs the scenario, with KUBECONFIG, NAMESPACE, GROUP,
// the variables of Env, and of those around it only such as PATH, HOME and LANG. The identity in
// KUBECONFIG edits the objects in the namespace of the run, and may do nothing else.
type Script struct {
	// Content is the script, run by sh -eu -c.
	Content string `json:"content" need:"say what to run"`
	// Env are environment variables. Default: none.
	Env map[string]string `json:"env,omitempty" check:"variable"`
	// Until is a CEL expression over stdout, stderr and exitCode; the script runs again until it is
	// true. Default: it runs once and must exit with 0.
	Until string `json:"until,omitempty" check:"cel"`
	// Output is the name under which later steps find what it printed, as outputs.NAME. Default:
	// none.
	Output string `json:"output,omitempty" check:"identifier"`
}

func (s *Script) collect(n *Names, at *field.Path) {
	if s.Output != "" {
		n.unique(n.Outputs, at.Child("output"), s.Output)
	}
}
