package v1alpha1

import (
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
	"k8s.io/apimachinery/pkg/util/validation/field"
	"k8s.io/apimachinery/pkg/util/version"
)

// maxKindNodes is the most nodes that a kind cluster of a sandbox has: each takes about 300 MB, and bases need none.
const maxKindNodes = 10

// Validate reports every problem of a configuration that has its defaults, each
// with its field path; an empty list means that it can be used.
func Validate(s *Sandbox) field.ErrorList {
	var errs field.ErrorList
	if s.APIVersion != APIVersion {
		errs = append(errs, field.NotSupported(field.NewPath("apiVersion"), s.APIVersion, []string{APIVersion}))
	}
	if s.Kind != Kind {
		errs = append(errs, field.NotSupported(field.NewPath("kind"), s.Kind, []string{Kind}))
	}
	if err := ValidateName(s.Metadata.Name); err != nil {
		errs = append(errs, field.Invalid(field.NewPath("metadata", "name"), s.Metadata.Name, err.Error()))
	}
	spec := field.NewPath("spec")
	errs = append(errs, validateProvider(&s.Spec, spec)...)
	errs = append(errs, label(spec.Child("env"), s.Spec.Env)...)
	errs = append(errs, validateBases(&s.Spec.Bases, spec.Child("bases"))...)
	errs = append(errs, validateRuntime(&s.Spec, spec.Child("bases"))...)
	if name := s.Spec.Bases.ClusterName; name != s.Metadata.Name { // the default's problem is told once, at the name
		errs = append(errs, label(spec.Child("bases", "clusterName"), name)...)
	}
	errs = append(errs, validateBroker(&s.Spec.Broker, spec.Child("broker"))...)
	errs = append(errs, validateController(&s.Spec, spec.Child("controller"))...)
	if s.Spec.Wait.Duration <= 0 {
		errs = append(errs, field.Invalid(spec.Child("wait"), s.Spec.Wait.Duration.String(), "must be longer than 0s"))
	}
	return errs
}

// ValidateName says, in one sentence, why a name cannot be that of a sandbox.
func ValidateName(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return fmt.Errorf("must be a DNS label: at most %d lower-case letters, digits and hyphens, with a letter or digit at both ends",
			validation.DNS1123LabelMaxLength)
	}
	return nil
}

func validateProvider(s *Spec, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	cluster := path.Child("cluster")
	switch s.Provider {
	case ProviderAuto, ProviderEmbedded:
		errs = append(errs, onlyExisting(s, cluster)...)
	case ProviderExisting:
		if s.Cluster.Context == "" {
			errs = append(errs, field.Required(cluster.Child("context"),
				"the provider existing needs the name of a context (see: kubectl config get-contexts)"))
		}
	case ProviderKind:
		errs = append(errs, onlyExisting(s, cluster)...)
		return append(errs, validateKind(&s.Kind, path.Child("kind"))...)
	default:
		errs = append(errs, field.NotSupported(path.Child("provider"), s.Provider,
			[]Provider{ProviderAuto, ProviderEmbedded, ProviderKind, ProviderExisting}))
	}
	for _, given := range []struct {
		field string
		is    bool
	}{{"nodes", s.Kind.Nodes != 0}, {"image", s.Kind.Image != ""}, {"version", s.Kind.Version != ""}} {
		if given.is {
			errs = append(errs, field.Forbidden(path.Child("kind", given.field), "is for the provider kind only: set spec.provider to kind, or remove it"))
		}
	}
	return errs
}

func onlyExisting(s *Spec, path *field.Path) field.ErrorList {
	if s.Cluster == (Cluster{}) {
		return nil
	}
	return field.ErrorList{field.Forbidden(path, "is for the provider existing only: set spec.provider to existing, or remove it")}
}

func validateKind(k *KindCluster, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if k.Engine != "" && k.Engine != EngineDocker && k.Engine != EnginePodman {
		errs = append(errs, field.NotSupported(path.Child("engine"), k.Engine, []Engine{EngineDocker, EnginePodman}))
	}
	if k.Nodes < 1 || k.Nodes > maxKindNodes {
		errs = append(errs, field.Invalid(path.Child("nodes"), k.Nodes, fmt.Sprintf("must be between 1 and %d", maxKindNodes)))
	}
	if k.Version != "" {
		if _, err := version.ParseSemantic(k.Version); err != nil {
			errs = append(errs, field.Invalid(path.Child("version"), k.Version, "must be a whole version of Kubernetes, such as v1.36.3"))
		}
		if k.Image != "" {
			errs = append(errs, field.Forbidden(path.Child("version"), "is decided by spec.kind.image: remove one of the two"))
		}
	}
	return errs
}

func validateBases(b *Bases, path *field.Path) field.ErrorList {
	var errs field.ErrorList
	if err := ValidateCount(*b.Count); err != nil {
		errs = append(errs, field.Invalid(path.Child("count"), *b.Count, err.Error()))
	}
	errs = append(errs, label(path.Child("name"), b.Name)...)
	errs = append(errs, label(path.Child("version"), b.Version)...)
	switch b.Activation {
	case ActivationNewModule, ActivationDefault, ActivationMulti:
	default:
		errs = append(errs, field.NotSupported(path.Child("activation"), b.Activation,
			[]Activation{ActivationNewModule, ActivationDefault, ActivationMulti}))
	}
	return errs
}

func validateRuntime(s *Spec, path *field.Path) field.ErrorList {
	runtime := path.Child("runtime")
	switch r := s.Bases.Runtime; {
	case r != RuntimeProcess && r != RuntimeContainer:
		return field.ErrorList{field.NotSupported(runtime, r, []BaseRuntime{RuntimeProcess, RuntimeContainer})}
	case r == RuntimeContainer && s.Provider != ProviderKind:
		return field.ErrorList{field.Invalid(runtime, r, "is for the provider kind only, whose nodes are in the containers' network")}
	case r == RuntimeContainer && *s.Bases.Count > MaxContainers:
		return field.ErrorList{field.Invalid(path.Child("count"), *s.Bases.Count,
			fmt.Sprintf("must not exceed %d with spec.bases.runtime container; process runs up to %d", MaxContainers, MaxBases))}
	}
	return nil
}

// ValidateCount says, in one sentence, why a sandbox cannot have n bases.
func ValidateCount(n int) error {
	if n < 1 || n > MaxBases {
		return fmt.Errorf("must be between 1 and %d, the most that one sandbox runs", MaxBases)
	}
	return nil
}

// label checks a value that becomes the value of a Node label.
func label(path *field.Path, value string) field.ErrorList {
	if problems := validation.IsValidLabelValue(value); len(problems) > 0 {
		return field.ErrorList{field.Invalid(path, value, "becomes the value of a Node label: "+strings.Join(problems, "; "))}
	}
	return nil
}

func sorted(m map[string]string) []string {
	names := make([]string, 0, len(m))
	for name := range m {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}
