package load

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/e2e-framework/pkg/envconf"

	"github.com/koupleless/koupsandbox/e2e/internal/box"
	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

var must = check.Must

// seats is how many requests the API server works on at once, beside those of the control plane itself:
// a fraction of the 600 of an ordinary one, so that a few hundred Pods are a load.
const seats = 60

// bringUp starts a sandbox with one base, which nothing here uses. A sandbox has priority and fairness
// off: of several flags of one name the last one counts, so a script in place of the program adds its own.
func bringUp(t *testing.T) *box.Box {
	t.Helper()
	built, err := box.FindPrograms(filepath.Join("..", ".."))
	must(t, err)
	home, err := os.MkdirTemp("", "koup-load-") // a short path, because sockets go there
	must(t, err)
	t.Cleanup(func() { _ = os.RemoveAll(home) }) // a folder for temporary files
	bin := filepath.Join(home, ".bin")
	must(t, os.Mkdir(bin, 0o700))
	for _, name := range []string{box.Program, box.ControllerProgram} { // a link would lead it to the others beside itself
		program, err := os.ReadFile(filepath.Join(built, name))
		must(t, err)
		must(t, os.WriteFile(filepath.Join(bin, name), program, 0o700)) //nolint:gosec // a program
	}
	script := fmt.Sprintf(`#!/bin/sh
[ "$1" != kube-apiserver ] || set -- "$@" --enable-priority-and-fairness=true --max-requests-inflight=%d --max-mutating-requests-inflight=%d
exec %s "$@"
`, seats*2/3, seats/3, filepath.Join(built, sandbox.ControlPlaneProgram))
	must(t, os.WriteFile(filepath.Join(bin, sandbox.ControlPlaneProgram), []byte(script), 0o700)) //nolint:gosec // a program too
	b := &box.Box{Bin: bin, Home: home, Name: envconf.RandomName("load", 10)}
	t.Cleanup(func() { must(t, b.Down(context.Background())) })
	one := 1
	must(t, b.Up(t.Context(), v1alpha1.Spec{Bases: v1alpha1.Bases{Count: &one, Name: "unused"}}))
	return b
}
