package cli

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
	"sigs.k8s.io/yaml"

	"github.com/koupleless/koupsandbox/examples"
	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/version"
)

func (s *commands) init() *cli.Command {
	return &cli.Command{
		Name:      "init",
		Usage:     "write a repository to start from: a module's manifests, its scenarios, CI",
		ArgsUsage: "[DIR]",
		Description: `Without a DIR, into the current folder. It never overwrites anything. What it writes
passes as it is: make test.`,
		Flags: []cli.Flag{
			&cli.StringFlag{Name: nameFlag, Usage: "`NAME` of the module", DefaultText: "that of the folder"},
			&cli.StringFlag{Name: "ci", Usage: "what runs the scenarios: github, gitlab or none",
				Value: string(examples.GitHub)},
		},
		Action: taking(0, 1, "one folder at most", s.runInit),
	}
}

func (s *commands) runInit(c *cli.Context, list []string) error {
	folder := "."
	if len(list) > 0 {
		folder = list[0]
	}
	name, err := moduleName(c.String(nameFlag), folder)
	if err != nil {
		return err
	}
	ci := examples.CI(c.String("ci"))
	if !slices.Contains(examples.Systems(), ci) {
		return usageError{fmt.Errorf("--ci %q is not one of: github, gitlab, none", ci)}
	}
	o := examples.Options{Name: name, CI: ci}
	if v := version.String(); version.Released(v) {
		o.Version = v
	}
	files, err := examples.Module(o)
	if err != nil {
		return err
	}
	files["scenarios/"+schemaFile] = v1alpha1.ScenarioSchema
	paths := slices.Sorted(maps.Keys(files))
	if err := free(folder, paths); err != nil {
		return err
	}
	if err := writeAll(folder, paths, files); err != nil {
		return err
	}
	for _, path := range paths {
		say(s.Out, "%s\n", filepath.Join(folder, filepath.FromSlash(path)))
	}
	say(s.Out, "\nRun its scenarios with: make -C %s test\n", folder)
	if ci != examples.None && o.Version == "" {
		say(s.Out, "Its CI names a release of koupsandbox; this program is of none, so look whether that is the "+
			"one you want.\n")
	}
	return nil
}

// moduleName returns the name from the flag, or the name of the directory.
func moduleName(given, folder string) (string, error) {
	name, what := given, "--name"
	if name == "" {
		path, err := filepath.Abs(folder)
		if err != nil {
			return "", fmt.Errorf("finding the folder %q: %w", folder, err)
		}
		name, what = filepath.Base(path), "a module is not called as the folder, choose its --name:"
	}
	if err := v1alpha1.ValidateName(name); err != nil {
		return "", usageError{fmt.Errorf("%s %q %w", what, name, err)}
	}
	var meant any
	if err := yaml.Unmarshal([]byte(name), &meant); err != nil || meant != any(name) {
		return "", usageError{fmt.Errorf("%s %q means something else in YAML", what, name)}
	}
	return name, nil
}

func free(folder string, paths []string) error {
	var there []string
	for _, path := range paths {
		switch _, err := os.Lstat(filepath.Join(folder, filepath.FromSlash(path))); {
		case err == nil:
			there = append(there, path)
		case !errors.Is(err, fs.ErrNotExist):
			return usageError{fmt.Errorf("looking into the folder: %w", err)}
		}
	}
	if len(there) > 0 {
		return usageError{fmt.Errorf(
			"nothing was written, since %s has %s already: choose another folder, or move them away",
			folder, strings.Join(there, ", "))}
	}
	return nil
}

// writeAll writes all files, or none.
func writeAll(folder string, paths []string, files map[string][]byte) (err error) {
	var written []string
	defer func() {
		if err == nil {
			return
		}
		for _, path := range written {
			err = errors.Join(err, os.Remove(path))
		}
	}()
	for _, path := range paths {
		file := filepath.Join(folder, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // the user's own repository
			return fmt.Errorf("making a folder: %w", err)
		}
		if err := writeNew(file, files[path]); err != nil {
			return fmt.Errorf("writing %s: %w", file, err)
		}
		written = append(written, file)
	}
	return nil
}
