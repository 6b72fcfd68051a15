package mutate

import (
	"os"
	"path"
	"testing"
)

// TestMutationsFitTheCode fails if the controller no longer contains the text that a mutation replaces, or does not compile with it.
func TestMutationsFitTheCode(t *testing.T) {
	for _, m := range All {
		t.Run(m.Name, func(t *testing.T) {
			var packages []string
			for _, e := range m.Edits {
				packages = append(packages, "./"+path.Dir(e.File))
			}
			if err := m.build(t.Context(), "../../..", os.DevNull, packages...); err != nil {
				t.Error(err)
			}
		})
	}
}
