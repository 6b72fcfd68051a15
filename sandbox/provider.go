package sandbox

import (
	"context"
	"crypto/rand"
	"fmt"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster/kind"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

// envLength is how many characters of the sandbox name a generated environment name contains at most. The environment
// name becomes the value of a Node label, which can have at most 63 characters.
const envLength = 50

// resolve returns a copy of the configuration, and sets the values that depend on an earlier run or on this machine.
// It replaces the provider auto, and generates an environment name if the sandbox uses an existing cluster or an
// external broker. notes contains one sentence for each value that resolve has set.
func resolve(ctx context.Context, dir state.Dir, config *v1alpha1.Sandbox) (resolved *v1alpha1.Sandbox, notes []string,
	err error) {
	c := *config
	var earlier *v1alpha1.Sandbox
	if dir.InUse() {
		earlier, err = effective(dir)
		if err != nil {
			return nil, nil, err
		}
	}
	if c.Spec.Provider == v1alpha1.ProviderAuto {
		if why := resolveProvider(ctx, &c.Spec, earlier); why != "" {
			notes = append(notes, why)
		}
	}
	if ownEnv(&c) {
		if earlier != nil && shared(earlier) {
			c.Spec.Env = earlier.Spec.Env
		} else {
			c.Spec.Env = fmt.Sprintf("%.*s-%s", envLength, dir.Name(), strings.ToLower(rand.Text()[:8]))
		}
		notes = append(notes, "the environment is "+c.Spec.Env+
			", generated for this sandbox because the cluster or the broker may have other users")
	}
	v1alpha1.SetDefaults(&c)
	return &c, notes, nil
}

// resolveProvider replaces the provider auto: with the provider of an earlier run that was not taken down, with kind
// if a container engine has the node image and no time scale is set, and otherwise with embedded. why is empty for an
// earlier run.
func resolveProvider(ctx context.Context, spec *v1alpha1.Spec, earlier *v1alpha1.Sandbox) (why string) {
	if earlier != nil {
		spec.Provider, spec.Kind, spec.Cluster = earlier.Spec.Provider, earlier.Spec.Kind, earlier.Spec.Cluster
		return ""
	}
	if spec.Speed > 1 {
		spec.Provider = v1alpha1.ProviderEmbedded
		return "the provider is embedded, because it is required for a time scale"
	}
	image, err := kind.LocalImage(ctx, string(spec.Kind.Engine))
	if err != nil {
		spec.Provider = v1alpha1.ProviderEmbedded
		return "the provider is embedded, because " + err.Error()
	}
	spec.Provider = v1alpha1.ProviderKind
	return "the provider is kind, because a container engine has its node image " + image
}

// ownEnv reports whether up must generate a unique environment name for the sandbox.
func ownEnv(config *v1alpha1.Sandbox) bool { return shared(config) && config.Spec.Env == "" }

// shared reports whether the cluster or the broker of the sandbox can have other users.
func shared(config *v1alpha1.Sandbox) bool {
	return config.Spec.Broker.URL != "" || config.Spec.Provider == v1alpha1.ProviderExisting
}
