package v1alpha1

// Release releases a version of a module: it sets the image and BIZ_VERSION of the module's container in a
// workload. The version in the image is replaced. If BIZ_VERSION refers to a label or an annotation, that is
// changed.
type Release struct {
	// APIVersion of the workload. Default: apps/v1, and v1 for a Pod.
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind of the workload: Deployment, StatefulSet, DaemonSet, another kind with a Pod template, or Pod.
	Kind string `json:"kind" need:"such as Deployment"`
	// Name of the workload.
	Name string `json:"name" need:"say which object"`
	// Namespace of the workload. Default: the namespace of the run.
	Namespace string `json:"namespace,omitempty"`
	// Module is the name of the module's container. Default: the only module of the workload.
	Module string `json:"module,omitempty"`
	// Version to release.
	Version string `json:"version" need:"say which version"`
}

// Ref returns the workload.
func (r *Release) Ref() Ref {
	return Ref{APIVersion: r.APIVersion, Kind: r.Kind, Name: r.Name, Namespace: r.Namespace}
}

func (r *Release) title(string) string {
	return "release " + r.Version + " of " + r.Kind + "/" + r.Name
}

func (r *Release) setDefaults(*Step, *ScenarioSpec) {
	if r.Kind == "Pod" {
		def(&r.APIVersion, "v1")
	}
	def(&r.APIVersion, "apps/v1")
}

func (r *Release) refs() []Ref { return []Ref{r.Ref()} }

func (r *Release) changes() *Ref {
	ref := r.Ref()
	return &ref
}
