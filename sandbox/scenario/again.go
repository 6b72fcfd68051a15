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

// rerunCommand returns the command that repeats a run with the same random numbers. It repeats the other cells of the
// scenario and earlier attempts too.
func (r *runner) rerunCommand(i *instance) string {
	words := []string{"koupsandbox", "scenario", "run"}
	for _, word := range r.o.Flags {
		words = append(words, shellescape.Quote(word))
	}
	flag := func(name, value string) { words = append(words, name, shellescape.Quote(value)) }
	if name := r.o.Sandbox.Name; name != v1alpha1.DefaultName {
		flag("--name", name)
	}
	flag("--seed", strconv.FormatUint(r.report.Seed, 10)) // that of the call: those of its runs follow from it
	if i.attempt > 1 {
		flag("--repeat", strconv.Itoa(i.attempt))
	}
	if r.o.FromStep != "" {
		flag("--from-step", r.o.FromStep)
	}
	for _, name := range slices.Sorted(maps.Keys(i.Origin.Overrides)) {
		flag("--var", name+"="+formatOverride(i.Origin.Overrides[name]))
	}
	return strings.Join(append(words, shellescape.Quote(i.Origin.File)), " ")
}

func formatOverride(value any) string {
	if text, ok := value.(string); ok {
		return text
	}
	text, err := json.Marshal(value)
	if err != nil {
		return "" // it came from YAML or JSON
	}
	return string(text)
}
