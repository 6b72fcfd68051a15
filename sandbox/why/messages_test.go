package why

import "testing"

func TestCatalogue(t *testing.T) {
	if err := catalogue.Check(); err != nil {
		t.Error(err)
	}
}
