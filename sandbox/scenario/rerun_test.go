package scenario

import (
	"os/exec"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/koupleless/koupsandbox/sandbox"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

// TestRerunCommand checks that the rerun command contains all flags on which the run depends, quoted for a shell.
func TestRerunCommand(t *testing.T) {
	of := func(overrides map[string]any) *source.Instance {
		return &source.Instance{Origin: &source.Scenario{File: "dir/it's.yaml", Overrides: overrides}}
	}
	for _, tt := range []struct {
		name string
		o    Options
		in   instance
		want []string // expected arguments after "koupsandbox scenario run"
	}{
		{"the first attempt", Options{Sandbox: &sandbox.Sandbox{Name: v1alpha1.DefaultName}},
			instance{Instance: of(nil), attempt: 1, seed: 5},
			[]string{"--seed", "7", "dir/it's.yaml"}},
		{"everything", Options{Sandbox: &sandbox.Sandbox{Name: "mine"}, Flags: []string{"--up", "--config=a b"},
			FromStep: "go on"},
			instance{Instance: of(map[string]any{"n": 3, "text": "a b", "list": []any{"x"}}), attempt: 2, seed: 5},
			[]string{"--up", "--config=a b", "--name", "mine", "--seed", "7", "--repeat", "2", "--from-step", "go on",
				"--var", `list=["x"]`, "--var", "n=3", "--var", "text=a b", "dir/it's.yaml"}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := &runner{o: tt.o, report: &Report{Seed: 7}}
			command, ours := strings.CutPrefix(r.rerunCommand(&tt.in), "koupsandbox scenario run ")
			if !ours {
				t.Fatalf("the command is %q", r.rerunCommand(&tt.in))
			}
			out, err := exec.CommandContext(t.Context(), "sh", "-c", `printf '%s\n' `+command).Output()
			if err != nil {
				t.Fatal(err)
			}
			if diff := cmp.Diff(tt.want, strings.Split(strings.TrimSpace(string(out)), "\n")); diff != "" {
				t.Errorf("%s (-want +got):\n%s", command, diff)
			}
		})
	}
}
