package sandbox

import (
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"

	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

// TestGeneratedEnvironment checks that a sandbox on an external broker or in an existing cluster gets a unique
// environment name. If the daemon exits without a down, the next up must use the same environment name, unless the
// user sets another one.
func TestGeneratedEnvironment(t *testing.T) {
	for name, spec := range map[string]v1alpha1.Spec{
		"external broker": {Provider: v1alpha1.ProviderEmbedded,
			Broker: v1alpha1.Broker{URL: "mqtt://broker.example"}},
		"existing cluster": {Provider: v1alpha1.ProviderExisting},
	} {
		t.Run(name, func(t *testing.T) { ownEnvironment(t, spec) })
	}
	config := &v1alpha1.Sandbox{}
	config.Spec.Provider = v1alpha1.ProviderEmbedded
	if c, notes, err := resolve(t.Context(), state.Home(t.TempDir()).Dir("box"), config); err != nil ||
		c.Spec.Env != "dev" || len(notes) > 0 {
		t.Errorf("without an existing cluster or external broker: environment %q, %v; notes %q", c.Spec.Env, err, notes)
	}
}

func ownEnvironment(t *testing.T, spec v1alpha1.Spec) {
	resolved := func(home, env string) *v1alpha1.Sandbox {
		t.Helper()
		config := &v1alpha1.Sandbox{Spec: spec}
		config.Spec.Env = env
		v1alpha1.SetDefaults(config)
		c, notes, err := resolve(t.Context(), state.Home(home).Dir("box"), config)
		check.Must(t, err)
		if told := len(notes) == 1 &&
			strings.Contains(notes[0], "the environment is "+c.Spec.Env+", "); told != (env == "") {
			t.Errorf("notes for the environment %q: %q", c.Spec.Env, notes)
		}
		return c
	}
	home := t.TempDir()
	first, second := resolved(home, ""), resolved(home, "")
	if !strings.HasPrefix(first.Spec.Env, "box-") || first.Spec.Env == second.Spec.Env {
		t.Errorf("two environments: %q and %q", first.Spec.Env, second.Spec.Env)
	}
	if given := resolved(home, "test"); given.Spec.Env != "test" {
		t.Errorf("the configured environment was changed to %q", given.Spec.Env)
	}
	dir := state.Home(home).Dir("box")
	text, err := yaml.Marshal(first)
	if err == nil {
		err = dir.Create()
	}
	if err == nil {
		err = state.WriteFile(dir.Config(), text)
	}
	check.Must(t, err)
	if again := resolved(home, ""); again.Spec.Env != first.Spec.Env {
		t.Errorf("environment %q after the end of a daemon with %q", again.Spec.Env, first.Spec.Env)
	}
}
