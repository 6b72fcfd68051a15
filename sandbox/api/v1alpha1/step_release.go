package v1alpha1

// Release releases a version of a module. It sets the image and BIZ_VERSION of the module's container in a workload.
// In the image name, it replaces the version. If BIZ_VERSION refers to a label or an annotation, Release changes the
// label or annotation.
type Release struct {
	// APIVersion is the apiVersion of the workload. Default: v1 for a Pod, otherwise apps/v1.
	APIVersion string `json:"apiVersion,omitempty"`
	// Kind is the kind of the workload: Deployment, StatefulSet, DaemonSet, another kind with a Pod template, or Pod.
	Kind string `json:"kind" need:"such as Deployment"`
	// Name is the name of the workload.
	Name string `json:"name" need:"set the name of the workload"`
	// Namespace is the namespace of the workload. Default: the namespace of the run.
	Namespace string `json:"namespace,omitempty"`
	// Module is the name of the module's container. Default: the container of the only module in the workload.
	Module string `json:"module,omitempty"`
	// Version is the version to release.
	Version string `json:"version" need:"set the version to release"`
}

// Ref returns a reference to the workload.
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
