package v1alpha1

import (
	"reflect"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/utils/ptr"
)

// defaultBases is the number of bases of a sandbox whose configuration does not contain a number.
const defaultBases = 3

// DefaultName is the default name of a sandbox.
const DefaultName = "koup"

// DefaultEnv is the default environment of a sandbox that does not share its broker or cluster.
const DefaultEnv = "dev"

// SetDefaults sets the default value of every field that is not set.
func SetDefaults(s *Sandbox) {
	def(&s.APIVersion, APIVersion)
	def(&s.Kind, Kind)
	if len(s.Spec.Bases) == 0 {
		s.Spec.Bases = []BaseSet{{}}
	}
	if bases := s.Spec.Bases; len(bases) == 1 && bases[0].Count == nil {
		bases[0].Count = ptr.To(defaultBases)
	}
	setDefaults(reflect.ValueOf(s))
	// On an external broker or in an existing cluster, another user may use this environment. auto can mean
	// existing.
	if p := s.Spec.Provider; s.Spec.Broker.URL == "" && p != ProviderExisting && p != ProviderAuto {
		def(&s.Spec.Env, DefaultEnv)
	}
	def(&s.Spec.Speed, 1)
	moveUser(&s.Spec.Broker)
	for i := range s.Spec.Bases {
		def(&s.Spec.Bases[i].BaseName, s.Spec.Bases[i].Name)
		def(&s.Spec.Bases[i].ClusterName, s.Metadata.Name)
	}
	if s.Spec.Provider == ProviderKind {
		def(&s.Spec.Kind.Nodes, 1)
	}
	if own := len(s.Spec.Controller.Command) > 0; own || s.Spec.Provider == ProviderEmbedded ||
		s.Spec.Provider == ProviderExisting {
		// with the other providers it depends on the machine
		def(&s.Spec.Controller.Location, LocationHost)
	}
	if s.Spec.Fleet.Runtime == RuntimeCluster {
		def(&s.Spec.Fleet.PerPod, 500)
	}
	if s.Spec.Provider != ProviderExisting &&
		(s.Spec.Controller.Location == LocationCluster || s.Spec.Fleet.Runtime == RuntimeCluster) {
		s.Spec.Broker.TLS = true // other users can listen on that network
	}
	if s.Spec.Wait == nil {
		s.Spec.Wait = &metav1.Duration{Duration: time.Minute}
		// an image may have to be downloaded
		if s.Spec.Provider == ProviderKind || s.Spec.Fleet.Runtime == RuntimeCluster {
			s.Spec.Wait.Duration = 5 * time.Minute
		}
		more := waitForThousand
		if s.Spec.Provider == ProviderExisting {
			more = waitForExistingThousand
		}
		s.Spec.Wait.Duration += time.Duration(s.Spec.BaseCount()/1000) * more
	}
}

// waitForThousand is the time that is added to the default of wait for each thousand bases. It is four times the time
// that a thousand bases need to become ready on two CPUs.
const waitForThousand = 15 * time.Second

// waitForExistingThousand is the time that is added for each thousand bases in an existing cluster. The
// kube-controller-manager of such a cluster removes the not-ready taint from about 9 Nodes per second.
const waitForExistingThousand = 4 * time.Minute

// BaseCount returns the number of bases in all sets. Call it after SetDefaults.
func (s *Spec) BaseCount() int {
	n := 0
	for i := range s.Bases {
		n += *s.Bases[i].Count
	}
	return n
}

// OneBase returns the sets of a sandbox with one base, for commands whose scenarios define their own bases.
func OneBase() []BaseSet { return []BaseSet{{Count: ptr.To(1)}} }

func def[T comparable](field *T, value T) {
	var zero T
	if *field == zero {
		*field = value
	}
}
