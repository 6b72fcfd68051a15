package scenario

import (
	"encoding/json"
	"maps"
	"slices"
	"strconv"
	"strings"

	"al.essio.dev/pkg/shellescape"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
)

// rerunCommand returns the command that repeats a run with the same random values. The command also runs the other
// matrix cells of the scenario, and the earlier repetitions of the run.
func (r *runner) rerunCommand(i *instance) string {
	args := []string{"koupsandbox", "scenario", "run"}
	for _, f := range r.o.Flags {
		args = append(args, shellescape.Quote(f))
	}
	flag := func(name, value string) { args = append(args, name, shellescape.Quote(value)) }
	if name := r.o.Sandbox.Name; name != v1alpha1.DefaultName {
		flag("--name", name)
	}
	flag("--seed", strconv.FormatUint(r.report.Seed, 10)) // the seeds of the runs are derived from it
	if i.attempt > 1 {
		flag("--repeat", strconv.Itoa(i.attempt))
	}
	if r.o.FromStep != "" {
		flag("--from-step", r.o.FromStep)
	}
	for _, name := range slices.Sorted(maps.Keys(i.Origin.Overrides)) {
		flag("--var", name+"="+formatOverride(i.Origin.Overrides[name]))
	}
	return strings.Join(append(args, shellescape.Quote(i.Origin.File)), " ")
}

func formatOverride(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "" // cannot happen: the value is from YAML or JSON
	}
	return string(text)
}
