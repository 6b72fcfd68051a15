package mutate

import "testing"

// TestMutationsFitTheCode fails if the controller no longer contains the text that a mutation replaces. The tests that
// build mutations show that they compile.
func TestMutationsFitTheCode(t *testing.T) {
	for _, m := range All {
		if _, err := m.writeOverlay("../../..", t.TempDir()); err != nil {
			t.Errorf("mutation %s: %v", m.Name, err)
		}
	}
}
