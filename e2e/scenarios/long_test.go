package scenarios

import (
	"context"
	"path/filepath"
	"strings"
	"testing"

	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// Outages of minutes, in a sandbox that lives ten times as fast. One of another speed is refused.
func TestLongOutages(t *testing.T) {
	if shared.Provider == v1alpha1.ProviderKind {
		t.Skip("a speed needs the provider embedded")
	}
	all, err := source.Load([]string{filepath.Join(catalogue, "long")}, source.Options{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = scenario.Execute(t.Context(), scenario.Options{Sandbox: up, Scenarios: all[:1]})
	if err == nil || !strings.Contains(err.Error(), "needs a sandbox of speed 10") {
		t.Errorf("a sandbox of speed 1 is taken: %v", err)
	}
	fast := ofSpeed(t, programs, nil, 10)
	for _, s := range all {
		t.Run(s.Scenario.Metadata.Name, func(t *testing.T) { passes(t.Context(), t, fast, s) })
	}
}

// ofSpeed brings up a sandbox of its own, with variables of the controller.
func ofSpeed(t *testing.T, bin string, env map[string]string, speed int) *sandbox.Sandbox {
	t.Helper()
	b := &box.Box{Bin: bin, Home: home, Name: envconf.RandomName("own", 12)}
	t.Cleanup(func() {
		if err := b.Down(context.Background()); err != nil {
			t.Error(err)
		}
	})
	spec := spec()
	spec.Controller.Env, spec.Speed = env, speed
	if err := b.Up(t.Context(), spec); err != nil {
		t.Fatal(err)
	}
	s, err := b.Open(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}
