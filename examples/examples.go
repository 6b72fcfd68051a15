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

// files contains the example files. The prefix all: is required because the names of some example files begin with a
// dot.
//
//go:embed all:module
var files embed.FS

const (
	// module and version are the module name and the koupsandbox release in the example files. Module replaces both
	// with the values in Options.
	module, version = "stock", "v0.1.0"
	// schema is the path prefix with which the example scenarios refer to the scenario schema in this repository.
	// Module removes the prefix.
	schema = "../../../sandbox/api/v1alpha1/"
)

// CI is a CI system that can run the scenarios of a module's repository.
type CI string

// The supported CI systems.
const (
	GitHub CI = "github"
	GitLab CI = "gitlab"
	None   CI = "none"
)

// ciFiles maps each CI system to its workflow file. Module omits the workflow files of all other CI systems.
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

// Module returns the example files for a module's repository, keyed by slash-separated path. The scenarios expect the
// scenario schema next to them, in a file named scenario.schema.json that Module does not return.
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
