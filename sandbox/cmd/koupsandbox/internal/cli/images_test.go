package cli_test

import (
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestImagesMistakes(t *testing.T) {
	for _, tc := range []struct {
		args []string
		want result
	}{
		{[]string{"images", "save"}, result{2, "", "koupsandbox: save takes one file" + see("images save")}},
		{[]string{"images", "load", "/none/a.tar"}, result{1, "",
			"koupsandbox: there is no file /none/a.tar: make it where a registry can be reached, with: koupsandbox images save FILE\n"}},
		{[]string{"images", "save", "/none/a.tar"}, result{1, "",
			"koupsandbox: there is nothing to save: no container engine: docker is not installed; podman is not installed\n"}},
	} {
		t.Run(strings.Join(tc.args, " "), func(t *testing.T) {
			t.Setenv("PATH", t.TempDir()) // whatever engine this machine has
			if diff := cmp.Diff(tc.want, run(t, t.TempDir(), tc.args...)); diff != "" {
				t.Errorf("(-want +got):\n%s", diff)
			}
		})
	}
}
