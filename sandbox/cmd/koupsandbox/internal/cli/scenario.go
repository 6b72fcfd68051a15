package cli

import (
	_ "embed" // the file to start from
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
		Name:  "scenario",
		Usage: "run scenarios: rollouts with their disturbance, judged by what real requests got",
		Description: `A PATH is a scenario file, or a folder with scenario files.
Begin with: koupsandbox scenario new my-first`,
		Subcommands: []*cli.Command{
			s.scenarioRun(),
			s.scenarioLint(),
			{
				Name: "list", Usage: "list scenarios", ArgsUsage: "[PATH...]",
				Description: "Without a PATH, those of the current folder.",
				Flags:       []cli.Flag{newSelectorFlag(), newOutputFlag(formatJSON, formatYAML)},
				Action:      withArgs(0, -1, "scenario files and folders", s.listScenarios),
			},
			{
				Name: "new", Usage: "write a scenario to start from", ArgsUsage: "NAME",
				Description: `Writes NAME.yaml, which runs as it is, and the schema by which editors complete it.`,
				Flags:       []cli.Flag{&cli.StringFlag{Name: "dir", Usage: "`FOLDER` for the files", Value: "."}},
				Action:      withArgs(1, 1, "the name of the scenario, a DNS label", s.newScenario),
			},
			{
				Name: "schema", Usage: "print the JSON schema of scenario files",
				Description: `Editors complete a file that begins with
  # yaml-language-server: $schema=PATH`,
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
		Usage: "`LABELS` that scenarios must have, as kubectl has them; name is one too: " +
			"group=rollout,name!=rolling-update"}
}

func scenarioFilter(c *cli.Context) (func(name string, of map[string]string) bool, error) {
	text := c.String("selector")
	if text == "" {
		return nil, nil
	}
	chosen, err := labels.Parse(text)
	if err != nil {
		return nil, usageError{fmt.Errorf("--selector %q cannot be read: %w", text, err)}
	}
	return func(name string, of map[string]string) bool {
		all := labels.Set{"name": name}
		maps.Copy(all, of)
		return chosen.Matches(all)
	}, nil
}

// load reads scenarios; a mistake in them is a mistake of the user.
func loadScenarios(paths []string, o source.Options) ([]*source.Scenario, error) {
	scenarios, err := source.Load(paths, o)
	if err != nil {
		return nil, usageError{scenarioError{fmt.Errorf("the scenarios cannot be run:\n%w", err)}}
	}
	return scenarios, nil
}

type scenarioSummary struct {
	Name        string            `json:"name"`
	File        string            `json:"file"`
	Description string            `json:"description"`
	Source      string            `json:"source,omitempty"`
	Labels      map[string]string `json:"labels,omitempty"`
	// Runs are the cells of its matrix; one without a name when there is none.
	Runs      []string `json:"runs"`
	Exclusive bool     `json:"exclusive"`
}

func (s *commands) listScenarios(c *cli.Context, paths []string) error {
	choose, err := scenarioFilter(c)
	if err != nil {
		return err
	}
	if len(paths) == 0 {
		paths = []string{"."}
	}
	scenarios, err := loadScenarios(paths, source.Options{Select: choose})
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
		return usageError{fmt.Errorf("there is a file %s already: choose another name, or another --dir", file)}
	} else if err != nil {
		return fmt.Errorf("writing the scenario: %w", err)
	}
	beside := filepath.Join(c.String("dir"), schemaFile)
	if err := createFile(beside, v1alpha1.ScenarioSchema); err != nil && !errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("writing the schema: %w", err)
	}
	printf(s.Out, "%s\n\nRun it with: koupsandbox scenario run --up %s\n", file, file)
	return nil
}

func createFile(path string, text []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL,
		0o644) //nolint:gosec // a file for the user's own repository
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	return errors.Join(err, f.Close())
}

func parseVars(list []string) (map[string]any, error) {
	values := map[string]any{}
	for _, pair := range list {
		name, value, found := strings.Cut(pair, "=")
		if !found || name == "" {
			return nil, usageError{fmt.Errorf("--var %q is not of the form NAME=VALUE", pair)}
		}
		if _, twice := values[name]; twice {
			return nil, usageError{fmt.Errorf("--var %s is given twice", name)}
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
