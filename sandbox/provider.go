package sandbox

import (
	"context"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/cluster/kind"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

// settle replaces the provider auto, in a copy of the configuration, by the one that it means here: the one that an earlier run has
// left something with; else kind where a container engine has all that it takes, without a download; else embedded. It returns a
// sentence that says which and why, if that had to be found out.
func settle(ctx context.Context, dir state.Dir, config *v1alpha1.Sandbox) (settled *v1alpha1.Sandbox, why string, err error) {
	if config.Spec.Provider != v1alpha1.ProviderAuto {
		return config, "", nil
	}
	c := *config
	if dir.Used() {
		earlier, err := effective(dir)
		if err != nil {
			return nil, "", err
		}
		c.Spec.Provider, c.Spec.Kind, c.Spec.Cluster = earlier.Spec.Provider, earlier.Spec.Kind, earlier.Spec.Cluster
	} else if image, err := kind.AtHand(ctx); err != nil {
		c.Spec.Provider, why = v1alpha1.ProviderEmbedded, "the provider is embedded: "+err.Error()
	} else {
		c.Spec.Provider, why = v1alpha1.ProviderKind, "the provider is kind, because a container engine has its node image "+image
	}
	v1alpha1.SetDefaults(&c)
	return &c, why, nil
}
