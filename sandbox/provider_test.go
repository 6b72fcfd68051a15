package sandbox

import (
	"strings"
	"testing"

	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/state"
)

// A sandbox on the user's broker has an environment that no other has, through the
// end of its daemon too, unless the user names one.
func TestEnvironmentOfItsOwn(t *testing.T) {
	resolved := func(home, env string) *v1alpha1.Sandbox {
		t.Helper()
		config := &v1alpha1.Sandbox{}
		config.Spec.Provider, config.Spec.Env, config.Spec.Broker.URL = v1alpha1.ProviderEmbedded, env, "mqtt://broker.example"
		v1alpha1.SetDefaults(config)
		c, notes, err := resolve(t.Context(), state.Home(home).Dir("box"), config)
		if err != nil {
			t.Fatal(err)
		}
		if told := len(notes) == 1 && strings.Contains(notes[0], "the environment is "+c.Spec.Env+", "); told != (env == "") {
			t.Errorf("told about %q: %q", c.Spec.Env, notes)
		}
		return c
	}
	home := t.TempDir()
	first, second := resolved(home, ""), resolved(home, "")
	if !strings.HasPrefix(first.Spec.Env, "box-") || first.Spec.Env == second.Spec.Env {
		t.Errorf("two environments: %q and %q", first.Spec.Env, second.Spec.Env)
	}
	if given := resolved(home, "test"); given.Spec.Env != "test" {
		t.Errorf("the environment that was given became %q", given.Spec.Env)
	}
	dir := state.Home(home).Dir("box")
	text, err := yaml.Marshal(first)
	if err == nil {
		err = dir.Create()
	}
	if err == nil {
		err = state.WriteFile(dir.Config(), text)
	}
	if err != nil {
		t.Fatal(err)
	}
	if again := resolved(home, ""); again.Spec.Env != first.Spec.Env {
		t.Errorf("after the end of a daemon in %q the environment is %q", first.Spec.Env, again.Spec.Env)
	}
}
