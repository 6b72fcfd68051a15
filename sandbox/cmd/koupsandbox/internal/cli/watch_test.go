package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestWatchMistakes(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want result
	}{
		{[]string{"watch"}, result{1, "", `koupsandbox: sandbox "koup" is not up; bring it up with: koupsandbox up --name koup` + "\n"}},
		{[]string{"watch", "base-1"}, result{2, "", "koupsandbox: watch takes no arguments" + see("watch")}},
		{[]string{"watch", "-o", "yaml"}, result{2, "", `koupsandbox: --output "yaml" is not one of: text, json` + see("watch")}},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			if diff := cmp.Diff(tc.want, run(t, t.TempDir(), tc.args...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
