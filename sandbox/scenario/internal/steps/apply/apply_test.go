package apply

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/apitest"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/steps"
)

func TestApplyReadsFiles(t *testing.T) {
	vars := map[string]any{"module": "stock"}
	e, err := steps.New(steps.Options{Static: expr.Static{Vars: vars}, Vars: vars, Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	text := "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: '${{ vars.module }}'}\ndata: {version: '${{ " +
		"vars.version }}'}\n---\n# nothing\n"
	if err := os.WriteFile(filepath.Join(e.Dir, "m.yaml"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	objects, err := manifest(e, &v1alpha1.Apply{File: "m.yaml", Vars: map[string]v1alpha1.Any{"version": "1.0.0"}})
	if err != nil {
		t.Fatal(err)
	}
	if len(objects) != 1 {
		t.Fatalf("%d objects, want 1", len(objects))
	}
	want := apitest.Object(t, `{apiVersion: v1, kind: ConfigMap, metadata: {name: stock}, data: {version: 1.0.0}}`)
	if diff := cmp.Diff(want.Object, objects[0].Object); diff != "" {
		t.Errorf("object (-want +got):\n%s", diff)
	}
}
