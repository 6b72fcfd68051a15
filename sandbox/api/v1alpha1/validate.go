package v1alpha1

import (
	"fmt"
	"net/netip"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
)

// Validate reports every problem of a configuration that has its defaults, each with its field
// path; an empty list means that it can be used.
func Validate(s *Sandbox) field.ErrorList {
	v := &validator{}
	v.head(&s.TypeMeta, Kind, s)
	spec := field.NewPath("spec")
	v.provider(&s.Spec, spec)
	if name := s.Spec.Bases.ClusterName; name != s.Metadata.Name { // the default's problem is told once, at the name
		v.check(spec.Child("bases", "clusterName"), name, "nodeLabel")
	}
	v.broker(&s.Spec.Broker, spec.Child("broker"))
	v.controller(&s.Spec, spec.Child("controller"))
	return v.errs
}

// head checks the type of a file and, by their tags, all fields.
func (v *validator) head(t *metav1.TypeMeta, kind string, file any) {
	if t.APIVersion != APIVersion {
		v.add(field.NotSupported(field.NewPath("apiVersion"), t.APIVersion, []string{APIVersion}))
	}
	if t.Kind != kind {
		v.add(field.NotSupported(field.NewPath("kind"), t.Kind, []string{kind}))
	}
	walk(reflect.ValueOf(file), "", nil, v.value)
}

// provider checks fields that only some providers have.
func (v *validator) provider(s *Spec, path *field.Path) {
	cluster, kind, bases := path.Child("cluster"), path.Child("kind"), path.Child("bases")
	switch {
	case s.Provider != ProviderExisting && s.Cluster != (Cluster{}):
		v.forbid(cluster, "is for the provider existing only: set spec.provider to existing, or remove it")
	case s.Provider == ProviderExisting && s.Cluster.Context == "":
		v.add(field.Required(cluster.Child("context"),
			"the provider existing needs the name of a context (see: kubectl config get-contexts)"))
	}
	v.pods(s, bases)
	if s.Speed > 1 && (s.Provider == ProviderKind || s.Provider == ProviderExisting) {
		v.invalid(path.Child("speed"), s.Speed,
			"is for the provider embedded only, whose node lifecycle can be made faster too: set spec.provider to "+
				"embedded, or remove this")
	}
	if at, err := netip.ParseAddrPort(s.API.Listen); s.API.Listen != "" && (err != nil || at.Port() == 0) {
		v.invalid(path.Child("api", "listen"), s.API.Listen, "must be an address and a port, such as 0.0.0.0:8443")
	}
	if s.API != (API{}) && (s.Provider == ProviderKind || s.Provider == ProviderExisting) {
		v.forbid(path.Child("api"), "is for the provider embedded only: set spec.provider to embedded, or remove it")
	}
	if s.Provider != ProviderKind {
		for _, name := range given(&KindCluster{Nodes: s.Kind.Nodes, Image: s.Kind.Image, Version: s.Kind.Version}) {
			v.forbid(kind.Child(name), "is for the provider kind only: set spec.provider to kind, or remove it")
		}
		return
	}
	if _, err := version.ParseSemantic(s.Kind.Version); err != nil && s.Kind.Version != "" {
		v.invalid(kind.Child("version"), s.Kind.Version, "must be a whole version of Kubernetes, such as v1.36.3")
	}
	if s.Kind.Version != "" && s.Kind.Image != "" {
		v.forbid(kind.Child("version"), "is decided by spec.kind.image: remove one of the two")
	}
}

// pods checks fields that only the runtime cluster has.
func (v *validator) pods(s *Spec, bases *field.Path) {
	if s.Bases.Runtime != RuntimeCluster {
		for _, name := range given(
			&Bases{PerPod: s.Bases.PerPod, Image: s.Bases.Image, AgentImage: s.Bases.AgentImage}) {
			v.forbid(bases.Child(name), "is for spec.bases.runtime cluster only: set that, or remove this")
		}
		return
	}
	switch {
	case s.Provider != ProviderKind && s.Provider != ProviderExisting:
		v.invalid(bases.Child("runtime"), s.Bases.Runtime,
			"is for the providers kind and existing, whose nodes run Pods")
	case s.Provider == ProviderExisting && s.Bases.Image == "":
		v.add(field.Required(bases.Child("image"),
			"the nodes of a cluster of yours pull the image of bases: push that of make image-fakebase to where they can, and name it"))
	}
	if s.Bases.AgentImage != "" && s.Provider == ProviderKind {
		v.forbid(bases.Child("agentImage"),
			"is for the provider existing only, with kind a node sends the requests: remove it")
	}
	if s.Provider == ProviderExisting && s.Broker.URL == "" {
		v.add(field.Required(field.NewPath("spec", "broker", "url"), noBrokerHere))
	}
}

const noBrokerHere = "the Pods of a cluster of yours cannot reach a broker on this machine: name one that they and " +
	"this machine reach"

// ValidateName says, in one sentence, why a name cannot be that of a sandbox.
func ValidateName(name string) error {
	if problem := checks["label"](name); problem != "" {
		return fmt.Errorf("%s", problem)
	}
	return nil
}
