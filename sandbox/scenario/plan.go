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
	name         string // name of the run, which is also the name of its namespace and of its group of bases
	rerunCommand string
}

// plan returns all runs: o.Repeat runs for each cell of each scenario's matrix.
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

// newInstance returns the instance of a scenario for one run. The run gets a unique name.
func newInstance(s *source.Scenario, cell source.Cell, attempt int, seed uint64, env string, speed int) (*instance,
	error) {
	i := &instance{attempt: attempt, name: runName(s.Scenario.Metadata.Name), seed: seed}
	var err error
	i.Instance, err = s.Instantiate(cell,
		expr.Run{Namespace: i.name, Group: i.name, Seed: seed, Env: env, Attempt: attempt})
	if err != nil {
		return nil, err
	}
	if i.Spec.Speed == 0 && speed > 1 { // a scenario with a speed has times for this speed
		i.DivideTimes(speed)
	}
	return i, nil
}

// seedOf derives the seed of a run from the seed of the call of Execute. With the same seed, the same run gets the
// same seed in each call.
func seedOf(seed uint64, name string, cell map[string]any, attempt int) uint64 {
	text, err := json.Marshal(cell) // sorted by name
	if err != nil {
		text = nil // no JSON: all cells get the same seed, which is harmless
	}
	h := fnv.New64a()
	_, _ = fmt.Fprintf(h, "%d %s %s %d", seed, name, text, attempt) // never fails
	return h.Sum64() >> 1                                           // expressions have signed integers
}

// maxNameLength is the maximum length of the scenario name in the name of a run. It is limited because the name of a
// base is a label value, which also contains the name of the set and a number.
const maxNameLength = 30

// runName returns a unique name for a run. The name does not depend on the seed, because the namespace of an earlier
// run with the same seed may still exist.
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
