package cli

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/controller/labels"
	"github.com/koupleless/koupsandbox/sandbox/internal/language"
	"github.com/koupleless/koupsandbox/sandbox/internal/lint"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

func (s *commands) scenarioLint() *cli.Command {
	return &cli.Command{
		Name:      "lint",
		Usage:     "check scenarios and the Kubernetes manifests of modules",
		ArgsUsage: "PATH...",
		Description: describe(`PATH is a file, a directory, which is searched recursively, or - for standard input. With
--live, the manifests are compared with a sandbox, or, with --context or --kubeconfig, with
any cluster that runs the bundled controller. Lint is read-only. Parts that were not checked
are listed on standard error, and in JSON as findings of the level info.
Exit status: 0 if there are no errors, 1 if there are errors, 2 if there is nothing to
check.
To explain a rule, run: koupsandbox scenario explain RULE`,
			"koupsandbox scenario lint --env dev deploy/", "helm template CHART | koupsandbox scenario lint -o json -"),
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "env", Usage: "`ENV`: target environment of the modules",
				DefaultText: "any; the output lists the tolerated environments", Category: lintCategory},
			&cli.BoolFlag{Name: liveFlag, Category: lintCategory,
				Usage: "compare the manifests with the bases of a cluster, and explain why existing " +
					"objects are not Ready"},
			newAnnotateFlag(),
			newLanguageFlag(),
			newOutputFlag(formatJSON, formatYAML),
		}, clusterFlags("namespace of objects that do not set a namespace")...),
		Action: withArgs(1, -1, "at least one argument: a file, a directory or -", s.lint),
	}
}

func (s *commands) lint(c *cli.Context, paths []string) error {
	l, err := s.languageOf(c)
	if err != nil {
		return err
	}
	scenarios, manifests, err := s.readInputs(paths)
	if err != nil {
		return err
	}
	findings := []lint.Finding{} // JSON has [] for no findings
	if len(scenarios) > 0 {
		_, err := source.Load(scenarios, source.Options{})
		findings = append(findings, scenarioFindings(err)...)
	}
	o := lint.Options{Env: c.String("env"), Language: l}
	if err := s.connectLive(c, &o, len(manifests)); err != nil {
		return err
	}
	report := lint.Lint(manifests, o)
	report.Findings = append(findings, report.Findings...)
	err = s.printResult(c, report.Findings, func(bool) { s.printLint(l, report, len(manifests) > 0) })
	err = errors.Join(err, s.annotate(c, annotationsOf(report.Findings)))
	if err != nil {
		return err
	}
	switch {
	case slices.ContainsFunc(report.Findings, func(f lint.Finding) bool { return f.Level == lint.Error }):
		return errFailed
	case len(scenarios) == 0 && report.Workloads == 0:
		return usageError{fmt.Errorf(
			"nothing to check: %s has neither a scenario nor a Pod template; objects found: %s",
			strings.Join(paths, ", "), cmp.Or(strings.Join(report.Objects, ", "), "none"))}
	}
	return nil
}

var textNotChecked = language.Text{EN: "not checked: {finding}", ZH: "未检查：{finding}"}

// printLint prints the findings to standard output. It prints the items that lint could not check to standard error.
func (s *commands) printLint(l language.Language, report lint.Report, manifests bool) {
	for _, f := range report.Findings {
		if f.Level != lint.Info {
			printf(s.Out, "%s\n", f)
			continue
		}
		finding := strings.TrimSuffix(strings.TrimPrefix(f.Object+": "+f.Message+"; "+f.Fix, ": "), "; ")
		printf(s.Err, "%s\n", textNotChecked.In(l, language.Args{"finding": finding}))
	}
	if manifests && report.Workloads > 0 && report.Modules == 0 {
		printf(s.Err, "no module workload found: none of the workloads (%d) has the label %s: %s, tolerates "+
			"%s or sets %s\n",
			report.Workloads, labels.Component, labels.Module, labels.TaintVirtualNode, labels.VersionEnv)
	}
}

