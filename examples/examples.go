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
	"slices"
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

// toBases is the step that sends requests to each base. newVersion is true for a base that has only version 99.0.0, and
// oldVersion for a base on which another version is active.
const (
	toBases    = "    - traffic: {start: {name: bases, via: bases, module: stock}}\n"
	newVersion = "bases[b].modules.map(m, m.version + ' ' + m.state) == ['99.0.0 ACTIVATED']"
	oldVersion = "bases[b].modules.exists(m, m.version != '99.0.0' && m.state == 'ACTIVATED')"
)

// web lists the texts in the example files that differ for Options.Web, each followed by its replacement.
var web = []string{
	"    metadata:\n      labels:", "    metadata:\n" +
		"      annotations: # one base at a time replaces the old version\n" +
		"        module.koupleless.io/install-strategy: uninstallThenInstall\n      labels:",
	"  bases: # if versions of the module share a web context path, use: koupsandbox init --web\n", "  bases:\n",
	"  steps:\n", "  checks: {activeVersion: ignored} # a base answers 404 while it replaces the version\n  steps:\n",
	toBases, "",
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
	// Manifests describes existing manifests, which the scenarios apply instead of the example manifests. If it is set,
	// Module returns no README files. Default: the example manifests.
	Manifests *Manifests
	// CI selects the CI system whose workflow file is included. Default: none.
	CI CI
}

// Manifests describes existing manifests of a module.
type Manifests struct {
	// Files lists the manifest files in the order in which the scenarios apply them. They are slash-separated paths
	// relative to the repository, without spaces and without characters that are special in YAML or in a shell.
	Files []string
	// Kind is the kind of the workload that contains the module: Deployment or DaemonSet.
	Kind string
	// Workload is the name of this workload, and Service the name of its Service. Without a Service, the scenarios send
	// requests only to the bases.
	Workload, Service string
	// Replicas is the number of bases that run the module. Spare reports whether one more base is required, because an
	// anti-affinity excludes bases with an old Pod.
	Replicas int
	Spare    bool
	// BaseFields lists additional fields of the bases in YAML, such as "webPort: 8081".
	BaseFields []string
}

// Bases returns the number of bases in the scenarios.
func (m *Manifests) Bases() int {
	if m.Spare {
		return m.Replicas + 1
	}
	return m.Replicas
}

// replacements returns the texts in the example files that differ for existing manifests of a module, each followed by
// its replacement.
func (m *Manifests) replacements(name string) []string {
	apply := ""
	for _, file := range m.Files {
		apply += "    - apply: {file: ../" + file + "}\n"
	}
	service := "    - traffic: {start: {name: service, service: stock, module: stock}}\n"
	toService := strings.NewReplacer("service: stock", "service: "+scalar(m.Service), "module: stock", "module: "+name)
	pairs := []string{
		"    - apply: {file: ../manifests/deployment.yaml}\n    - apply: {file: ../manifests/service.yaml}\n", apply,
		"kind: Deployment, name: stock", "kind: " + m.Kind + ", name: " + scalar(m.Workload),
		"count: 3", fmt.Sprint("count: ", m.Bases()),
		"manifests scenarios", strings.Join(m.Files, " ") + " scenarios",
	}
	if m.Spare {
		n := fmt.Sprint(m.Replicas)
		pairs = append(pairs, toBases, "", "active on every base", "active", "every base serves", n+" bases serve",
			"bases.all(b, "+newVersion+")", "bases.filter(b, "+newVersion+").size() == "+n,
			"bases.all(b, "+oldVersion+")", "bases.filter(b, "+oldVersion+").size() == "+n)
	}
	if m.Kind == "DaemonSet" {
		pairs = append(pairs,
			"deployments.all(d, d.status.updatedReplicas >= 1 && d.status.availableReplicas == d.spec.replicas)",
			"daemonsets.all(d, d.status.numberAvailable == d.status.desiredNumberScheduled)")
	}
	if m.Service == "" {
		return append(pairs, service, "")
	}
	return append(pairs, service, toService.Replace(service))
}

// scalar formats a string as a YAML value. The string is in quotes if it looks like a number or a boolean value.
func scalar(text string) string {
	out, err := yaml.Marshal(text)
	if err != nil {
		return fmt.Sprintf("%q", text)
	}
	return strings.TrimSpace(string(out))
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
		value := scalar(o.Env)
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
	var leftOut []string
	for ci, file := range ciFiles {
		if ci != o.CI {
			leftOut = append(leftOut, file)
		}
	}
	fields := []string{"installTime: 200ms"}
	if o.Web {
		pairs = append(pairs, web...)
		leftOut = append(leftOut, "scenarios/broken-release.yaml") // until the rollback, a base has no version
		fields = append(fields, "web: true")
	}
	if o.Manifests != nil {
		pairs = append(o.Manifests.replacements(o.Name), pairs...)
		leftOut = append(leftOut, "manifests/deployment.yaml", "manifests/service.yaml", "README.md", "README-zh_CN.md")
		fields = append(fields, o.Manifests.BaseFields...)
	}
	pairs = append(pairs, "installTime: 200ms}", strings.Join(fields, ", ")+"}",
		"installTime: 200ms\n", strings.Join(fields, "\n      ")+"\n")
	fit := strings.NewReplacer(pairs...)
	root, err := fs.Sub(files, "module")
	if err != nil {
		return nil, fmt.Errorf("reading the examples: %w", err)
	}
	err = fs.WalkDir(root, ".", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		if slices.Contains(leftOut, path) {
			return nil
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
