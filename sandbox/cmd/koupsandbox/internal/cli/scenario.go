package cli

import (
	_ "embed" // the scenario template
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/urfave/cli/v2"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
)

const schemaFile = "scenario.schema.json"

func (s *commands) scenario() *cli.Command {
	return &cli.Command{
		Name:        "scenario",
		Usage:       "run, check and list scenarios: rollouts and faults under real traffic",
		Description: describe("", "koupsandbox scenario new my-first", "koupsandbox scenario run --up my-first.yaml"),
		Subcommands: []*cli.Command{
			s.scenarioRun(),
			s.scenarioLint(),
			{
				Name: "list", Usage: "list scenarios", ArgsUsage: "[PATH...]",
				Description: describe(
					"PATH is a scenario file or a directory with scenarios. The default is the current directory.",
					"koupsandbox scenario list", "koupsandbox scenario list --selector group=rollout ."),
				Flags:  []cli.Flag{newSelectorFlag(), newOutputFlag(formatJSON, formatYAML)},
				Action: withArgs(0, -1, "scenario files and directories", s.listScenarios),
			},
			{
				Name: "new", Usage: "create a scenario from a template", ArgsUsage: "NAME",
				Description: describe(
					"Writes NAME.yaml, a scenario that can be run without changes, and its JSON schema for editors.",
					"koupsandbox scenario new my-first", "koupsandbox scenario new --dir scenarios my-second"),
				Flags: []cli.Flag{&cli.StringFlag{Name: "dir", Usage: "`DIR`: directory in which to create the files", Value: ".",
					Category: outputCategory}},
				Action: withArgs(1, 1, "one argument: the name of the scenario, a DNS label", s.newScenario),
			},
			{
				Name: "schema", Usage: "print the JSON schema of scenario files",
				Description: describe(`Editors use the schema for files that start with the comment
  # yaml-language-server: $schema=PATH`,
					"koupsandbox scenario schema", "koupsandbox scenario schema > scenario.schema.json"),
				Action: noArgs(func(*cli.Context) error {
					write(s.Out, string(v1alpha1.ScenarioSchema))
					return nil
				}),
			},
			s.scenarioExplain(),
		},
	}
}

func newSelectorFlag() *cli.StringFlag {
	return &cli.StringFlag{Name: "selector", Aliases: []string{"l"},
		Usage:    "`SELECTOR`: label selector for scenarios, for example group=rollout,name!=rolling-update",
		Category: runsCategory}
}

// scenarioFilter returns the filter that --selector sets. It returns nil if the flag is not set.
func scenarioFilter(c *cli.Context) (func(name string, of map[string]string) bool, error) {
	text := c.String("selector")
	if text == "" {
		return nil, nil
	}
	selector, err := labels.Parse(text)
	if err != nil {
		return nil, usageError{fmt.Errorf("invalid --selector %q: %w", text, err)}
	}
	return func(name string, of map[string]string) bool {
		all := labels.Set{"name": name}
		maps.Copy(all, of)
		return selector.Matches(all)
	}, nil
}

// loadScenarios reads scenarios from files. Its errors are usage errors.
func loadScenarios(paths []string, o source.Options) ([]*source.Scenario, error) {
	scenarios, err := source.Load(paths, o)
	if err != nil {
		return nil, usageError{scenarioError{fmt.Errorf("invalid scenarios:\n%w", err)}}
	}
	return scenarios, nil
}

type scenarioSummary struct {
	Name        string            `json:"name"`
	File        string            `json:"file"`
	Description string            `json:"description"`
	Source      string            `json:"source,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	// Runs lists the names of the runs, one for each combination of matrix values. Without a matrix, it contains one
	// empty name.
	Runs      []string `json:"runs"`
	Exclusive bool     `json:"exclusive"`
}

func (s *commands) listScenarios(c *cli.Context, paths []string) error {
	filter, err := scenarioFilter(c)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		paths = []string{"."}
	}
	scenarios, err := loadScenarios(paths, source.Options{Select: filter})
	if err != nil {
		return err
	}
	list := make([]scenarioSummary, len(scenarios))
	for i, sc := range scenarios {
		spec := &sc.Scenario.Spec
		list[i] = scenarioSummary{Name: sc.Scenario.Metadata.Name, File: sc.File, Description: spec.Description,
			Source: spec.Source,
			Labels: sc.Scenario.Metadata.Labels, Exclusive: *spec.Exclusive}
		for _, cell := range sc.Cells {
			list[i].Runs = append(list[i].Runs, cell.Name)
		}
	}
	return s.printResult(c, list, func(bool) {
		rows := [][]string{{"NAME", "RUNS", "LABELS", "DESCRIPTION"}}
		for _, l := range list {
			rows = append(rows,
				[]string{l.Name, strconv.Itoa(len(l.Runs)), labels.FormatLabels(l.Labels),
					strings.Join(strings.Fields(l.Description), " ")})
		}
		table(s.Out, rows)
	})
}

//go:embed scenario.yaml
var scenarioTemplate string

func (s *commands) newScenario(c *cli.Context, list []string) error {
	name := list[0]
	if err := v1alpha1.ValidateName(name); err != nil {
		return usageError{fmt.Errorf("the name %q %w", name, err)}
	}
	file := filepath.Join(c.String("dir"), name+".yaml")
	text := strings.ReplaceAll(scenarioTemplate, "NAME", name)
	if err := createFile(file, []byte(text)); errors.Is(err, fs.ErrExist) {
		return usageError{fmt.Errorf("the file %s already exists; choose another name or another --dir", file)}
	} else if err != nil {
		return fmt.Errorf("writing the scenario: %w", err)
	}
	schema := filepath.Join(c.String("dir"), schemaFile)
	if err := createFile(schema, v1alpha1.ScenarioSchema); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("writing the schema: %w", err)
	}
	printf(s.Out, "%s\n\nRun it with: koupsandbox scenario run --up %s\n", file, file)
	return nil
}

// createFile creates a file with the given content. It returns fs.ErrExist if the file already exists.
func createFile(path string, text []byte) error {
	//nolint:gosec // a file in the user's repository
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o644)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

func newVarFlag() *cli.StringSliceFlag {
	return &cli.StringSliceFlag{Name: "var", Usage: "`NAME=VALUE`: set a variable of the scenarios; repeatable",
		Category: runsCategory}
}

func parseVars(list []string) (map[string]any, error) {
	values := map[string]any{}
	for _, pair := range list {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return nil, usageError{fmt.Errorf("invalid --var %q; use NAME=VALUE", pair)}
		}
		if _, isSet := values[name]; isSet {
			return nil, usageError{fmt.Errorf("--var %s is set twice; remove one of them", name)}
		}
		values[name] = value
	}
	return values, nil
}

func countCells(scenarios []*source.Scenario) int {
	n := 0
	for _, sc := range scenarios {
		n += len(sc.Cells)
	}
	return n
}

func stepNames(scenarios []*source.Scenario) []string {
	var names []string
	for _, sc := range scenarios {
		for _, step := range sc.Steps {
			if !slices.Contains(names, step) {
				names = append(names, step)
			}
		}
	}
	return names
}
