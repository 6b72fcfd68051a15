package cli

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"al.essio.dev/pkg/shellescape"
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
			`The default of DIR is the current directory. Existing files are not changed. With the example
manifests, the created scenarios pass without changes. To run them, use: make test`,
			"koupsandbox init order", "koupsandbox init --ci gitlab --env test stock",
			"koupsandbox init --manifests deploy"),
		Flags: []cli.Flag{
			&cli.StringFlag{Name: nameFlag, Usage: "`NAME`: name of the module",
				DefaultText: "the name of the module in --manifests, or of the directory",
				Category:    outputCategory},
			&cli.StringFlag{Name: "env",
				Usage: "`ENV`: environment of the module's bases; sandbox.yaml is also created, unless the " +
					"default is dev",
				DefaultText: "the environment in --manifests, or dev", Category: outputCategory},
			&cli.StringSliceFlag{Name: manifestsFlag, Usage: "`PATH`: file or directory with your manifests, which " +
				"the scenarios apply instead of example manifests; can be repeated", Category: outputCategory},
			&cli.BoolFlag{Name: "web", Usage: "the versions of the module share a web context path",
				Category: outputCategory},
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
	own, name, err := s.module(c, dir)
	if err != nil {
		return err
	}
	ci := examples.CI(c.String("ci"))
	if !slices.Contains(examples.Systems(), ci) {
		return usageError{fmt.Errorf("invalid --ci %q; use one of: github, gitlab, none", ci)}
	}
	o := examples.Options{Name: name, CI: ci, Env: c.String("env"), Web: c.Bool("web")}
	source := "--env"
	if own != nil {
		o.Manifests = &own.Manifests
		if own.env != v1alpha1.DefaultEnv && !c.IsSet("env") {
			o.Env, source = own.env, "the environment in --manifests"
		}
		if (o.Web || own.Spare) && own.Service == "" {
			return usageError{fmt.Errorf("the scenarios of this module send requests only to its Service, but no "+
				"Service in %s selects the Pods of %s %s; add the manifest of the Service to --manifests",
				strings.Join(own.Files, ", "), own.Kind, own.Workload)}
		}
	}
	if c.IsSet("env") || o.Env != "" {
		if err := v1alpha1.ValidateName(o.Env); err != nil {
			return usageError{fmt.Errorf("%s %q %w", source, o.Env, err)}
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
	missing, kept, err := compare(dir, paths, files)
	if err != nil {
		return err
	}
	const translation = "README-zh_CN.md"
	if i := slices.Index(missing, translation); i >= 0 && slices.Contains(kept, "README.md") {
		missing = slices.Delete(missing, i, i+1)
		delete(files, translation)
	}
	if err := writeAll(dir, missing, files); err != nil {
		return err
	}
	description := ""
	if own != nil {
		description = "\n" + own.describe()
	}
	s.printInit(dir, o, files, kept, description)
	return nil
}

// module returns the name of the module and, with --manifests, the module in these manifests.
func (s *commands) module(c *cli.Context, dir string) (*ownModule, string, error) {
	if !c.IsSet(manifestsFlag) {
		name, err := moduleName(c.String(nameFlag), dir)
		return nil, name, err
	}
	if c.IsSet(nameFlag) {
		return nil, "", usageError{fmt.Errorf("--name cannot be combined with --manifests, because the name of the " +
			"module is the name of its container; remove --name")}
	}
	own, err := s.readModule(dir, c.StringSlice(manifestsFlag))
	if err != nil {
		return nil, "", err
	}
	return own, own.name, checkModuleName(own.name, "the name of the container", "")
}

// printInit prints the files of the module, the existing files in kept, the description, and the command that runs the
// scenarios.
func (s *commands) printInit(dir string, o examples.Options, files map[string][]byte, kept []string,
	description string) {
	for _, path := range slices.Sorted(maps.Keys(files)) {
		if !slices.Contains(kept, path) {
			printf(s.Out, "%s\n", filepath.Join(dir, filepath.FromSlash(path)))
		}
	}
	command := "make test"
	if dir != "." {
		command = "make -C " + shellescape.Quote(dir) + " test"
	}
	for _, path := range kept {
		printf(s.Out, "\n%s already exists and was not changed", filepath.Join(dir, path))
		switch path {
		case ".gitignore", ".gitlab-ci.yml":
			printf(s.Out, "; add:\n%s", files[path])
		case "Makefile":
			command = makeCommands(files[path])
			if dir != "." {
				command = "cd " + shellescape.Quote(dir) + " && " + command
			}
			if o.Env != "" {
				command += " --config sandbox.yaml"
			}
			fallthrough
		default:
			printf(s.Out, ".\n")
		}
	}
	printf(s.Out, "%s\nRun the scenarios with: %s\n", description, command)
	if o.CI != examples.None && o.Version == "" {
		printf(s.Out, "This koupsandbox binary is not a released version: check the version in the CI files, or, on "+
			"GitHub, use the steps in the comments, which build koupsandbox.\n")
	}
}

// makeCommands returns the commands of the targets lint and test in the Makefile, as one command line.
func makeCommands(makefile []byte) string {
	_, text, _ := strings.Cut(string(makefile), "test: lint\n\t")
	test, text, _ := strings.Cut(text, "\nlint:\n\t")
	lint, _, _ := strings.Cut(text, "\n")
	return lint + " && " + test
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
	return name, checkModuleName(name, source, fix)
}

// checkModuleName returns an error if a name from source cannot be the name of a module in the example files. fix is
// appended to the error message.
func checkModuleName(name, source, fix string) error {
	if err := v1alpha1.ValidateName(name); err != nil {
		return usageError{fmt.Errorf("%s %q %w%s", source, name, err, fix)}
	}
	var value any
	if err := yaml.Unmarshal([]byte(name), &value); err != nil || value != any(name) {
		return usageError{fmt.Errorf("%s %q is not a string in YAML; choose another name", source, name)}
	}
	return nil
}

// common lists files that a repository often has for other purposes. If one of them exists, init works without it.
var common = []string{".gitignore", ".gitlab-ci.yml", "Makefile", "README-zh_CN.md", "README.md"}

// compare returns the paths of files that do not exist in dir, and of existing common files without the content in
// files. It returns an error if another existing file does not have the content in files.
func compare(dir string, paths []string, files map[string][]byte) (missing, kept []string, err error) {
	var conflicts []string
	for _, path := range paths {
		file := filepath.Join(dir, filepath.FromSlash(path))
		_, err := os.Lstat(file)
		text, _ := os.ReadFile(file) //nolint:gosec // the user's own repository
		switch {
		case errors.Is(err, fs.ErrNotExist):
			missing = append(missing, path)
		case err != nil:
			return nil, nil, usageError{fmt.Errorf("checking for existing files: %w", err)}
		case bytes.Contains(text, files[path]):
		case slices.Contains(common, path):
			kept = append(kept, path)
		default:
			conflicts = append(conflicts, path)
		}
	}
	if len(conflicts) > 0 {
		return nil, nil, usageError{fmt.Errorf(
			"no files were written, because %s already contains different files: %s; use an empty directory, and copy "+
				"the files that you need", dir, strings.Join(conflicts, ", "))}
	}
	return missing, kept, nil
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
