// Package examples contains the template of a module repository. Its files also work in this directory:
//
//	module/   a module: its manifests, scenarios of its releases, CI files, a Makefile
//
// koupsandbox init writes the files to another directory, with the module name that the user chooses and the version
// of koupsandbox.
package examples

import (
	"embed"
	"fmt"
	"io/fs"
	"maps"
	"strings"
)

// files contains the example files. The pattern starts with all: because the names of some files begin with a dot.
//
//go:embed all:module
var files embed.FS

const (
	// module and version are placeholders in the example files: the module name, and the release of koupsandbox that
	// CI uses.
	module, version = "stock", "v0.1.0"
	// schema is the path of the scenario schema in this repository, as the scenarios refer to it.
	schema = "../../../sandbox/api/v1alpha1/"
)

// CI is the name of a CI system that runs the scenarios of a repository.
type CI string

// The supported CI systems.
const (
	GitHub CI = "github"
	GitLab CI = "gitlab"
	None   CI = "none"
)

// ciFiles maps each CI system to its workflow file. Module returns only the file of the selected system.
var ciFiles = map[CI]string{GitHub: ".github/workflows/scenarios.yml", GitLab: ".gitlab-ci.yml"}

// Systems lists all values of CI.
func Systems() []CI { return []CI{GitHub, GitLab, None} }

// Options configures Module.
type Options struct {
	// Name is the name of the module, a DNS label. Required.
	Name string
	// Version is the release of koupsandbox that CI uses, such as v1.2.3. Default: the version in the example files.
	Version string
	// CI selects the CI system whose workflow file is included. Default: none.
	CI CI
}

// Module returns the files of a module's repository by path, with slashes as separators. The scenarios expect their
// schema in the same directory, as scenario.schema.json.
func Module(o Options) (map[string][]byte, error) {
	pairs := []string{module, o.Name, schema, ""}
	if o.Version != "" {
		pairs = append(pairs, version, o.Version)
	}
	fit := strings.NewReplacer(pairs...)
	leftOut := maps.Clone(ciFiles)
	delete(leftOut, o.CI)
	out := map[string][]byte{}
	root, err := fs.Sub(files, "module")
	if err != nil {
		return nil, fmt.Errorf("reading the examples: %w", err)
	}
	err = fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		for _, other := range leftOut {
			if path == other {
				return nil
			}
		}
		text, err := fs.ReadFile(root, path)
		out[path] = []byte(fit.Replace(string(text)))
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("reading the examples: %w", err)
	}
	return out, nil
}
