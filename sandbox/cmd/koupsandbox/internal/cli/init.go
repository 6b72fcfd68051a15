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
		Usage:     "create a repository with the manifests, scenarios and CI configuration of a module",
		ArgsUsage: "[DIR]",
		Description: describe(
			`The default of DIR is the current directory. Existing files are not overwritten. The created
scenarios pass without changes. To run them, use: make test`,
			"koupsandbox init order", "koupsandbox init --ci gitlab --env test stock"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: nameFlag, Usage: "`NAME`: name of the module",
				DefaultText: "the name of the directory",
				Category:    outputCategory},
			&cli.StringFlag{Name: "env",
				Usage:       "`ENV`: environment of the module's bases; if it is set, sandbox.yaml is also created",
				DefaultText: "dev", Category: outputCategory},
			&cli.StringFlag{Name: "ci", Usage: "`SYSTEM`: CI system that runs the scenarios: github, gitlab or none",
				Value: string(examples.GitHub), Category: outputCategory},
		},
		Action: withArgs(0, 1, "at most one argument: a directory", s.runInit),
	}
}

func (s *commands) runInit(c *cli.Context, list []string) error {
	dir := "."
	if len(list) > 0 {
		dir = list[0]
	}
	name, err := moduleName(c.String(nameFlag), dir)
	if err != nil {
		return err
	}
	ci := examples.CI(c.String("ci"))
	if !slices.Contains(examples.Systems(), ci) {
		return usageError{fmt.Errorf("invalid --ci %q; use one of: github, gitlab, none", ci)}
	}
	o := examples.Options{Name: name, CI: ci, Env: c.String("env")}
	if c.IsSet("env") {
		if err := v1alpha1.ValidateName(o.Env); err != nil {
			return usageError{fmt.Errorf("--env %q %w", o.Env, err)}
		}
	}
	if v := version.String(); version.Released(v) {
		o.Version = v
	}
	files, err := examples.Module(o)
	if err != nil {
		return err
	}
	files["scenarios/"+schemaFile] = v1alpha1.ScenarioSchema
	paths := slices.Sorted(maps.Keys(files))
	if err := checkFree(dir, paths); err != nil {
		return err
	}
	if err := writeAll(dir, paths, files); err != nil {
		return err
	}
	for _, path := range paths {
		printf(s.Out, "%s\n", filepath.Join(dir, filepath.FromSlash(path)))
	}
	printf(s.Out, "\nRun its scenarios with: make -C %s test\n", dir)
	if ci != examples.None && o.Version == "" {
		printf(s.Out, "This koupsandbox binary is not a released version; check the koupsandbox version in the CI "+
			"files.\n")
	}
	return nil
}

// moduleName returns the module name from the flag. Without the flag, it returns the name of the directory.
func moduleName(nameFlagValue, dir string) (string, error) {
	name, source, fix := nameFlagValue, "--name", ""
	if name == "" {
		path, err := filepath.Abs(dir)
		if err != nil {
			return "", fmt.Errorf("resolving the directory %q: %w", dir, err)
		}
		name, source, fix = filepath.Base(path), "the directory name", "; set --name"
	}
	if err := v1alpha1.ValidateName(name); err != nil {
		return "", usageError{fmt.Errorf("%s %q %w%s", source, name, err, fix)}
	}
	var value any
	if err := yaml.Unmarshal([]byte(name), &value); err != nil || value != any(name) {
		return "", usageError{fmt.Errorf("%s %q is not a string in YAML; choose another name", source, name)}
	}
	return name, nil
}

// checkFree returns an error if any of the files to write already exists.
func checkFree(dir string, paths []string) error {
	var existing []string
	for _, path := range paths {
		switch _, err := os.Lstat(filepath.Join(dir, filepath.FromSlash(path))); {
		case err == nil:
			existing = append(existing, path)
		case !errors.Is(err, fs.ErrNotExist):
			return usageError{fmt.Errorf("checking for existing files: %w", err)}
		}
	}
	if len(existing) > 0 {
		return usageError{fmt.Errorf(
			"no files were written, because %s already contains %s; use an empty directory, and copy the files that "+
				"you need",
			dir, strings.Join(existing, ", "))}
	}
	return nil
}

// writeAll writes all files. If it fails, it removes the files that it has written.
func writeAll(dir string, paths []string, files map[string][]byte) (err error) {
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
		file := filepath.Join(dir, filepath.FromSlash(path))
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil { //nolint:gosec // the user's own repository
			return fmt.Errorf("creating a directory: %w", err)
		}
		if err := createFile(file, files[path]); err != nil {
			return fmt.Errorf("writing %s: %w", file, err)
		}
		written = append(written, file)
	}
	return nil
}
