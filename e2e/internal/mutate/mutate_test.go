package mutate_test

import (
	"go/format"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/e2e/internal/check"
	"github.com/koupleless/koupsandbox/e2e/internal/mutate"
)

const root = "../../.."

// Whoever changes a line that a mutation changes, or what it calls, learns it here.
func TestMutationsFitTheCode(t *testing.T) {
	names := map[string]bool{}
	for _, m := range mutate.All {
		t.Run(m.Name, func(t *testing.T) {
			if names[m.Name] || m.What == "" || len(m.Edits) == 0 {
				t.Errorf("a name of its own, what is broken, and edits are needed: %+v", m)
			}
			names[m.Name] = true
			files, err := m.Apply(root)
			check.Must(t, err)
			for name, text := range files {
				before, err := os.ReadFile(filepath.Join(root, name))
				check.Must(t, err)
				if text == string(before) {
					t.Errorf("%s stays as it is", name)
				}
				formatted, err := format.Source([]byte(text))
				if err != nil {
					t.Errorf("%s: %v", name, err)
				} else if string(formatted) != text {
					t.Errorf("%s is not as gofmt would have it", name)
				}
			}
			check.Must(t, m.Compile(t.Context(), root))
		})
	}
}

func TestMutationsThatDoNotFit(t *testing.T) {
	const file = "controller/internal/handover/handover.go"
	for name, tc := range map[string]struct {
		edits []mutate.Edit
		want  string
	}{
		"text that is not there":     {[]mutate.Edit{{file, "nothing like it", ""}}, "mutation m has to follow the code: " + file + " has 0 times, and not once:\nnothing like it"},
		"text that is there twice":   {[]mutate.Edit{{file, "return ", ""}}, "times, and not once:\nreturn "},
		"text that an edit took":     {[]mutate.Edit{{file, "package handover", ""}, {file, "package handover", ""}}, "has 0 times"},
		"a file that is not there":   {[]mutate.Edit{{"controller/none.go", "", ""}}, "mutation m: open "},
		"a controller without words": {[]mutate.Edit{{file, "package handover", "packed"}}, "building the controller with mutation m: exit status 1"},
	} {
		t.Run(name, func(t *testing.T) {
			err := mutate.Mutation{Name: "m", Edits: tc.edits}.Build(t.Context(), root, filepath.Join(t.TempDir(), "controller"))
			if err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("got %v, want %s", err, tc.want)
			}
		})
	}
}
