package cli

import (
	"fmt"
	"slices"
	"strings"

	"github.com/urfave/cli/v2"

	"github.com/koupleless/koupsandbox/sandbox/api/v1alpha1"
	"github.com/koupleless/koupsandbox/sandbox/internal/explain"
	"github.com/koupleless/koupsandbox/sandbox/internal/lint"
)

func (s *commands) scenarioExplain() *cli.Command {
	return &cli.Command{
		Name:      "explain",
		Usage:     "describe scenario fields, steps, faults and checks, and lint rules",
		ArgsUsage: "[TOPIC]",
		Description: describe(
			`TOPIC is a field path (spec.bases.tunnel), a step (traffic), a fault kind (crash), a check
(truth), the ID of a lint rule (version-missing), or one of: fault, checks, expressions,
rules.`,
			"koupsandbox scenario explain spec.bases", "koupsandbox scenario explain rules"),
		BashComplete: func(*cli.Context) {
			for _, topic := range s.topics() {
				printf(s.Out, "%s\n", topic)
			}
		},
		Action: withArgs(0, 1, "at most one argument: a topic",
			func(c *cli.Context, _ []string) error { return s.explain(c.Args().First()) }),
	}
}

func (s *commands) explain(topic string) error {
	if topic == "rules" {
		rows := [][]string{{"RULE", "LEVEL", "TITLE"}}
		for _, rule := range lint.Rules() {
			rows = append(rows, []string{rule.ID, string(rule.Level), rule.Title})
		}
		table(s.Out, rows)
		return nil
	}
	for _, rule := range lint.Rules() {
		if rule.ID == topic {
			printf(s.Out, "RULE:   %s (%s)\n\n%s.\n\n%s\n\nWhat to do: %s.\n", rule.ID, rule.Level, rule.Title,
				rule.Explanation, rule.Fix)
			return nil
		}
	}
	e, err := explain.New(v1alpha1.ScenarioSchema)
	if err != nil {
		return err
	}
	text, err := e.Topic(topic)
	if err != nil {
		return usageError{fmt.Errorf("%w; topics: %s", err, strings.Join(s.topics(), ", "))}
	}
	printf(s.Out, "%s", text)
	return nil
}

// topics returns the topics that the command explain accepts, sorted, without field paths.
func (s *commands) topics() []string {
	topics := []string{"rules"}
	if e, err := explain.New(v1alpha1.ScenarioSchema); err == nil {
		topics = append(topics, e.Topics()...)
	}
	for _, rule := range lint.Rules() {
		topics = append(topics, rule.ID)
	}
	slices.Sort(topics)
	return slices.Compact(topics)
}
