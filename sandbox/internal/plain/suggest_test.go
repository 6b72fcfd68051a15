package plain_test

import (
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/plain"
)

func TestDidYouMean(t *testing.T) {
	for _, c := range []struct {
		name string
		from []string
		want string
	}{
		{"bsae", []string{"order", "base"}, "; did you mean base?"},
		{"Staus", []string{"start", "status"}, "; did you mean status?"},
		{"comonent", []string{"component"}, "; did you mean component?"},
		{"tsop", []string{"step", "stop"}, "; did you mean stop?"},
		{"xyz", []string{"base", "up"}, ""},
		{"up", []string{"ups"}, "; did you mean ups?"},
		{"base", nil, ""},
	} {
		if got := plain.DidYouMean(c.name, c.from); got != c.want {
			t.Errorf("DidYouMean(%q, %q) = %q, want %q", c.name, c.from, got, c.want)
		}
	}
}
