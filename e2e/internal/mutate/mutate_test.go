package mutate

import "testing"

// TestMutationsApply checks that the source of the controller contains the text that each mutation replaces. It does
// not build the mutations; other tests do.
func TestMutationsApply(t *testing.T) {
	for _, m := range All {
		if _, err := m.writeOverlay("../../..", t.TempDir()); err != nil {
			t.Errorf("mutation %s: %v", m.Name, err)
		}
	}
}
