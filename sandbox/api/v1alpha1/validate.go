package v1alpha1

import (
	"fmt"
	"net/netip"
	"reflect"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
)

// Validate returns every problem of a configuration, each with its field path. Call it after SetDefaults. An empty
// list means that the configuration is valid.
func Validate(s *Sandbox) field.ErrorList {
	v := &validator{}
	v.head(&s.TypeMeta, Kind, s)
	spec := field.NewPath("spec")
	v.provider(&s.Spec, spec)
	v.baseSets(s, spec.Child("bases"))
	v.broker(&s.Spec.Broker, spec.Child("broker"))
	v.controller(&s.Spec, spec.Child("controller"))
	return v.errs
}

// baseSets validates the sets of bases of a sandbox.
func (v *validator) baseSets(s *Sandbox, path *field.Path) {
	names := map[string]bool{}
	for i := range s.Spec.Bases {
		b, at := &s.Spec.Bases[i], path.Index(i)
		v.baseSet(b, at)
		if b.ClusterName != s.Metadata.Name { // a problem of the default is reported at the name
			v.check(at.Child("clusterName"), b.ClusterName, "nodeLabel")
		}
		if names[b.Name] {
			v.add(field.Duplicate(at.Child("name"), b.Name))
		}
		names[b.Name] = true
		if b.Env != "" {
			v.forbid(at.Child("env"), "only scenarios support bases of other environments; set spec.env, or remove "+
				"this field")
		}
	}
	if n := s.Spec.BaseCount(); n < 1 || n > MaxBases {
		at := path
		if len(s.Spec.Bases) == 1 {
			at = path.Index(0).Child("count")
		}
		v.invalid(at, n, "the sandbox must have 1 to %d bases, the maximum for one sandbox", MaxBases)
	}
}

// head validates apiVersion and kind of a file, and validates all fields with the rules in their tags.
func (v *validator) head(t *metav1.TypeMeta, kind string, file any) {
	if t.APIVersion != APIVersion {
		v.add(field.NotSupported(field.NewPath("apiVersion"), t.APIVersion, []string{APIVersion}))
	}
	if t.Kind != kind {
		v.add(field.NotSupported(field.NewPath("kind"), t.Kind, []string{kind}))
	}
	walk(reflect.ValueOf(file), "", nil, v.value)
}

// provider validates the fields that only some providers support.
func (v *validator) provider(s *Spec, path *field.Path) {
	cluster, kind, fleet := path.Child("cluster"), path.Child("kind"), path.Child("fleet")
	switch {
	case s.Provider != ProviderExisting && s.Cluster != (Cluster{}):
		v.forbid(cluster, "requires the provider existing; set spec.provider to existing, or remove this field")
	case s.Provider == ProviderExisting && s.Cluster.Context == "":
		v.add(field.Required(cluster.Child("context"),
			"set the name of a kubeconfig context; list the contexts with: kubectl config get-contexts"))
	}
	v.pods(s, fleet)
	if s.Speed > 1 && (s.Provider == ProviderKind || s.Provider == ProviderExisting) {
		v.invalid(path.Child("speed"), s.Speed,
			"requires the provider embedded, whose node lifecycle it can scale; set spec.provider to embedded, "+
				"or remove this "+
				"field")
	}
	if at, err := netip.ParseAddrPort(s.API.Listen); s.API.Listen != "" && (err != nil || at.Port() == 0) {
		v.invalid(path.Child("api", "listen"), s.API.Listen, "must be an IP address and a port, such as 0.0.0.0:8443")
	}
	if s.API != (API{}) && (s.Provider == ProviderKind || s.Provider == ProviderExisting) {
		v.forbid(path.Child("api"),
			"requires the provider embedded; set spec.provider to embedded, or remove this field")
	}
	if s.Provider != ProviderKind {
		for _, name := range nonZeroFields(&KindCluster{Nodes: s.Kind.Nodes, Image: s.Kind.Image,
			Version: s.Kind.Version}) {
			v.forbid(kind.Child(name), "requires the provider kind; set spec.provider to kind, or remove this field")
		}
		return
	}
	if _, err := version.ParseSemantic(s.Kind.Version); err != nil && s.Kind.Version != "" {
		v.invalid(kind.Child("version"), s.Kind.Version, "must be a complete Kubernetes version, such as v1.37.2")
	}
	if s.Kind.Version != "" && s.Kind.Image != "" {
		v.forbid(kind.Child("version"), "cannot be combined with spec.kind.image; remove one of them")
	}
}

// pods validates the fields that only the runtime cluster supports.
func (v *validator) pods(s *Spec, fleet *field.Path) {
	if s.Fleet.Runtime != RuntimeCluster {
		for _, name := range nonZeroFields(
			&Fleet{PerPod: s.Fleet.PerPod, Image: s.Fleet.Image, AgentImage: s.Fleet.AgentImage}) {
			v.forbid(fleet.Child(name), "requires spec.fleet.runtime cluster; set it, or remove this field")
		}
		return
	}
	switch {
	case s.Provider != ProviderKind && s.Provider != ProviderExisting:
		v.invalid(fleet.Child("runtime"), s.Fleet.Runtime,
			"requires the provider kind or existing, whose nodes run Pods")
	case s.Provider == ProviderExisting && s.Fleet.Image == "":
		v.add(field.Required(fleet.Child("image"),
			"the nodes of an existing cluster pull the base image; build it with make "+
				"image-fakebase, push it to a registry that the nodes can reach, and set its name"))
	}
	if s.Fleet.AgentImage != "" && s.Provider == ProviderKind {
		v.forbid(fleet.Child("agentImage"),
			"requires the provider existing; with kind, a node sends the requests")
	}
	if s.Provider == ProviderExisting && s.Broker.URL == "" {
		v.add(field.Required(field.NewPath("spec", "broker", "url"), noBrokerHere))
	}
}

const noBrokerHere = "Pods of an existing cluster cannot reach a broker on this machine; set the URL of a " +
	"broker that these Pods and this machine can reach"

// ValidateName returns a one-sentence error if a name is not a valid sandbox name.
func ValidateName(name string) error {
	if problem := checks["label"](name); problem != "" {
		return fmt.Errorf("%s", problem)
	}
	return nil
}
