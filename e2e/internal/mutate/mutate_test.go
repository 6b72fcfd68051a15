package mutate

import "testing"

// The controller contains the text that each mutation replaces. Other tests build the mutations.
func TestMutationsApply(t *testing.T) {
	for _, m := range All {
		if _, err := m.writeOverlay("../../..", t.TempDir()); err != nil {
			t.Errorf("mutation %s: %v", m.Name, err)
		}
	}
}
