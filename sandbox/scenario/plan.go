package scenario

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"strings"

	"github.com/koupleless/koupsandbox/sandbox/scenario/internal/expr"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

type instance struct {
	*source.Instance
	attempt      int
	seed         uint64
	name         string // of its namespace and its group
	rerunCommand string // the command that repeats it
}

// plan returns the runs: each scenario with each cell of its matrix, repeated as often as the options say.
func plan(o Options, env string, speed int) ([]*instance, error) {
	var all []*instance
	for attempt := 1; attempt <= max(o.Repeat, 1); attempt++ {
		for _, s := range o.Scenarios {
			for _, cell := range s.Cells {
				i, err := newInstance(s, cell, attempt, seedOf(o.Seed, s.Scenario.Metadata.Name, cell.Values, attempt),
					env, speed)
				if err != nil {
					return nil, err
				}
				all = append(all, i)
			}
		}
	}
	return all, nil
}

// newInstance expands a scenario for one run, with a name that no other run has.
func newInstance(s *source.Scenario, cell source.Cell, attempt int, seed uint64, env string, speed int) (*instance,
	error) {
	i := &instance{attempt: attempt, name: runName(s.Scenario.Metadata.Name), seed: seed}
	var err error
	i.Instance, err = s.Instantiate(cell,
		expr.Run{Namespace: i.name, Group: i.name, Seed: seed, Env: env, Attempt: attempt})
	if err != nil {
		return nil, err
	}
	if i.Spec.Speed == 0 && speed > 1 { // otherwise the scenario is written for a speed
		i.DivideTimes(speed)
	}
	return i, nil
}

// seedOf derives the seed of a run. It is the same for the same run of another call.
func seedOf(seed uint64, name string, cell map[string]any, attempt int) uint64 {
	text, err := json.Marshal(cell) // sorted by name
	if err != nil {
		text = nil // no JSON: all cells have the same seed, which is no harm
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s %s %d", seed, name, text, attempt) // never fails
	return h.Sum64() >> 1                                           // expressions see it whole
}

// maxNameLength leaves room for the set and the number of a base in a label.
const maxNameLength = 30

// runName returns a name that no other run has. It does not depend on the seed, because the namespace of an earlier
// run with that seed may still exist.
func runName(scenario string) string {
	const letters = "bcdfghjklmnpqrstvwxz0123456789"
	random := make([]byte, 5)
	for i := range random {
		random[i] = letters[rand.IntN(len(letters))]
	}
	if len(scenario) > maxNameLength {
		scenario = strings.TrimRight(scenario[:maxNameLength], "-")
	}
	return scenario + "-" + string(random)
}
