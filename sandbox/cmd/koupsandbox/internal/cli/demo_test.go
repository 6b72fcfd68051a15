package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestDemoMistakes(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want result
	}{
		{[]string{"demo", "fast"}, result{2, "", "koupsandbox: demo takes no arguments" + see("demo")}},
		{[]string{"demo", "--name", "Demo 1"}, result{2, "",
			`koupsandbox: --name "Demo 1" ` + "must be a DNS label: at most 63 lower-case letters, digits and hyphens, with a letter or digit at both ends" + see("demo")}},
		{[]string{"demo"}, result{1, "", "koupsandbox: HOME/koupsandbox cannot be run as the program koupsandbox: build it again, or name another folder in $KOUPSANDBOX_BIN\n"}},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			if diff := cmp.Diff(tc.want, run(t, t.TempDir(), tc.args...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
