package cli

import (
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

	"github.com/koupleless/koupsandbox/sandbox/internal/lint"
	"github.com/koupleless/koupsandbox/sandbox/scenario/source"
	"github.com/koupleless/koupsandbox/sandbox/why"
)

func (s *commands) scenarioLint() *cli.Command {
	return &cli.Command{
		Name:      "lint",
		Usage:     "say what is wrong with scenarios, and with Kubernetes manifests of modules",
		ArgsUsage: "PATH...",
		Description: `A PATH is a file, a folder with everything below it, or - for what comes in.
With --live the manifests are compared with a sandbox or, with --context or --kubeconfig, with any
cluster in which this module controller runs. It only reads.
Exit status: 1 when there is an error; warnings alone leave it 0. What a rule means:
koupsandbox scenario explain RULE`,
		Flags: append([]cli.Flag{
			&cli.StringFlag{Name: "env", Usage: "`ENV` that the modules are for", DefaultText: "any, and that is said"},
			&cli.BoolFlag{Name: liveFlag, Usage: "compare the manifests with the bases of a cluster, and say why what is there already is not Ready"},
			annotate(),
			output(formatJSON, formatYAML),
		}, theCluster("of objects that name none")...),
		Action: taking(1, -1, "files and folders, or -", s.lint),
	}
}

func (s *commands) lint(c *cli.Context, paths []string) error {
	var findings []lint.Finding
	scenarios, manifests, err := s.inputs(paths)
	if err != nil {
		return err
	}
	if len(scenarios) > 0 {
		_, err := source.Load(scenarios, source.Options{})
		findings = append(findings, asFindings(err)...)
	}
	o := lint.Options{Env: c.String("env")}
	if err := s.live(c, &o, len(manifests)); err != nil {
		return err
	}
	findings = append(findings, lint.Lint(manifests, o)...)
	err = s.show(c, slices.Concat([]lint.Finding{}, findings), func(bool) {
		for _, f := range findings {
			say(s.Out, "%s\n", f)
		}
		if envs := lint.Environments(manifests); o.Env == "" && o.Live == nil && len(envs) > 0 {
			say(s.Err, "not checked: whether %s is the environment that is meant; say which, with --env\n", strings.Join(envs, ", "))
		}
	})
	if err = errors.Join(err, s.annotate(c, annotationsOf(findings))); err != nil {
		return err
	}
	if slices.ContainsFunc(findings, func(f lint.Finding) bool { return f.Level == lint.Error }) {
		return errFailed
	}
	return nil
}

const liveFlag = "live"

// live has the options ask a cluster, if that is wanted.
func (s *commands) live(c *cli.Context, o *lint.Options, manifests int) error {
	if !c.Bool(liveFlag) {
		for _, flag := range []string{nameFlag, namespaceFlag, "n", contextFlag, kubeconfigFlag} {
			if s.given(flag) {
				return usageError{fmt.Errorf("%s is for --%s, which asks a cluster", dashed(flag), liveFlag)}
			}
		}
		return nil
	}
	if manifests == 0 {
		return usageError{fmt.Errorf("--%s compares manifests with a cluster, and here are only scenarios", liveFlag)}
	}
	client, namespace, err := s.cluster(c)
	if err != nil {
		return err
	}
	bases, err := why.GatherBases(c.Context, client)
	if err != nil {
		return err
	}
	o.Live = &lint.Live{Bases: bases, Now: time.Now(), Namespace: namespace, Why: func(target why.Target) (why.Answer, error) {
		found, err := why.Gather(c.Context, client, target)
		if err != nil {
			return why.Answer{}, err
		}
		return why.Explain(found, time.Now()), nil
	}}
	return nil
}

// asFindings turns the mistakes of scenarios into findings.
func asFindings(err error) []lint.Finding {
	var problems source.Problems
	errors.As(err, &problems)
	var findings []lint.Finding
	for _, p := range problems {
		findings = append(findings, lint.Finding{Rule: "scenario", Level: lint.Error, File: p.Source, Line: p.Line,
			Message: strings.TrimPrefix(p.Field+": "+p.Detail, ": "), Excerpt: p.Excerpt})
	}
	return findings
}

// inputs finds scenario files and manifests.
func (s *commands) inputs(paths []string) (scenarios []string, manifests []lint.Input, err error) {
	add := func(path string, text []byte, named bool) {
		switch {
		case source.IsScenario(text) && path != "-":
			scenarios = append(scenarios, path)
		case named || !strings.Contains(string(text), "${{"): // one with expressions is checked with the scenario that applies it
			manifests = append(manifests, lint.Input{Name: path, Text: text})
		}
	}
	for _, path := range paths {
		if path == "-" {
			if s.In == nil {
				return nil, nil, usageError{fmt.Errorf("nothing comes in for -")}
			}
			text, err := io.ReadAll(s.In)
			if err != nil {
				return nil, nil, fmt.Errorf("reading what comes in: %w", err)
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
		return nil, nil, usageError{fmt.Errorf("there is neither a scenario nor a manifest in %s", strings.Join(paths, ", "))}
	}
	return scenarios, manifests, nil
}
