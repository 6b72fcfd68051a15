package supervise_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/koupleless/koupsandbox/sandbox/internal/check"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox/internal/supervise"
)

func TestTail(t *testing.T) {
	path := filepath.Join(t.TempDir(), "x.log")
	for _, tc := range []struct {
		text string
		want []string
	}{
		{"", nil}, {"a\n", []string{"a"}}, {"a\nb\nc\n", []string{"b", "c"}}, {"a\nb\nc", []string{"b", "c"}},
		{strings.Repeat("x", 100<<10) + "\ny\nz\n", []string{"y", "z"}},
		{"warn\tfailed\npanic\tno space\nexample.com/a.B(...)\n\texample.com/a@v1/b.go:147\npanic: no " +
			"space\n\ngoroutine 1 [running]:\n" +
			"main.run({0x1})\n\tmain.go:54 +0xac\nmain.main()\n\tmain.go:42 +0x5e",
			[]string{"panic\tno space", "panic: no space"}},
	} {
		check.Must(t, os.WriteFile(path, []byte(tc.text), 0o600))
		if diff := cmp.Diff(tc.want, supervise.Tail(path, 0, 2)); diff != "" {
			t.Errorf("(-want +got):\n%s", diff)
		}
	}
	check.Must(t, os.WriteFile(path, []byte("before\nnow\n"), 0o600))
	if diff := cmp.Diff([]string{"now"}, supervise.Tail(path, int64(len("before\n")), 2)); diff != "" {
		t.Errorf("lines after an offset (-want +got):\n%s", diff)
	}
	if got := supervise.Tail(path+".missing", 0, 2); got != nil {
		t.Errorf("Tail of a missing file returned %q", got)
	}
}
