package plain_test

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

func TestCompareNames(t *testing.T) {
	want := []string{"", "base-1", "base-2", "base-10", "base-10a", "web-1"}
	got := []string{"web-1", "base-10", "base-10a", "base-2", "", "base-1"}
	slices.SortFunc(got, plain.CompareNames)
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
