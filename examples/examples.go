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

	"sigs.k8s.io/yaml"
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
	// sandboxFile is the sandbox configuration for Options.Env.
	sandboxFile = "sandbox.yaml"
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

// web lists the texts in the example files that differ for Options.Web, each followed by its replacement.
var web = []string{
	"    metadata:\n      labels:", "    metadata:\n" +
		"      annotations: # one base at a time replaces the old version\n" +
		"        module.koupleless.io/install-strategy: uninstallThenInstall\n      labels:",
	"  bases: # if versions of the module share a web context path, use: koupsandbox init --web\n", "  bases:\n",
	"installTime: 200ms}", "installTime: 200ms, web: true}",
	"  steps:\n", "  checks: {activeVersion: ignored} # a base answers 404 while it replaces the version\n  steps:\n",
	"    - traffic: {start: {name: bases, via: bases, module: stock}}\n", "",
	"no request is lost.", "the Service loses no request.",
	"a release, a release during which the module controller restarts, and a release of a version that does not start.",
	"a release, and a release during which the module controller restarts. They check only requests to the Service.",
	"一次发布，一次期间 Module Controller 重启的发布，以及一次新版本无法启动的发布。",
	"一次发布，以及一次期间 Module Controller 重启的发布。只检查发往 Service 的请求。",
}

// Systems lists all values of CI.
func Systems() []CI { return []CI{GitHub, GitLab, None} }

// Options configures Module.
type Options struct {
	// Name is the name of the module, a DNS label. Required.
	Name string
	// Version is the release of koupsandbox that CI uses, such as v1.2.3. Default: the version in the example files.
	Version string
	// Web is for a web module whose versions share a context path, so that a base can install only one of them. Its
	// scenarios check only requests to the Service.
	Web bool
	// Env is the environment of the module's bases, a DNS label. If it is set, Module also returns a sandbox
	// configuration, which the Makefile and the workflow file use. Default: dev, the default of sandboxes.
	Env string
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
	out := map[string][]byte{}
	if o.Env != "" {
		env, err := yaml.Marshal(o.Env) // in quotes if it looks like a number or a boolean value
		if err != nil {
			return nil, fmt.Errorf("encoding the environment: %w", err)
		}
		value := strings.TrimSpace(string(env))
		out[sandboxFile] = []byte("# The sandbox in which make and CI run the scenarios. Both set " +
			"KOUPSANDBOX_CONFIG to this file.\napiVersion: sandbox.koupleless.io/v1alpha1\nkind: Sandbox\n" +
			"spec:\n  env: " + value + "\n")
		pairs = append(pairs,
			"value: dev,", "value: "+value+",",
			"--env dev", "--env "+o.Env,
			".PHONY:", "export KOUPSANDBOX_CONFIG = "+sandboxFile+"\n.PHONY:",
			"    timeout-minutes: 15\n",
			"    timeout-minutes: 15\n    env:\n      KOUPSANDBOX_CONFIG: "+sandboxFile+"\n",
			"include:\n", "variables:\n  KOUPSANDBOX_CONFIG: "+sandboxFile+"\ninclude:\n")
	}
	leftOut := maps.Clone(ciFiles)
	delete(leftOut, o.CI)
	if o.Web {
		pairs = append(pairs, web...)
		leftOut[None] = "scenarios/broken-release.yaml" // until the rollback, a base has no version
	}
	fit := strings.NewReplacer(pairs...)
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
