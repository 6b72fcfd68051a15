package v1alpha1

import "k8s.io/apimachinery/pkg/util/validation/field"

// Script runs a shell script on the machine that runs the scenario. The environment of the script contains
// KUBECONFIG, NAMESPACE, GROUP, the variables in Env, and some variables of the parent process, such as PATH, HOME
// and LANG. The identity in KUBECONFIG has permission to edit the objects in the namespace of the run, and no other
// permissions.
type Script struct {
	// Content is the text of the script. It is executed with sh -eu -c.
	Content string `json:"content" need:"set the script"`
	// Env lists additional environment variables for the script. Default: none.
	Env map[string]string `json:"env,omitempty" check:"variable"`
	// Until is a CEL expression over stdout, stderr and exitCode. The script runs again until the expression is true.
	// Default: the script runs once and must exit with status 0.
	Until string `json:"until,omitempty" check:"cel"`
	// Output is the name under which expressions of later steps can use the script's standard output, as
	// outputs.NAME. Default: none.
	Output string `json:"output,omitempty" check:"identifier"`
}

func (s *Script) collect(n *Names, at *field.Path) {
	if s.Output != "" {
		n.unique(n.Outputs, at.Child("output"), s.Output)
	}
}