func isRegular(path string) bool {
	info, err := os.Stat(path)
	return err == nil && info.Mode().IsRegular()
}

const liveFlag = "live"

// connectLive connects to the cluster with which lint --live compares the manifests, and sets o.Live. Without --live,
// it only checks that no flag selects a cluster.
func (s *commands) connectLive(c *cli.Context, o *lint.Options, manifests int) error {
	if !c.Bool(liveFlag) {
		for _, flag := range []string{nameFlag, namespaceFlag, "n", contextFlag, kubeconfigFlag} {
			if s.onCommandLine(flag) {
				return usageError{fmt.Errorf("%s requires --%s", dashed(flag), liveFlag)}
			}
		}
		return nil
	}
	if manifests == 0 {
		return usageError{fmt.Errorf("--%[1]s compares manifests with a cluster, but the inputs are only scenarios; "+
			"add manifests, or remove --%[1]s",
			liveFlag)}
	}
	cluster, err := s.selectCluster(c)
	if err != nil {
		return err
	}
	bases, err := why.GatherBases(c.Context, cluster.client)
	if err != nil {
		return err
	}
	o.Live = &lint.Live{Bases: bases, Now: time.Now(), Namespace: cluster.namespace,
		Why: func(target why.Target) (why.Answer, error) {
			found, err := why.Gather(c.Context, cluster.client, target)
			if err != nil {
				return why.Answer{}, err
			}
			return why.ExplainIn(o.Language, found, time.Now()), nil
		}}
	return nil
}

func scenarioFindings(err error) []lint.Finding {
	var problems source.Problems
	errors.As(err, &problems)
	var findings []lint.Finding
	for _, p := range problems {
		findings = append(findings, lint.Finding{Rule: "scenario", Level: lint.Error, File: p.Source, Line: p.Line,
			Message: strings.TrimPrefix(p.Field+": "+p.Detail, ": "), Excerpt: p.Excerpt})
	}
	return findings
}

func (s *commands) readInputs(paths []string) (scenarios []string, manifests []lint.Input, err error) {
	add := func(path string, text []byte, named bool) {
		switch {
		case source.IsScenario(text) && path != "-":
			scenarios = append(scenarios, path)
			// A file with expressions is checked with the scenario that applies it.
		case named || !strings.Contains(string(text), "${{"):
			manifests = append(manifests, lint.Input{Name: path, Text: text, Found: !named})
		}
	}
	for _, path := range paths {
		if path == "-" {
			if s.In == nil {
				return nil, nil, usageError{
					fmt.Errorf("the input - requires the standard input, which is not available; use a file instead")}
			}
			text, err := io.ReadAll(s.In)
			if err != nil {
				return nil, nil, fmt.Errorf("reading the standard input: %w", err)
			}
			add(path, text, true)
			continue
		}
		err := filepath.WalkDir(path, func(name string, entry fs.DirEntry, err error) error {
			if err != nil || entry.IsDir() {
				return err
			}
			named := name == path
			if ext := filepath.Ext(name); !named && !slices.Contains([]string{".yaml", ".yml", ".json"}, ext) {
				return nil
			}
			// A directory may contain a pipe, which would block, or a symbolic link without a target.
			if !named && !isRegular(name) {
				printf(s.Err, "not checked: %s is not a regular file\n", name)
				return nil
			}
			text, err := os.ReadFile(name) //nolint:gosec // it is read only
			if err == nil && (named || strings.Contains(string(text), "apiVersion")) {
				add(name, text, named)
			}
			return err
		})
		if err != nil {
			return nil, nil, usageError{fmt.Errorf("reading manifests: %w", err)}
		}
	}
	if len(scenarios)+len(manifests) == 0 {
		return nil, nil, usageError{
			fmt.Errorf("nothing to check: %s has neither a scenario nor a manifest", strings.Join(paths, ", "))}
	}
	return scenarios, manifests, nil
}
